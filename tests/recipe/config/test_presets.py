"""The shipped configurations: what they resolve to, and that every line of them has an effect."""

import os
from pathlib import Path

import pytest

from danish_asr.base.config_tree import flatten, merge, read_yaml
from danish_asr.recipe.config.load import load, unstructure
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.train.preflight import with_accumulation

ROOT = Path(__file__).parents[3]


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
    "a100-80": [BASE, "a100-80"],
    "8xa100": [BASE, "a100", "8xa100"],
    "from-encoder": [BASE, "from-encoder"],
}


"""Each configuration with those below it, as its first line says."""


def resolved(*names: str) -> dict[str, object]:
    tree = merge(*(read_yaml(CONFIGS / f"{name}.yaml") for name in names))
    return dict(flatten(unstructure(load(tree, where=names[-1]))))


def test_the_configurations_resolve_to_the_golden_file() -> None:
    """What each file changes; UPDATE_GOLDEN=1 writes it again."""
    assert {file.stem for file in CONFIGS.glob("*.yaml")} == set(STACKS)
    default = dict(flatten(unstructure(AsrConfig())))
    lines = []
    for name, (*below, own) in STACKS.items():
        before = resolved(*below) if below else default
        changed = {k: v for k, v in resolved(*below, own).items() if before[k] != v}
        lines += [f"[{name}]", *(f"{key}: {value}" for key, value in changed.items())]
    text = "".join(f"{line}\n" for line in lines)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


@pytest.mark.parametrize(
    ("name", "processes", "batches"),
    [
        (BASE, 1, 8),
        ("lean", 2, 4),
        ("fast", 8, 1),
        ("a100", 8, 1),
        ("a100-80", 4, 1),
        ("8xa100", 32, 2),
    ],
)
def test_a_preset_has_its_batch_on_any_number_of_gpus(
    name: str, processes: int, batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", str(processes))
    tree = merge(*(read_yaml(CONFIGS / f"{part}.yaml") for part in STACKS[name]))
    config = with_accumulation(load(tree, where=name))
    assert config.trainer.grad_accumulation.num_batches == batches
