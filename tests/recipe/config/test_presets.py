"""The shipped configurations: what they resolve to, and that every line of them has an effect."""

import os
from pathlib import Path

from danish_asr.base.config_tree import flatten, merge, read_yaml
from danish_asr.recipe.config.load import load, unstructure
from danish_asr.recipe.config.schema import AsrConfig

ROOT = Path(__file__).parents[3]
CONFIGS = ROOT / "configs"
GOLDEN = ROOT / "tests" / "golden" / "configs.txt"
STACKS = {
    "demo": ["demo"],
    "ctc-finetune": ["ctc-finetune"],
    "ctc-finetune-danish": ["ctc-finetune-danish"],
    "standard": ["standard"],
    "fast": ["standard", "fast"],
    "lean": ["standard", "lean"],
    "float16": ["standard", "float16"],
    "a100": ["standard", "a100"],
    "a100-80": ["standard", "a100-80"],
    "8xa100": ["standard", "a100", "8xa100"],
    "from-encoder": ["standard", "from-encoder"],
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
