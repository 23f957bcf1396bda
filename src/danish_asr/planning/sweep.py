"""A sweep: a run for each combination of values, in order or each in an element of an array.

Below its directory are ``base.yaml`` (the configuration), ``sweep.json`` (the values) and a
directory for each run, whose files say what it has reached. The same command therefore continues a
sweep that has ended at any time.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
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
_LIMIT: Final = "max_wall_minutes"
_IN_USE: Final = "Wait for its end, or stop it; the same command then continues the sweep."

_Grid = dict[str, list[Any]]


class Sweep(NamedTuple):
    """The configuration of all runs, and the values of each key that differs."""

    base: Tree
    grid: _Grid
    runs: Mapping[str, Sequence[str]]
    """The overrides of each run by its name, which is that of its directory."""
    minutes: float | None
    """The time limit of a run. A job has another one at each start, so that it is not recorded."""


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
    assert request.output_dir is not None
    out = request.output_dir
    sweep = open_sweep(request, over)
    runs = [out / name for name in sweep.runs]
    if only is not None:
        if not 1 <= only <= len(runs):
            fault = f"--only must be 1 to {len(runs)}, but is {only}"
            raise ConfigError([fault], where="the sweep")
        runs = [runs[only - 1]]
    # The elements of an array work side by side; each has the lock of its run.
    lease = take(out, error=RunError, advice=_IN_USE, work="sweep") if only is None else None
    try:
        publish_text(out / BASE, to_yaml(sweep.base))
        publish_text(out / SWEEP, json.dumps(sweep.grid, ensure_ascii=False, indent=1) + "\n")
        for run in runs:
            _train(sweep, run)
    finally:
        if lease:
            lease.release()
    return not all((run / FAILED).is_file() for run in runs)


def open_sweep(request: Request, over: Sequence[str]) -> Sweep:
    """Check a sweep, or open the one in its directory; write nothing.

    Raises:
        ConfigError: A value or a key cannot be used.
        RunError: The directory holds another sweep or a run.
    """
    assert request.output_dir is not None
    out = request.output_dir
    recorded = (out / SWEEP).is_file()
    grid = _read_grid(over)
    if recorded and not grid:
        grid = json.loads((out / SWEEP).read_text(encoding="utf-8"))
    if recorded and not request.config_files:
        request = replace(request, config_files=[out / BASE])
    if not grid or not (request.config_files or request.overrides):
        fault = f"{out} holds no sweep yet; name its configuration and values: --config, --over"
        raise ConfigError([fault], where="the sweep")
    files, overrides = read_trees(request)
    base = merge(*files, *overrides)
    minutes = (base.get("trainer") or {}).pop(_LIMIT, None)
    sweep = Sweep(base, grid, _runs(grid), minutes)
    faults: dict[str, None] = {}
    for run_overrides in sweep.runs.values():
        try:
            load(merge(base, *map(parse_override, run_overrides)), where="the sweep")
        except ConfigError as error:
            faults |= dict.fromkeys(error.faults)
    if faults:
        raise ConfigError(list(faults), where="the sweep")
    if recorded:
        _check_same(out, sweep)
    return sweep


def _read_grid(over: Sequence[str]) -> _Grid:
    """Return the values of each ``KEY=V1,V2``, which are YAML."""
    grid: _Grid = {}
    faults = []
    for text in over:
        key, _, values = text.partition("=")
        if key in grid:
            faults.append(f"--over {key} is there twice")
        try:
            grid[key] = from_yaml(f"[{values}]")
        except (YAMLError, ValueError):
            grid[key] = []
        if not grid[key]:
            faults.append(f"--over {text}: expected KEY=V1,V2; is a bracket missing?")
    if faults:
        raise ConfigError(faults, where="the sweep")
    return grid


def _check_same(out: Path, sweep: Sweep) -> None:
    """Refuse another configuration or other values than those recorded, with RunError."""
    grid = json.loads((out / SWEEP).read_text(encoding="utf-8"))
    before = dict(flatten(read_yaml(out / BASE))) | {f"--over {key}": grid[key] for key in grid}
    now = dict(flatten(sweep.base)) | {f"--over {key}": sweep.grid[key] for key in sweep.grid}
    if changed := [key for key in {**before, **now} if before.get(key) != now.get(key)]:
        raise RunError(
            f"{out} holds another sweep; different: {', '.join(changed)}. Name another directory, "
            f"or continue that one with `danish-asr sweep {out}`"
        )


def _runs(grid: _Grid) -> dict[str, list[str]]:
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


def _train(sweep: Sweep, run: Path) -> None:
    """Bring a run to its end, unless it is there or has failed, in a process of its own."""
    failed, log = run / FAILED, run.with_name(f"{run.name}.log")
    if failed.is_file() or (run / CARDS_DIR / f"{run.name}.yaml").is_file():
        return
    take(run, error=RunError, advice=_IN_USE, work="run").release()
    console = Console(soft_wrap=True, highlight=False, markup=False)
    console.print(f"{run.name}: log: {log}")
    command = [sys.executable, "-m", "danish_asr", "train", str(run)]
    command += ["--config", str(run.with_name(BASE)), *sweep.runs[run.name]]
    if sweep.minutes:
        command.append(f"trainer.{_LIMIT}={sweep.minutes}")
    with log.open("ab") as file:
        status, received = run_passing_on(command, output=file)
    if received or status == EXIT_STOPPED:
        console.print("stopped before the end; the same command continues")
        sys.exit(EXIT_STOPPED)
    if not status:
        return
    if not failed.is_file():  # its configuration was refused, or it was killed
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        last = "\n".join(lines[-_LAST_LINES:])
        publish_text(failed, f"status {status}; the end of {log}:\n{last}\n")
    reason = failed.read_text(encoding="utf-8").strip()
    console.print(f"{run.name}: failed: {reason}\nTo try it again: rm {failed}")
