"""The shipped configurations: what they resolve to, and that every line of them has an effect."""

import os
from pathlib import Path

import pytest

from danish_asr.data.settings import NO_EFFECT
from danish_asr.recipe.config import AsrConfig
from danish_asr.recipe.loading import flatten, inspect, merge, read_yaml, unstructure
from danish_asr.recipe.step_checks import with_accumulation

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "configs"
GOLDEN = ROOT / "tests" / "golden" / "configs.txt"

GUIDE = "ctc-finetune-danish"
BASE = "standard"
STACKS = {
    "demo": ["demo"],
    "ctc-finetune": ["ctc-finetune"],
    GUIDE: [GUIDE],
    BASE: [BASE],
    "fast": [BASE, "fast"],
    "lean": [BASE, "lean"],
    "a100": [BASE, "a100"],
    "8xa100": [BASE, "a100", "8xa100"],
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
    assert not [key for key in dict(flatten(own.get("dataset", {}))) if key.startswith(NO_EFFECT)]


@pytest.mark.parametrize(
    ("name", "processes", "batches"),
    [(BASE, 1, 8), ("lean", 2, 4), ("fast", 8, 1), ("a100", 4, 1), ("8xa100", 8, 4)],
)
def test_a_preset_has_its_batch_on_any_number_of_gpus(
    name: str, processes: int, batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", str(processes))
    tree = merge(*(read_yaml(CONFIGS / f"{part}.yaml") for part in STACKS[name]))
    config, faults = inspect(AsrConfig, tree)
    assert with_accumulation(config, faults).trainer.grad_accumulation.num_batches == batches
    assert not faults


def test_the_path_in_the_guide_leads_to_the_configurations() -> None:
    linked = ROOT / "workflows" / "recipes" / "wav2vec2" / "asr" / "configs"
    assert (linked / f"{GUIDE}.yaml").read_text() == (CONFIGS / f"{GUIDE}.yaml").read_text()
