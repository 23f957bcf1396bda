"""A sweep: a run for each combination of values, in order or each in an element of an array.

Below its directory are ``base.yaml`` (the configuration), ``sweep.json`` (the values) and a
directory for each run, whose files say what it has reached. The same command therefore continues a
sweep that has ended at any time.
"""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import product
from math import inf
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

from rich.console import Console
from ruamel.yaml.error import YAMLError

from danish_asr.base.cluster import stop_with_parent
from danish_asr.base.config_tree import Tree, flatten, merge, parse_override, read_yaml, short_names
from danish_asr.base.errors import EXIT_STOPPED, ConfigError, RunError
from danish_asr.base.files import from_yaml, publish_text, to_yaml
from danish_asr.base.lease import take
from danish_asr.base.schema import CARDS_DIR
from danish_asr.recipe.config.keys import key_faults
from danish_asr.recipe.run.continuing import check_output_dir
from danish_asr.recipe.run.run_directory import FAILED, SWEEP

BASE: Final = "base.yaml"

_LIMIT: Final = "trainer.max_wall_minutes"
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
_IN_USE: Final = "Wait for its end, or stop it; the same command then continues the sweep."


class Sweep(NamedTuple):
    """Runs to train in ``out``; ``minutes`` is the time limit of all of them together."""

    out: Path
    runs: Mapping[str, Sequence[str]]
    """The overrides of each run by its name, which is that of its directory."""
    minutes: float | None


def run_sweep(
    out: Path,
    files: Sequence[Path],
    overrides: Sequence[str],
    over: Sequence[str],
    *,
    only: int | None = None,
) -> bool:
    """Train the runs of a sweep, or continue it; return whether a run has not failed.

    With ``only``, train the run of this number, from 1.

    Raises:
        ConfigError: A value or a key cannot be used; nothing was written.
        RunError: ``out`` holds another sweep or a run, or another process trains there.
        SystemExit: With status 75, at a signal or the time limit; the same command continues.
    """
    sweep = open_sweep(out, files, overrides, over)
    names = list(sweep.runs)
    if only is None:
        lease = take(out, error=RunError, advice=_IN_USE, work="sweep")
        try:
            _Runner(sweep).train(names)
        finally:
            lease.release()
    elif 1 <= only <= len(names):
        names = [names[only - 1]]
        _Runner(sweep).train(names)
    else:
        fault = f"--only must be 1 to {len(names)}, but is {only}"
        raise ConfigError([fault], where="the sweep")
    return not all((out / name / FAILED).is_file() for name in names)


def open_sweep(
    out: Path, files: Sequence[Path], overrides: Sequence[str], over: Sequence[str]
) -> Sweep:
    """Check a sweep and record it, or open the one in ``out``, with more values if there are.

    Raises:
        ConfigError: A value or a key cannot be used; nothing was written.
        RunError: ``out`` holds another sweep or a run.
    """
    recorded: dict[str, list[Any]] = {}
    if (out / SWEEP).is_file():
        recorded = json.loads((out / SWEEP).read_text(encoding="utf-8"))
    grid, faults = _read_grid(over)
    grid = grid or recorded
    if not grid and not faults:
        faults.append("--over is missing, such as --over optimizer.config.lr=1e-5,2e-5")
    for override in overrides:
        key = override.partition("=")[0]
        if key in grid:
            faults.append(f"{override} has no effect beside --over {key}; leave one out")
    if not (files or recorded or overrides):
        faults.append(f"{out} holds no sweep yet; name its configuration: --config FILE")
    files = files or ([out / BASE] if recorded else [])
    try:
        base = merge(*map(read_yaml, files), *map(parse_override, overrides))
    except ValueError as error:
        raise ConfigError([str(error)], where="the command line") from None
    faults += _key_faults(base, grid)
    if faults:
        raise ConfigError(faults, where="the sweep")
    section, _, limit = _LIMIT.partition(".")
    minutes = (base.get(section) or {}).pop(limit, None)
    if recorded:
        _check_same(out, base, recorded, grid)
    sweep = Sweep(out, _runs(grid), minutes)
    check_output_dir(out / next(iter(sweep.runs)))
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
            values = []
        if key in grid:
            faults.append(f"--over {key} is given twice")
        elif len(values) < 2:
            fix = "one value for all runs is KEY=VALUE, without --over"
            faults.append(f"--over {text}: expected KEY=V1,V2 with two YAML values or more; {fix}")
        elif len({json.dumps(value) for value in values}) < len(values):
            faults.append(f"--over {text}: a value is given twice")
        grid[key] = values
    return grid, faults


def _key_faults(base: Tree, grid: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return the faults of keys, those of the values to try too."""
    tried = [parse_override(f"{key}={json.dumps(values)}") for key, values in grid.items()]
    faults = key_faults(merge(base, *tried))
    return [*faults, f"{_LIMIT} is set by the sweep itself"] if _LIMIT in grid else faults


def _check_same(
    out: Path,
    base: Tree,
    recorded: Mapping[str, Sequence[Any]],
    grid: Mapping[str, Sequence[Any]],
) -> None:
    """Raise RunError unless a sweep is the recorded one, or adds values to its keys."""
    then, now = dict(flatten(read_yaml(out / BASE))), dict(flatten(base))
    changed = [key for key in sorted(then.keys() | now.keys()) if then.get(key) != now.get(key)]
    for key in sorted(recorded.keys() | grid.keys()):
        missing = [value for value in recorded.get(key, []) if value not in grid.get(key, [])]
        if missing or key not in recorded:
            changed.append(f"--over {key}")
    if changed:
        raise RunError(
            f"{out} holds another sweep; different: {', '.join(changed)}. Name another directory, "
            f"or continue that one with `danish-asr sweep {out}`. To add values to its keys, "
            "--over repeats those that are there."
        )


def _runs(grid: Mapping[str, Sequence[Any]]) -> dict[str, list[str]]:
    """Return the overrides of each combination by its name."""
    short = short_names(grid)
    choices = []  # of each key: a part of the run's name and the override, for each value
    for key, values in grid.items():
        slugs = _slugs(values)
        choices.append(
            [
                (f"{short[key]}_{slug}", f"{key}={json.dumps(value)}")
                for slug, value in zip(slugs, values, strict=True)
            ]
        )
    runs = {}
    for chosen in product(*choices):
        name = "__".join(part for part, _ in chosen)
        runs[name] = [override for _, override in chosen]
    return runs


def _slugs(values: Sequence[Any]) -> list[str]:
    """Return a part of a file's name for each value."""
    slugs: list[str] = []
    for value in values:
        text = value if isinstance(value, str) else json.dumps(value)
        slug = "-".join(re.findall(r"[\w.+-]+", text))[:40]
        slugs.append(f"{slug}-{len(slugs) + 1}" if slug in slugs else slug)
    return slugs


class _Runner:
    """Trains runs one after the other, each in a process that receives the signals too."""

    def __init__(self, sweep: Sweep) -> None:
        self._sweep, self._console = sweep, Console()
        self._began = time.monotonic()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        for number in _SIGNALS:
            signal.signal(number, self._stop)

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        self._stopped = True
        if self._process is not None:
            self._process.send_signal(number)

    def _say(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, highlight=False, markup=False)

    def train(self, names: Sequence[str]) -> None:
        """Bring runs to their ends, except those that are there or have failed."""
        self._say(f"{len(names)} of {len(self._sweep.runs)} runs")
        for name in names:
            run = self._sweep.out / name
            complete = (run / CARDS_DIR / f"{name}.yaml").is_file()
            if not complete and not (run / FAILED).is_file():
                self._train(run)

    def _train(self, run: Path) -> None:
        left = (self._sweep.minutes or inf) - (time.monotonic() - self._began) / 60
        if self._stopped or left <= 0:
            self._exit()
        take(run, error=RunError, advice=_IN_USE, work="run").release()
        log = run.with_name(f"{run.name}.log")
        self._say(f"{run.name}: log: {log}")
        command = [sys.executable, "-m", "danish_asr.recipe", str(run)]
        command += ["--config-file", str(self._sweep.out / BASE)]
        command += ["--config", *self._sweep.runs[run.name]]
        command.append(f"{_LIMIT}={left if left < inf else 'null'}")
        with log.open("ab") as file:
            start = log.stat().st_size
            self._process = subprocess.Popen(  # noqa: S603
                command,
                stdout=file,
                stderr=subprocess.STDOUT,
                process_group=0,  # a signal to that of the sweep would reach the run twice
                preexec_fn=stop_with_parent,  # noqa: PLW1509
            )
            if self._stopped:  # meanwhile
                self._process.terminate()
            status = self._process.wait()
            self._process = None
        if self._stopped or status == EXIT_STOPPED:
            self._exit()
        if status:
            self._fail(run, status, log.read_bytes()[start:].decode(errors="replace"))

    def _fail(self, run: Path, status: int, printed: str) -> None:
        """Note why a run failed, unless it has done so itself."""
        file = run / FAILED
        if not file.is_file():
            _, error, reason = printed.rpartition("error: ")
            publish_text(file, reason if error else f"ended with status {status}; see {run}.log\n")
        reason = file.read_text(encoding="utf-8").strip()
        self._say(f"{run.name}: failed: {reason}\nTo try it again: rm {file}")

    def _exit(self) -> None:
        self._say("stopped before the end; the same command continues")
        sys.exit(EXIT_STOPPED)
