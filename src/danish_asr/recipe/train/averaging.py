"""The mean of a run's last checkpoints, written as a run of its own: ``danish-asr average``.

Izmailov et al. (2018), "Averaging Weights Leads to Wider Optima and Better Generalization".
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from danish_asr.base.errors import RunError
from danish_asr.recipe.run import run_directory
from danish_asr.recipe.run.run_directory import CHECKPOINTS
from danish_asr.recipe.train.record import write_model_card

_COPIED: Final = (
    *(run_directory.CONFIG_FILE, run_directory.ENVIRONMENT),
    *(f"{CHECKPOINTS}/{run_directory.MODEL_CARD}", f"{CHECKPOINTS}/{run_directory.TOKENIZER}"),
)


def average(run: Path, last: int) -> Path:
    """Write the mean of a run's ``last`` kept checkpoints as the run ``<run>-last-<n>`` beside it.

    The new run has one checkpoint, under the step of the newest one. Returns its directory.

    Raises:
        RunError: ``run`` is not a run, has too few checkpoints or sharded ones, or the new
            directory exists.
    """
    run = run.absolute()
    if missing := [name for name in _COPIED if not (run / name).is_file()]:
        raise RunError(f"{run}: expected the OUTDIR of a run, with {', '.join(missing)}")
    steps = run_directory.checkpoint_steps(run)
    if len(steps) < last:
        raise RunError(f"{run} has {len(steps)} checkpoints, fewer than --last {last}")
    average_run = run.with_name(f"{run.name}-last-{last}")
    if average_run.exists():
        raise RunError(f"{average_run} exists; delete it to average again")
    files = [_weights_file(run, step) for step in steps[-last:]]
    mean = _mean(files)
    weights = average_run / files[-1].relative_to(run)
    weights.parent.mkdir(parents=True)
    for name in _COPIED:
        shutil.copyfile(run / name, average_run / name)
    torch.save(mean, weights)
    write_model_card(average_run)
    return average_run


def _weights_file(run: Path, step: int) -> Path:
    folder = run / CHECKPOINTS / f"step_{step}" / "model"
    files = list(folder.rglob("sdp_*.pt"))
    if len(files) != 1:
        raise RunError(f"{folder} is sharded over several processes; such weights are not averaged")
    return files[0]


def _mean(files: Sequence[Path]) -> dict[str, Tensor]:
    """Return the mean of each tensor, summed in float64, in the type that it has in the files."""
    sums: dict[str, Tensor] = {}
    for file in files:
        state: dict[str, Tensor] = torch.load(file, map_location="cpu", weights_only=True)
        for name, value in state.items():
            sums[name] = sums.get(name, 0) + value.double()
    return {name: (total / len(files)).to(state[name].dtype) for name, total in sums.items()}
