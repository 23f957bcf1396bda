"""A user of a cluster with the stand-in for LSF: checkout, source, a tiny configuration."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from danish_asr.yaml_text import from_yaml, to_yaml
from tests.builders import build_source
from tests.lsf_stand_in import Lsf

ROOT = Path(__file__).parents[1]
STEPS = 20
"""How long the tiny model is trained."""


def lsf_user(root: Path) -> Lsf:
    """Everything stands below ``root``, the checkout and the scratch disk too."""
    build_source(root / "source", train=12, dev=6, test=8)
    every: Any = {"validate": STEPS // 2, "checkpoint": STEPS // 2, "publish_metrics": 1}
    config = from_yaml((ROOT / "configs" / "demo.yaml").read_text(encoding="utf-8"))
    encoder = {"num_encoder_layers": 1, "model_dim": 32}
    config["model"]["config_overrides"] = {"encoder_config": encoder}
    config["common"] = {"torch": {"num_threads": 1}}
    config["regime"] = {f"{what}_every_n_steps": number for what, number in every.items()}
    config["regime"]["num_steps"] = STEPS
    (root / "tiny.yaml").write_text(to_yaml(config), encoding="utf-8")
    shutil.copytree(ROOT / "lsf", root / "checkout" / "lsf")
    lsf = Lsf(
        root,
        {
            "ASR_SCRATCH": str(root / "scratch"),
            "ASR_VENV": str(Path(sys.executable).parents[1]),
            "ASR_SOURCE": f"coral:{root / 'source'}",
            "ASR_DATASET": "tiny",
            "ASR_CONFIG": str(root / "tiny.yaml"),
            "FAIRSEQ2_DEVICE": "cpu",
            "OMP_NUM_THREADS": "1",
        },
    )
    lsf.install()
    return lsf


def launcher(lsf: Lsf, name: str) -> Path:
    return lsf.root / "checkout" / "lsf" / name
