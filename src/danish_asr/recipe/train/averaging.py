"""The mean of a run's last checkpoints, written as a run of its own: ``danish-asr average``.

Izmailov et al. (2018), "Averaging Weights Leads to Wider Optima and Better Generalization".
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from danish_asr.base.config_tree import read_yaml
from danish_asr.base.errors import RunError
from danish_asr.base.files import publish_text, to_yaml
from danish_asr.base.schema import CARDS_DIR
from danish_asr.recipe.run.run_directory import (
    CHECKPOINTS,
    CONFIG_FILE,
    ENVIRONMENT,
    MODEL_CARD,
    TOKENIZER,
    checkpoint_steps,
)

_SHARD: Final = Path("pp_00/tp_00/sdp_00.pt")


def average(run: Path, last: int) -> Path:
    """Write the mean of a run's ``last`` kept checkpoints as the run ``<run>-last-<n>`` beside it.

    The new run has one checkpoint, under the step of the newest one. Returns its directory.

    Raises:
        RunError: ``run`` is not a complete run, has too few checkpoints or sharded ones, or the new
            directory exists.
    """
    run = run.absolute()
    steps, cards = checkpoint_steps(run), sorted((run / CARDS_DIR).glob("*.yaml"))
    if not (run / CONFIG_FILE).is_file() or not cards:
        raise RunError(f"{run}: expected the OUTDIR of a complete run, with {CONFIG_FILE} and card")
    if len(steps) < last:
        raise RunError(f"{run} has {len(steps)} checkpoints, fewer than --last {last}")
    average_run = run.with_name(f"{run.name}-last-{last}")
    if average_run.exists():
        raise RunError(f"{average_run} exists; delete it to average again")
    unfinished = average_run.with_name(f"{average_run.name}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    step = steps[-1]
    weights = unfinished / CHECKPOINTS / f"step_{step}" / "model" / _SHARD
    weights.parent.mkdir(parents=True)
    torch.save(_mean([_weights_file(run, step) for step in steps[-last:]]), weights)
    card = read_yaml(cards[0])
    copied = [
        *(CONFIG_FILE, ENVIRONMENT, f"{CHECKPOINTS}/{MODEL_CARD}"),
        *(f"{CHECKPOINTS}/{TOKENIZER}", f"{CARDS_DIR}/{TOKENIZER}"),
    ]
    (unfinished / CARDS_DIR).mkdir()
    for name in copied:
        shutil.copyfile(run / name, unfinished / name)
    card |= {"name": average_run.name, "checkpoint": f"../{CHECKPOINTS}/step_{step}/model"}
    publish_text(unfinished / CARDS_DIR / f"{average_run.name}.yaml", to_yaml(card))
    unfinished.rename(average_run)
    return average_run


def _weights_file(run: Path, step: int) -> Path:
    folder = run / CHECKPOINTS / f"step_{step}" / "model"
    if len(list(folder.rglob("sdp_*.pt"))) != 1:
        raise RunError(f"{folder} is sharded over several processes; such weights are not averaged")
    return folder / _SHARD


def _mean(files: Sequence[Path]) -> dict[str, Tensor]:
    """Return the mean of each tensor, summed in float64, in the type that it has in the files."""
    sums: dict[str, Tensor] = {}
    for file in files:
        state: dict[str, Tensor] = torch.load(file, map_location="cpu", weights_only=True)
        for name, value in state.items():
            sums[name] = sums.get(name, 0) + value.double()
    return {name: (total / len(files)).to(state[name].dtype) for name, total in sums.items()}
