"""Directories of runs that nobody trained."""

from pathlib import Path

from danish_asr.base.config_tree import Tree
from danish_asr.base.files import to_yaml

BEFORE: Tree = {"regime": {"num_steps": 8, "num_data_epochs": None}, "dataset": {"name": "mine"}}


def row(step: int, *, rate: float | None = None) -> str:
    value = 10 - step if rate is None else rate
    return f'{{"Step": {step}, "Word Error Rate (WER)": {value}, "Lapse Time": 2.5}}\n'


def only_a_model(run: Path, step: int, before: Tree = BEFORE) -> None:
    """Give a run a last checkpoint without the state of its training."""
    (run / "checkpoints" / f"step_{step}" / "model").mkdir(parents=True)
    (run / "config.yaml").write_text(to_yaml(before))
