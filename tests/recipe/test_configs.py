"""The shipped configurations: what they resolve to, and that every line of them has an effect."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from danish_asr.recipe.config import AsrConfig
from danish_asr.recipe.loading import flatten, inspect, merge, read_yaml, unstructure

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "configs"
GOLDEN = ROOT / "tests" / "golden" / "configs.txt"

BASE = "ctc-finetune-danish"
STACKS = {
    "demo": ["demo"],
    BASE: [BASE],
    "a100": [BASE, "a100"],
    "two-a100": [BASE, "a100", "two-a100"],
    "v2": [BASE, "v2"],
    "1b": [BASE, "a100", "1b"],
    "from-encoder": [BASE, "from-encoder"],
}
"""Each configuration with those below it, as its first line says."""


def resolved(*names: str) -> dict[str, object]:
    tree = merge(*(read_yaml(CONFIGS / f"{name}.yaml") for name in names))
    config, faults = inspect(AsrConfig, tree)
    assert not faults
    return dict(flatten(unstructure(config)))


def test_the_configurations_resolve_to_the_golden_file() -> None:
    """All defaults, then what each file changes; UPDATE_GOLDEN=1 writes it again."""
    assert {file.stem for file in CONFIGS.glob("*.yaml")} == set(STACKS)
    usual = dict(flatten(unstructure(AsrConfig())))
    lines = ["[defaults]", *(f"{key}: {value}" for key, value in usual.items())]
    for name, (*below, own) in STACKS.items():
        before = resolved(*below) if below else usual
        changed = {k: v for k, v in resolved(*below, own).items() if before[k] != v}
        lines += [f"[{name}]", *(f"{key}: {value}" for key, value in changed.items())]
    text = "\n".join(lines) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


@pytest.mark.parametrize("name", STACKS)
def test_a_configuration_holds_only_what_differs(name: str) -> None:
    *below, own = (read_yaml(CONFIGS / f"{part}.yaml") for part in STACKS[name])
    before = dict(flatten(merge(unstructure(AsrConfig()), *below)))
    assert not {key: value for key, value in flatten(own) if before.get(key, "") == value}


def test_the_configuration_for_danish_has_the_values_of_the_guide() -> None:
    storage = "dataset.mixture_parquet_storage_config"
    task = "dataset.asr_task_config"
    guide = {
        "model.name": "omniASR_CTC_300M",
        "dataset.name": "coral_v2_danish",
        "dataset.train_split": "train",
        "dataset.valid_split": "dev",
        "dataset.storage_mode": "MIXTURE_PARQUET",
        "dataset.task_mode": "ASR",
        f"{storage}.dataset_summary_path": "data/parquet/language_distribution_0.tsv",
        f"{storage}.beta_corpus": 0.5,
        f"{storage}.beta_language": 0.5,
        f"{storage}.fragment_loading.cache": True,
        f"{task}.min_audio_len": 32_000,
        f"{task}.max_audio_len": 480_000,
        f"{task}.max_num_elements": 3_840_000,
        f"{task}.batch_shuffle_window": 1,
        f"{task}.normalize_audio": True,
        f"{task}.example_shuffle_window": 1,
        "optimizer.config.lr": 1e-05,
        "trainer.freeze_encoder_for_n_steps": 0,
        "trainer.mixed_precision.dtype": "bfloat16",
        "trainer.grad_accumulation.num_batches": 8,
        "regime.num_steps": 5_000,
        "regime.validate_after_n_steps": 0,
        "regime.validate_every_n_steps": 500,
        "regime.checkpoint_every_n_steps": 500,
        "regime.publish_metrics_every_n_steps": 100,
    }
    config = resolved(BASE)
    assert {key: config[key] for key in guide} == guide


def test_the_path_in_the_guide_leads_to_the_configurations() -> None:
    linked = ROOT / "workflows" / "recipes" / "wav2vec2" / "asr" / "configs"
    assert (linked / f"{BASE}.yaml").read_text() == (CONFIGS / f"{BASE}.yaml").read_text()
