"""What ``bsub`` reads, as IBM's reference of Spectrum LSF 10.1 has it.

Options are refused here as there, so that a launcher cannot ask for what LSF would not give.
"""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Mapping, Sequence
from typing import Any

VALUED = ("J", "o", "oo", "e", "q", "n", "R", "gpu", "W", "wa", "wt", "w", "M", "P", "u", "cwd")
"""Options with a value. ``-R`` may be given more than once."""

FLAGS = ("B", "I", "Is", "K", "N", "r", "ti", "x")

LARGEST_ARRAY = 1000
"""LSF's own default of ``MAX_JOB_ARRAY_SIZE``."""

_INDICES = re.compile(r"[1-9]\d*(-[1-9]\d*(:[1-9]\d*)?)?")
_FORMS = {
    "n": r"[1-9]\d*(,[1-9]\d*)?",
    "W": r"(\d+:)?\d+(/\S+)?",
    "wt": r"(\d+:)?\d+",
    "gpu": r"-|[a-z_]+=[^:]+(:[a-z_]+=[^:]+)*",
    "R": r"(\w+\[[^\]]*\]\s*)+",
    "w": r"[^()]+\([^()]+\)(\s*(&&|\|\|)\s*[^()]+\([^()]+\))*",
    "q": r"\S+",
}


def parse_directives(script: str) -> list[str]:
    """The options in a script; LSF looks for them behind its commands too."""
    found: list[str] = []
    for line in script.split("\n"):
        if line.startswith("#BSUB"):
            if "\r" in line:
                raise SystemExit(f"bsub: bad option in {line!r}: the script has DOS line ends")
            found += shlex.split(line.removeprefix("#BSUB"), comments=True)
    return found


def parse_options(arguments: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Options by name, and the command behind them."""
    options: dict[str, Any] = {}
    words = list(arguments)
    while words and words[0].startswith("-"):
        name = words.pop(0)[1:]
        if name in FLAGS:
            options[name] = ""
            continue
        if name not in VALUED or not words:
            raise SystemExit(f"bsub: illegal option or missing argument -- {name}")
        value = words.pop(0)
        if name == "R":
            value = " ".join([*([options["R"]] if "R" in options else []), value])
        options[name] = value
    for name, value in options.items():
        _check(name, value)
    return options, words


def _check(name: str, value: str) -> None:
    if name in _FORMS and not re.fullmatch(_FORMS[name], value):
        raise SystemExit(f"bsub: bad argument for -{name}: {value!r}. Job not submitted.")
    if name == "wa" and f"SIG{value.removeprefix('SIG')}" not in signal.Signals.__members__:
        raise SystemExit(f"bsub: unknown signal for -wa: {value!r}. Job not submitted.")
    if name == "J":
        indices_of(value)


def minutes(text: str) -> int:
    """The minutes of ``[hour:]minute``, with or without a host behind a slash."""
    hours, _, rest = text.partition("/")[0].rpartition(":")
    return int(hours or 0) * 60 + int(rest)


def indices_of(name: str) -> list[int]:
    """The elements of an array such as ``name[1-4,7,9-15:2]%3``; ``[0]`` for no array."""
    head, bracket, rest = name.partition("[")
    listed, closed, slots = rest.partition("]")
    if not bracket:
        return [0]
    parts = listed.split(",")
    if not head or not closed or not re.fullmatch(r"(%\d+)?", slots):
        raise SystemExit(f"bsub: bad array {name!r}. Job not submitted.")
    indices: list[int] = []
    for part in parts:
        if not _INDICES.fullmatch(part.strip()):
            raise SystemExit(f"bsub: bad index {part!r} of array {name!r}. Job not submitted.")
        start, end, step = re.fullmatch(r"(\d+)(?:-(\d+))?(?::(\d+))?", part.strip()).groups()  # type: ignore[union-attr]
        indices += range(int(start), int(end or start) + 1, int(step or 1))
    if max(indices) > LARGEST_ARRAY:
        raise SystemExit(f"bsub: array {name!r} is larger than {LARGEST_ARRAY}. Job not submitted.")
    return indices


def dependencies(options: Mapping[str, Any]) -> list[int]:
    """The jobs in ``done(1) && done(2)``, the only conditions that the launchers use."""
    condition = options.get("w", "")
    rest = re.sub(r"done\(\d+\)|&&|\s", "", condition)
    assert not rest, f"not understood: {condition}"
    return [int(job) for job in re.findall(r"done\((\d+)\)", condition)]


def number(pattern: str, text: str) -> int | None:
    match = re.search(pattern, text)
    return int(match[1]) if match else None
