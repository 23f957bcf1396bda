"""A sweep: a run for each combination of values, in order or each in an element of an array.

Below its directory are ``base.yaml`` (the configuration), ``sweep.json`` (the values) and a
directory for each run, whose files say what it has reached. The same command therefore continues a
sweep that has ended at any time.
"""

import json
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.console import Console
from ruamel.yaml.error import YAMLError

from danish_asr.base.config_tree import Tree, flatten, merge, parse_override, read_yaml, short_names
from danish_asr.base.errors import EXIT_STOPPED, ConfigError, RunError
from danish_asr.base.files import from_yaml, publish_text, take, to_yaml
from danish_asr.base.schema import CARDS_DIR
from danish_asr.base.stops import run_passing_on
from danish_asr.recipe.config.load import load
from danish_asr.recipe.entry import Request, read_trees
from danish_asr.recipe.run.run_directory import FAILED, SWEEP

BASE: Final = "base.yaml"

_LAST_LINES: Final = 10  # of a log, as the reason of a failure
_LIMIT: Final = "trainer.max_wall_minutes"
_IN_USE: Final = "Wait for its end, or stop it; the same command then continues the sweep."


class Sweep(NamedTuple):
    """Runs to train in ``out``; ``minutes`` is the time limit of all of them together."""

    out: Path
    runs: Mapping[str, Sequence[str]]
    """The overrides of each run by its name, which is that of its directory."""
    minutes: float | None


def run_sweep(request: Request, over: Sequence[str], *, only: int | None = None) -> bool:
    """Train the runs of a sweep, or continue it; return whether a run has not failed.

    Args:
        request: The directory of the sweep, and the configuration of all runs.
        over: ``KEY=V1,V2`` for each key with several values.
        only: Train the run of this number alone, from 1.

    Raises:
        ConfigError: A value or a key cannot be used; nothing was written.
        RunError: The directory holds another sweep or a run, or another process trains there.
        SystemExit: With status 75, at a signal or the time limit; the same command continues.
    """
    sweep = open_sweep(request, over)
    out = sweep.out
    names = list(sweep.runs)
    if only is not None:
        if not 1 <= only <= len(names):
            fault = f"--only must be 1 to {len(names)}, but is {only}"
            raise ConfigError([fault], where="the sweep")
        names = [names[only - 1]]
        _Runner(sweep).train(names)
    else:
        lease = take(out, error=RunError, advice=_IN_USE, work="sweep")
        try:
            _Runner(sweep).train(names)
        finally:
            lease.release()
    return not all((out / name / FAILED).is_file() for name in names)


def open_sweep(request: Request, over: Sequence[str]) -> Sweep:
    """Check a sweep and record it, or open the one in ``out``, with more values if there are.

    Raises:
        ConfigError: A value or a key cannot be used; nothing was written.
        RunError: The directory holds another sweep or a run.
    """
    assert request.output_dir is not None
    out, recorded = request.output_dir, dict[str, list[Any]]()
    if (out / SWEEP).is_file():
        recorded = json.loads((out / SWEEP).read_text(encoding="utf-8"))
    grid, faults = _read_grid(over)
    grid = grid or recorded
    if not grid and not faults:
        faults.append("--over is missing, such as --over optimizer.config.lr=1e-5,2e-5")
    given = {override.partition("=")[0] for override in request.overrides}
    faults += [
        f"{key}= has no effect beside --over {key}; leave one out" for key in given & {*grid}
    ]
    if recorded and not request.config_files:
        request = replace(request, config_files=[out / BASE])
    elif not (request.config_files or request.overrides):
        faults.append(f"{out} holds no sweep yet; name its configuration: --config FILE")
    files, overrides = read_trees(request)
    base = merge(*files, *overrides)
    if _LIMIT in grid:
        faults.append(f"{_LIMIT} is set by the sweep itself")
    if faults:
        raise ConfigError(faults, where="the sweep")
    runs = _runs(grid)
    if faults := _wrong_values(base, runs.values()):
        raise ConfigError(faults, where="the sweep")
    section, _, limit = _LIMIT.partition(".")
    minutes = (base.get(section) or {}).pop(limit, None)
    if recorded:
        _check_same(out, dict(flatten(base)), recorded, grid)
    sweep = Sweep(out, runs, minutes)
    publish_text(out / BASE, to_yaml(base))
    publish_text(out / SWEEP, json.dumps(grid, ensure_ascii=False, indent=1) + "\n")
    return sweep


def _read_grid(over: Sequence[str]) -> tuple[dict[str, list[Any]], list[str]]:
    """Return the values of each ``KEY=V1,V2``, which are YAML, and faults."""
    grid: dict[str, list[Any]] = {}
    faults = []
    for text in over:
        key, _, listed = text.partition("=")
        try:
            values = from_yaml(f"[{listed}]")
        except (YAMLError, ValueError):
            faults.append(f"--over {text}: the values are no YAML; is a bracket missing?")
            grid[key] = []
            continue
        distinct = {json.dumps(value) for value in values}
        if key in grid:
            faults.append(f"--over {key} is given twice")
        elif len(values) < 2 or len(distinct) < len(values):
            faults.append(f"--over {text}: expected KEY=V1,V2 with two or more different values")
        grid[key] = values
    return grid, faults


def _wrong_values(base: Tree, runs: Iterable[Sequence[str]]) -> list[str]:
    """Return what the configurations of the runs are refused for, without their data."""
    faults: dict[str, None] = {}
    for overrides in runs:
        try:
            load(merge(base, *map(parse_override, overrides)), where="the sweep")
        except ConfigError as error:
            faults |= dict.fromkeys(error.faults)
    return list(faults)


def _check_same(
    out: Path,
    base: Mapping[str, Any],
    recorded: Mapping[str, Sequence[Any]],
    grid: Mapping[str, Sequence[Any]],
) -> None:
    """Refuse another configuration, other keys, or fewer values, with RunError."""
    before = dict(flatten(read_yaml(out / BASE)))
    changed = [key for key in {**before, **base} if before.get(key) != base.get(key)]
    for key in {**recorded, **grid}:
        lost = [value for value in recorded.get(key, []) if value not in grid.get(key, [])]
        if lost or key not in recorded:
            changed.append(f"--over {key}")
    if changed:
        raise RunError(
            f"{out} holds another sweep; different: {', '.join(changed)}. Name another directory, "
            f"or continue that one with `danish-asr sweep {out}`. To add values to its keys, "
            "--over repeats those that are there."
        )


def _runs(grid: Mapping[str, Sequence[Any]]) -> dict[str, list[str]]:
    """Return the overrides of each combination by its name."""
    names = short_names(grid)
    choices = []  # of each key: a part of the run's name and the override, for each value
    for key, values in grid.items():
        overrides_by_part: dict[str, str] = {}
        for number, value in enumerate(values, 1):
            text = value if isinstance(value, str) else json.dumps(value)
            slug = "-".join(re.findall(r"[\w.+-]+", text))[:40]
            part = f"{names[key]}_{slug}"
            part = f"{part}-{number}" if part in overrides_by_part else part
            overrides_by_part[part] = f"{key}={json.dumps(value)}"
        choices.append(overrides_by_part.items())
    runs = {}
    for combination in product(*choices):
        name = "__".join(part for part, _ in combination)
        runs[name] = [override for _, override in combination]
    return runs


class _Runner:
    """Trains runs one after the other, each in a process that receives the signals too."""

    def __init__(self, sweep: Sweep) -> None:
        self._sweep, self._console = sweep, Console(soft_wrap=True, highlight=False, markup=False)
        self._began = time.monotonic()

    def train(self, names: Sequence[str]) -> None:
        """Bring runs to their ends, except those that are there or have failed."""
        self._console.print(f"{len(names)} of {len(self._sweep.runs)} runs")
        for name in names:
            run = self._sweep.out / name
            complete = (run / CARDS_DIR / f"{name}.yaml").is_file()
            if not complete and not (run / FAILED).is_file():
                self._train(run)

    def _train(self, run: Path) -> None:
        left = (self._sweep.minutes or inf) - (time.monotonic() - self._began) / 60
        if left <= 0:
            self._exit()
        take(run, error=RunError, advice=_IN_USE, work="run").release()
        log = run.with_name(f"{run.name}.log")
        self._console.print(f"{run.name}: log: {log}")
        command = [sys.executable, "-m", "danish_asr", "train", str(run)]
        command += ["--config", str(self._sweep.out / BASE), *self._sweep.runs[run.name]]
        command.append(f"{_LIMIT}={left if left < inf else 'null'}")
        with log.open("ab") as file:
            status, received = run_passing_on(command, output=file)
        if received or status == EXIT_STOPPED:
            self._exit()
        if status:
            file_of_reason = run / FAILED
            if not file_of_reason.is_file():  # its configuration was refused, or it was killed
                lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
                last = "\n".join(lines[-_LAST_LINES:])
                publish_text(file_of_reason, f"status {status}; the end of {log}:\n{last}\n")
            reason = file_of_reason.read_text(encoding="utf-8").strip()
            self._console.print(f"{run.name}: failed: {reason}")
            self._console.print(f"To try it again: rm {file_of_reason}")

    def _exit(self) -> None:
        self._console.print("stopped before the end; the same command continues")
        sys.exit(EXIT_STOPPED)
