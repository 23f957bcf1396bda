"""Curves of a run: its metrics over training steps, and what its jobs used over hours."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from danish_asr.base.errors import RunError
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.recipe.run.advice import CHANCE, LOSS
from danish_asr.recipe.run.run_directory import EMA

Curve: TypeAlias = "pd.Series[Any]"
"""Values; the index holds steps or hours, in order."""

_LOSSES: Final = {"training": ("train", LOSS), "validation": ("valid", LOSS)}
_OLD_LOSSES: Final = {name: (file, "CTC Loss") for name, (file, _) in _LOSSES.items()}
_RATES: Final = {
    "WER": ("valid", "Word Error Rate (WER)"),
    "CER": ("valid", "Character Error Rate (CER)"),
    "WER, worst dialect": ("valid", "WER of the worst dialect"),
}
"""Curves, each with its file and its key."""
OF_EMA: Final = ", EMA"
"""The end of the name of a curve of validations with the average of the weights."""


class Panel(NamedTuple):
    """Curves with common axes; ``marks`` are the places ``along`` the axis where a job started."""

    title: str
    unit: str
    curves: Mapping[str, Curve]
    along: str = "step"
    marks: tuple[float, ...] = ()
    logarithmic: bool = False


def read_panels(run_dir: Path, *, detailed: bool = False) -> list[Panel]:
    """Read ``metrics/*.jsonl``, which fairseq2 writes, and ``trace/*.jsonl`` of the jobs.

    ``detailed``: also what a step takes. A curve without values is left out, and so is a panel
    without curves.
    """
    panels = []
    for panel in (*_training_panels(run_dir, detailed=detailed), *_usage_panels(run_dir)):
        curves = {n: known for n, c in panel.curves.items() if len(known := c.dropna())}
        if curves:
            panels.append(panel._replace(curves=curves))
    return panels


def _training_panels(run_dir: Path, *, detailed: bool) -> Iterator[Panel]:
    files = {
        name: run_dir / "metrics" / f"{name}.jsonl" for name in ("train", "valid", f"valid/{EMA}")
    }
    if not any(file.is_file() for file in files.values()):
        raise RunError(
            f"{run_dir}: no metrics/train.jsonl or metrics/valid.jsonl; expected the output "
            "directory of a training run"
        )
    frames = {name: pd.DataFrame(_read(file)) for name, file in files.items()}
    if any(LOSS in frame for frame in frames.values()):
        curves = _metrics(frames, _LOSSES | {"chance": ("train", CHANCE)})
        yield Panel("Loss", "nats per character", curves, logarithmic=True)
    else:  # older versions had no other
        yield Panel("Loss", "CTC loss", _metrics(frames, _OLD_LOSSES))
    yield Panel("Error rates in validation", "%", _metrics(frames, _RATES))
    if detailed:
        yield from _step_panels(frames["train"])


def _metrics(
    frames: Mapping[str, pd.DataFrame], keys: Mapping[str, tuple[str, str]]
) -> dict[str, Curve]:
    ema = {n + OF_EMA: (f"{f}/{EMA}", key) for n, (f, key) in keys.items() if f == "valid"}
    return {name: _metric(frames[file], key) for name, (file, key) in (*keys.items(), *ema.items())}


def _metric(lines: pd.DataFrame, key: str) -> Curve:
    # A resumed run may log a step twice; training continued from the later line.
    return lines.reindex(columns=["Step", key]).groupby("Step")[key].last()


def _step_panels(lines: pd.DataFrame) -> Iterator[Panel]:
    """Yield what each step takes; the lines hold sums since the line before."""
    rate = _metric(lines, "Learning Rate").map(np.max)  # of all groups
    yield Panel("Learning rate", "", {"learning rate": rate})
    norm = _metric(lines, "Gradient Norm")
    yield Panel("Gradient norm", "before clipping", {"norm": norm}, logarithmic=True)

    def per_step(key: str) -> Curve:
        sums = _metric(lines, key)
        each: Curve = sums / np.diff(sums.index, prepend=0)
        return each

    minutes = per_step("Number of Source Elements") / SAMPLE_RATE / 60
    yield Panel("Audio per step", "minutes", {"audio": minutes})
    times = {"all": per_step("Lapse Time"), "waiting for data": per_step("Data Time")}
    yield Panel("Time per step", "seconds", times)
    memory = _metric(lines, "Peak Reserved Device Memory") / 2**30
    yield Panel("GPU memory, peak", "GiB", {"reserved": memory})


def _usage_panels(run_dir: Path) -> list[Panel]:
    """Return GPU and memory use over the hours in which jobs ran.

    Jobs that continued each other form one axis without the waiting time between them. Hosts are
    combined: the mean of all GPUs, the fullest GPU, the sum of the processes' memory.
    """
    files = sorted((run_dir / "trace").glob("*.jsonl"))
    samples = [line | {"job": line["job"] or file.name} for file in files for line in _read(file)]
    if not samples:
        return []
    trace = pd.DataFrame(samples).sort_values("time", kind="stable")
    pause = trace["time"].diff().fillna(0)
    waited = pause > 600  # seconds in the queue, which the curves leave out
    seconds = pause.mask(waited, 0).cumsum()
    starts = seconds[waited | ~trace["job"].duplicated()] / 3600
    # At most 300 points; each is longer than the interval of 10 s, so that all hosts are in it.
    width = max(seconds.iloc[-1] / 300, 15.0)
    trace["hour"] = seconds // width * width / 3600
    gpus = trace.set_index("hour")["gpus"].explode().dropna()
    columns = ["utilisation_percent", "memory_mib", "memory_total_mib"]
    use = pd.DataFrame(list(gpus), gpus.index, columns=columns, dtype=float)
    filled = 100 * use["memory_mib"] / use["memory_total_mib"]
    computing = use["utilisation_percent"].groupby("hour").mean()
    fullest = filled.groupby("hour").max()
    memory = trace.groupby(["hour", "host"])["memory_mib"].max().groupby("hour").sum() / 1024
    marks = tuple(starts[1:])
    gpu_curves = {"computing": computing, "memory of the fullest": fullest}
    return [
        Panel("GPUs", "%", gpu_curves, "hour", marks),
        Panel("Memory of the jobs", "GiB", {"all processes": memory}, "hour", marks),
    ]


def _read(file: Path) -> list[dict[str, Any]]:
    lines = []
    text = file.read_bytes() if file.is_file() else b""
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        if line.endswith(b"\n"):  # or the job was killed while it wrote the line
            try:
                lines.append(json.loads(line))
            except ValueError as error:
                raise RunError(
                    f"{file}:{number}: cannot be read ({error}); remove the line, or score without "
                    "--run"
                ) from None
    return lines
