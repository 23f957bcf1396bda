"""What a sweep is: a configuration, the values that its runs differ in, and where they stop.

Below its directory are ``base.yaml`` (the configuration), ``sweep.json`` (the rest) and a directory
for each run.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
from math import ceil
from pathlib import Path
from typing import Any, Final

from ruamel.yaml.error import YAMLError

from danish_asr.base.config_tree import Tree, flatten, merge, parse_override, read_yaml, short_names
from danish_asr.base.errors import ConfigError, RunError
from danish_asr.base.files import from_yaml, publish_text, to_yaml
from danish_asr.recipe.config.keys import defaults, key_faults
from danish_asr.recipe.run.run_directory import SWEEP, check_output_dir

BASE: Final = "base.yaml"
KEEP: Final = 0.5
RUNGS: Final = 2
LIMIT: Final = "trainer.max_wall_minutes"
STOP: Final = "regime.stop_at_step"

_STEPS: Final = "regime.num_steps"
_EVERY: Final = "regime.validate_every_n_steps"
_SPLIT: Final = "dataset.valid_split"
_OWN: Final = (STOP, LIMIT)
"""Keys that the sweep sets in each run."""

Grid = Mapping[str, Sequence[Any]]
"""The values of each dotted key."""


@dataclass(frozen=True)
class Rungs:
    """Successive halving (Jamieson and Talwalkar 2016).

    All runs go to the first of ``rungs`` steps, and the better ``keep`` of those that are at a rung
    to the next one. 0 rungs: no halving.
    """

    keep: float = KEEP
    rungs: int = RUNGS

    def steps(self, values: Mapping[str, Any]) -> list[int]:
        """Return the steps of the rungs: shares of ``num_steps``, rounded up to a validation."""
        last, every = values[_STEPS] or 0, values[_EVERY] or 1
        shares = [self.keep ** (self.rungs - n) for n in range(self.rungs)]
        steps = {every * ceil(last * share / every) for share in shares}
        return sorted(step for step in steps if step < last)

    def faults(self, values: Mapping[str, Any], over: Grid) -> Iterator[str]:
        """Yield why the runs cannot be compared at rungs."""
        if not 0 < self.keep < 1:
            yield f"--keep must be above 0 and below 1, but is {self.keep}"
        elif self.rungs and not (values[_STEPS] and values[_EVERY] and values[_SPLIT]):
            yield f"rungs need {_STEPS}, {_EVERY} and {_SPLIT}; set them, or take --rungs 0"
        elif varied := sorted({_STEPS, _EVERY} & {*over}):
            if self.rungs:
                yield f"{varied[0]} moves the rungs, where runs are compared; take --rungs 0"
        elif self.rungs and not self.steps(values):
            yield (
                f"{_EVERY}={values[_EVERY]} leaves no rung before {_STEPS}={values[_STEPS]}; "
                "validate more often, or take --rungs 0"
            )


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A sweep in ``out``; ``minutes`` is the time limit of all its runs together."""

    out: Path
    base: Tree
    over: Grid
    halving: Rungs
    minutes: float | None

    @cached_property
    def runs(self) -> dict[str, list[str]]:
        """The overrides of each run by its name, which is that of its directory."""
        short = short_names(self.over)
        named = [
            [
                (f"{short[key]}_{slug}", f"{key}={json.dumps(value)}")
                for slug, value in zip(_slugs(values), values, strict=True)
            ]
            for key, values in self.over.items()
        ]
        return {
            "__".join(name for name, _ in run): [override for _, override in run]
            for run in product(*named)
        }

    @property
    def values(self) -> Tree:
        """The value of each dotted key, before those of a run."""
        return defaults() | dict(flatten(self.base))

    @property
    def rungs(self) -> list[int]:
        """The steps after which the runs are compared."""
        return self.halving.steps(self.values)


def open_sweep(
    out: Path,
    files: Sequence[Path],
    overrides: Sequence[str],
    over: Sequence[str],
    *,
    keep: float | None = None,
    rungs: int | None = None,
    only: int | None = None,
) -> Sweep:
    """Check a sweep and record it, or open the one in ``out``, with more values if there are.

    What is not given is as in the sweep that is there.

    Raises:
        ConfigError: A value, a key or the rungs cannot be used; nothing was written.
        RunError: ``out`` holds another sweep or a run.
    """
    known, halving, own = _recorded(out)
    grid, faults = _parse(over, known)
    faults += [
        f"{text} has no effect beside --over {key}=...; leave one of them out"
        for text in overrides
        if (key := text.partition("=")[0]) in (grid or known)
    ]
    if not (grid or known or faults):
        faults = ["--over is missing, such as --over optimizer.config.lr=1e-5,2e-5"]
    if not (files or own or overrides):
        faults.append(f"{out} holds no sweep yet; name its configuration: --config FILE")
    try:
        base = merge(*map(read_yaml, files or own), *map(parse_override, overrides))
    except ValueError as error:
        raise ConfigError([str(error)], where="the command line") from None
    halving = Rungs(
        halving.keep if keep is None else keep, halving.rungs if rungs is None else rungs
    )
    faults += _key_faults(base, grid)
    # The rungs depend on values whose types are not known before.
    faults = faults or [*halving.faults(defaults() | dict(flatten(base)), grid or known)]
    if faults:
        raise ConfigError(faults, where="the sweep")
    section, _, limit = LIMIT.partition(".")
    minutes = (base.get(section) or {}).pop(limit, None)
    whole = _extended(out, base, known, grid) if known else grid
    sweep = Sweep(out=out, base=base, over=whole, halving=halving, minutes=minutes)
    if only is not None and not 1 <= only <= len(sweep.runs):
        fault = f"--only must be 1 to {len(sweep.runs)}, but is {only}"
        raise ConfigError([fault], where="the sweep")
    check_output_dir(out / next(iter(sweep.runs)))
    publish_text(out / BASE, to_yaml(base))
    document = {"over": sweep.over, "halving": asdict(halving)}
    publish_text(out / SWEEP, json.dumps(document, ensure_ascii=False, indent=1) + "\n")
    return sweep


def _recorded(out: Path) -> tuple[Grid, Rungs, list[Path]]:
    """Return the grid and the rungs of the sweep that is there, and its configuration."""
    if not (out / SWEEP).is_file():
        return {}, Rungs(), []
    recorded = json.loads((out / SWEEP).read_text(encoding="utf-8"))
    return recorded["over"], Rungs(**recorded["halving"]), [out / BASE]


def _key_faults(base: Tree, grid: Grid) -> list[str]:
    """Return unknown keys and values of a wrong type in the configurations of all runs."""
    found = dict.fromkeys(f"{key} is set by the sweep itself" for key in grid if key in _OWN)
    found |= dict.fromkeys(key_faults(base))
    for key, values in grid.items():
        for value in values:
            tree = parse_override(f"{key}={json.dumps(value)}")
            found |= dict.fromkeys(key_faults(merge(base, tree)))
    return [*found]


def _parse(over: Sequence[str], known: Grid) -> tuple[dict[str, list[Any]], list[str]]:
    """Return the values of ``KEY=V1,V2``, each in YAML, and faults; one is enough if ``known``."""
    grid: dict[str, list[Any]] = {}
    faults = []
    for text in over:
        key, equals, listed = text.partition("=")
        try:
            values = from_yaml(f"[{listed}]")
        except (YAMLError, ValueError):
            faults.append(f"--over {text}: expected values in YAML with commas between them")
            continue
        distinct = {json.dumps(value) for value in values}
        if key in grid:
            faults.append(f"--over {key} is given twice")
        elif not equals or (len(distinct) < 2 and key not in known):
            fix = "one value for all runs is KEY=VALUE, without --over"
            faults.append(f"--over {text}: expected KEY=V1,V2 with two values or more; {fix}")
        elif len(distinct) < len(values):
            faults.append(f"--over {text}: a value is given twice")
        grid.setdefault(key, values)
    return grid, faults


def _extended(out: Path, base: Tree, known: Grid, grid: Grid) -> Grid:
    """Return the grid of the sweep in ``out``, with the new values of ``grid`` after its own."""
    then, now = (dict(flatten(tree)) for tree in (read_yaml(out / BASE), base))
    changed = [
        f"  - {key} was {then.get(key)!r} and is now {now.get(key)!r}"
        for key in sorted(then.keys() | now.keys())
        if then.get(key) != now.get(key)
    ]
    for key in dict.fromkeys([*known, *grid] if grid else []):
        gone = [value for value in known.get(key, []) if value not in grid.get(key, [])]
        if gone or key not in known:
            was, is_ = (json.dumps(each.get(key)) for each in (known, grid))
            changed.append(f"  - --over {key} was {was} and is now {is_}")
    if changed:
        raise RunError(
            f"{out} holds another sweep:\n" + "\n".join(changed) + "\nName another directory, or "
            f"continue that one with `danish-asr sweep {out}`. To add values to its keys, "
            "--over has to repeat those that are there."
        )
    return {
        key: [*values, *(value for value in grid.get(key, []) if value not in values)]
        for key, values in known.items()
    }


def _slugs(values: Sequence[Any]) -> list[str]:
    """Return a part of a file's name for each value."""
    found: list[str] = []
    for value in values:
        text = value if isinstance(value, str) else json.dumps(value)
        slug = "-".join(re.findall(r"[\w.+-]+", text))[:40]
        found.append(f"{slug}-{len(found) + 1}" if slug in found else slug)
    return found
