"""A sweep: a run for each combination of values, in order or each in an element of an array.

Its directory holds a log and a directory of each run. What a run has reached is in its own files,
so that the same command continues a sweep that has ended at any time.
"""

import json
import re
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Final

from ruamel.yaml.error import YAMLError

from danish_asr.base.config_tree import merge, parse_override, short_names
from danish_asr.base.errors import EXIT_STOPPED, ConfigError
from danish_asr.base.files import check_writable, from_yaml
from danish_asr.base.progress import plain_console
from danish_asr.base.stops import how_it_failed, run_passing_on
from danish_asr.recipe.config.load import load
from danish_asr.recipe.entry import Request, read_trees

_WHERE: Final = "the sweep"


def run_sweep(request: Request, over: Sequence[str], *, only: str | None = None) -> bool:
    """Train the runs of a sweep, or continue them; return whether one has not failed.

    Args:
        request: The directory of the sweep, and the configuration of all runs.
        over: ``KEY=V1,V2`` for each key with several values.
        only: Train the run of this number alone, from 1; with ``/M`` if the sweep has M runs.

    Raises:
        ConfigError: A value or a key cannot be used; nothing was written.
        SystemExit: With status 75, at a signal or the time limit; the same command continues.
    """
    assert request.output_dir is not None
    runs = combinations(over)
    files, overrides = read_trees(request)
    for name, values in runs.items():
        load(merge(*files, *overrides, *map(parse_override, values)), where=f"the run {name}")
    names = [*runs]
    if only is not None:
        number, _, total = only.partition("/")
        numbers = [str(n) for n in range(1, len(names) + 1)]
        if number not in numbers or total not in {"", numbers[-1]}:
            raise ConfigError([f"--only {only}: the sweep has {len(names)} runs"], where=_WHERE)
        names = [names[numbers.index(number)]]
    options = [word for file in request.config_files for word in ("--config", str(file))]
    if request.dataset is not None:
        options += ["--dataset", str(request.dataset)]
    check_writable([request.output_dir], "name another directory")
    succeeded = [
        _train(request.output_dir / name, [*options, *request.overrides, *runs[name]])
        for name in names
    ]
    return any(succeeded)


def combinations(over: Sequence[str]) -> dict[str, list[str]]:
    """Return ``KEY=VALUE`` for each run, by its name; ConfigError for a text without values."""
    grid: dict[str, list[object]] = {}
    for text in over:
        key, _, values = text.partition("=")
        try:
            added = from_yaml(f"[{values}]")
        except (YAMLError, ValueError):
            added = []
        if not added:
            fault = f"--over {text}: expected KEY=V1,V2; is a bracket missing?"
            raise ConfigError([fault], where=_WHERE)
        grid.setdefault(key, []).extend(added)
    names = short_names(grid)
    runs: dict[str, list[str]] = {}
    for combination in product(*grid.values()):
        parts, changes = [], []
        for key, value in zip(grid, combination, strict=True):
            text = json.dumps(value, ensure_ascii=False)
            changes.append(f"{key}={text}")
            slug = "-".join(re.findall(r"[\w.+-]+", text))
            parts.append(f"{names[key]}_{slug[:40]}")
        name = "__".join(parts)
        runs[f"{name}-{len(runs) + 1}" if name in runs else name] = changes
    return runs


def _train(run: Path, options: Sequence[str]) -> bool:
    """Bring a run to its end in a process of its own; return whether it has not failed."""
    log = run.with_name(f"{run.name}.log")
    console = plain_console()
    console.print(f"{run.name}: log: {log}")
    command = [sys.executable, "-m", "danish_asr", "train", str(run), *options]
    with log.open("ab") as file:
        status, received = run_passing_on(command, output=file)
    if received or status == EXIT_STOPPED:
        console.print("stopped before the end; the same command continues")
        sys.exit(EXIT_STOPPED)
    if status:
        console.print(f"{run.name}: {how_it_failed(status)}; see the log")
    return not status
