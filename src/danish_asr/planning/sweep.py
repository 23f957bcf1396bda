"""A sweep: a run for each combination of values, in order or each in an element of an array.

Its directory holds a log and a directory of each run, and their configurations in ``configs``. What
a run has reached is in its own files, so a sweep that has ended at any time continues.
"""

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Final

from rich.console import Console
from ruamel.yaml.error import YAMLError

from danish_asr.base.config_tree import Tree, merge, parse_override, read_yaml, short_names
from danish_asr.base.errors import EXIT_STOPPED, ConfigError, RunError
from danish_asr.base.files import from_yaml, publish_text, take, to_yaml
from danish_asr.base.schema import CARDS_DIR
from danish_asr.base.stops import run_passing_on
from danish_asr.recipe.config.load import load
from danish_asr.recipe.entry import Request, read_trees
from danish_asr.recipe.run.run_directory import FAILED

_CONFIGS: Final = "configs"
_LAST_LINES: Final = 10  # of a log, as the reason of a failure
_LIMIT: Final = "trainer.max_wall_minutes="
_WHERE: Final = "the sweep"


def run_sweep(request: Request, over: Sequence[str], *, only: int | None = None) -> bool:
    """Train the runs of a sweep, or continue it; return whether a run has not failed.

    Args:
        request: The directory of the sweep, and the configuration of all runs.
        over: ``KEY=V1,V2`` for each key with several values; without it the recorded runs continue.
        only: Train the run of this number alone, from 1.

    Raises:
        ConfigError: A value or a key cannot be used; nothing was written.
        RunError: A run of the same name has other values, or another process trains it.
        SystemExit: With status 75, at a signal or the time limit; the same command continues.
    """
    assert request.output_dir is not None
    out = request.output_dir
    # A job has another limit at each start, so that it is not recorded.
    limit = [text for text in request.overrides if text.startswith(_LIMIT)]
    values = [text for text in request.overrides if text not in limit]
    trees = open_sweep(replace(request, overrides=values), over)
    runs = [out / name for name in trees]
    if only is not None:
        if not 1 <= only <= len(runs):
            raise ConfigError([f"--only must be 1 to {len(runs)}, but is {only}"], where=_WHERE)
        runs = [runs[only - 1]]
    for name, tree in trees.items():
        publish_text(out / _CONFIGS / f"{name}.yaml", to_yaml(tree))
    for run in runs:
        _train(run, limit)
    return not all((run / FAILED).is_file() for run in runs)


def open_sweep(request: Request, over: Sequence[str]) -> dict[str, Tree]:
    """Return the configuration of each run by its name, checked; write nothing.

    Raises:
        ConfigError: A value or a key cannot be used.
        RunError: A run of the same name has other values.
    """
    assert request.output_dir is not None
    out = request.output_dir
    files = sorted((out / _CONFIGS).glob("*.yaml"))
    recorded = {file.stem: read_yaml(file) for file in files}
    if not over and (request.config_files or request.dataset or not recorded):
        fault = f"{out} needs --over KEY=V1,V2; without options a recorded sweep continues"
        raise ConfigError([fault], where=_WHERE)
    below, overrides = read_trees(request)
    trees = {name: merge(tree, *overrides) for name, tree in recorded.items()}
    if over:
        base = merge(*below, *overrides)
        trees = {name: merge(base, *changes) for name, changes in combinations(over).items()}
    for name, tree in trees.items():
        load(tree, where=f"the run {name}")
        if recorded.get(name, tree) != tree:
            raise RunError(
                f"{out / _CONFIGS / name}.yaml has other values; name another directory, or "
                f"continue that sweep with `danish-asr sweep {out}`"
            )
    return trees


def combinations(over: Sequence[str]) -> dict[str, list[Tree]]:
    """Return the changes of each run by its name; raises ConfigError for a text without values."""
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
    choices = []  # of each key: a part of the run's name and the change, for each value
    for key, own in grid.items():
        changes: dict[str, Tree] = {}
        for number, value in enumerate(own, 1):
            text = value if isinstance(value, str) else json.dumps(value)
            slug = "-".join(re.findall(r"[\w.+-]+", text))[:40]
            part = f"{names[key]}_{slug}"
            part = f"{part}-{number}" if part in changes else part
            changes[part] = parse_override(f"{key}={json.dumps(value)}")
        choices.append(changes.items())
    runs = {}
    for combination in product(*choices):
        name = "__".join(part for part, _ in combination)
        runs[name] = [change for _, change in combination]
    return runs


def _train(run: Path, limit: Sequence[str]) -> None:
    """Bring a run to its end, unless it is there or has failed, in a process of its own."""
    failed, log = run / FAILED, run.with_name(f"{run.name}.log")
    if failed.is_file() or (run / CARDS_DIR / f"{run.name}.yaml").is_file():
        return
    advice = "Wait for its end, or stop it; the same command then continues the sweep."
    take(run, error=RunError, advice=advice, work="run").release()
    console = Console(soft_wrap=True, highlight=False, markup=False)
    console.print(f"{run.name}: log: {log}")
    config = run.parent / _CONFIGS / f"{run.name}.yaml"
    command = [sys.executable, "-m", "danish_asr", "train", str(run), "--config", str(config)]
    with log.open("ab") as file:
        status, received = run_passing_on([*command, *limit], output=file)
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
