"""The mean of a run's last checkpoints, as a run of its own.

In: OUTDIR with several checkpoints. Out: ``OUTDIR-last-<n>`` with one, whole or not at all.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Final, NamedTuple

import torch
from torch import Tensor

from danish_asr.base.config_tree import flatten
from danish_asr.base.errors import RunError, note
from danish_asr.base.files import publish
from danish_asr.recipe.run.run import (
    CHECKPOINTS,
    CONFIG_FILE,
    ENVIRONMENT,
    MODEL_CARD,
    TOKENIZER,
    Checkpoint,
    Run,
)
from danish_asr.recipe.train.record import model_card

_COPIED: Final = (
    *(CONFIG_FILE, ENVIRONMENT, f"{CHECKPOINTS}/{MODEL_CARD}", f"{CHECKPOINTS}/{TOKENIZER}"),
)
"""What an average takes of its run."""


class Average(NamedTuple):
    """The directory of an average, and the steps whose checkpoints it is the mean of."""

    folder: Path
    steps: Sequence[int]


def average(folder: Path, last: int) -> Average:
    """Write the mean of a run's ``last`` kept checkpoints as the run ``<run>-last-<n>`` beside it.

    The new run has one checkpoint, under the step of the newest one.

    Raises:
        RunError: ``folder`` is not a run, has too few checkpoints, or sharded or damaged ones; or
            the new directory exists or cannot be written.
    """
    run = Run(folder.absolute())
    if missing := [name for name in _COPIED if not (run.folder / name).is_file()]:
        raise RunError(f"{folder}: expected the OUTDIR of a run, with {', '.join(missing)}")
    if len(run.steps) < last:
        raise RunError(f"{folder} has {len(run.steps)} checkpoints, fewer than --last {last}")
    new = run.folder.with_name(f"{run.folder.name}-last-{last}")
    if new.exists():
        raise RunError(f"{new} exists; delete it to average again")
    if not run.completion(dict(flatten(run.config))):
        fix = f"when it is, delete {new} and average again"
        note(f"{folder} is not complete, but at step {run.last:,}; {fix}")
    steps = run.steps[-last:]
    files = [_weights_file(run.at(step)) for step in steps]
    mean = _mean(files)
    partial = new.with_name(f".{new.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # of one that was killed
    try:
        with publish(partial / files[-1].relative_to(run.folder)) as stream:
            torch.save(mean, stream)
        for name in _COPIED:
            shutil.copyfile(run.folder / name, partial / name)
        model_card(Run(partial), new.name)
        partial.rename(new)
    except (OSError, RuntimeError) as error:  # of which torch makes one of a full disk
        raise RunError(f"{new} cannot be written: {error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return Average(new, steps)


def _weights_file(checkpoint: Checkpoint) -> Path:
    files = list(checkpoint.weights.rglob("sdp_*.pt"))
    if len(files) != 1:
        fault = "is sharded over several processes; such weights are not averaged"
        raise RunError(f"{checkpoint.weights} {fault}")
    return files[0]


def _mean(files: Sequence[Path]) -> dict[str, Tensor]:
    """Return the mean of each tensor, summed in float64, in the type that it has in the files."""
    sums: dict[str, Tensor] = {}
    for file in files:
        try:
            state: dict[str, Tensor] = torch.load(file, map_location="cpu", weights_only=True)
        except (RuntimeError, EOFError, UnpicklingError) as error:
            fix = "delete its step and average fewer checkpoints"
            raise RunError(f"{file} is damaged ({error}); {fix}") from error
        for name, value in state.items():
            sums[name] = sums.get(name, 0) + value.double()
    return {name: (total / len(files)).to(state[name].dtype) for name, total in sums.items()}
