"""The shipped configurations: what they resolve to, and that every line of them has an effect."""

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
    "ctc-finetune": ["ctc-finetune"],
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


def test_the_path_in_the_guide_leads_to_the_configurations() -> None:
    linked = ROOT / "workflows" / "recipes" / "wav2vec2" / "asr" / "configs"
    assert (linked / f"{BASE}.yaml").read_text() == (CONFIGS / f"{BASE}.yaml").read_text()
