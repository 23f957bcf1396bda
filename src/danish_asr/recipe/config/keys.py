"""What there is to know about each key of the configuration, for help, completion and the docs.

It is read from `schema.py` and `training_sections.py`: types, defaults, and the string below each
field. No PyTorch.
"""

import ast
import inspect
import json
import types
from collections.abc import Iterator
from dataclasses import is_dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from textwrap import fill
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from danish_asr.base.config_tree import join
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.config.training_sections import SCHEDULES

_WORDS: Final = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    Path: "path",
    types.NoneType: "null",
    Any: "any",
}
_BOUNDS: Final = {"gt": "above", "ge": "from", "lt": "below", "le": "at most"}
_SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "lr_scheduler": {name: kind() for name, kind in SCHEDULES.items()},
}
"""Of sections whose ``name`` chooses the settings in ``config``: these, by the name."""

_SUGGESTED: Final = 3
"""Most keys that an unknown one may mean."""


class Key(NamedTuple):
    """A key of the configuration, or a section, which has no default and no values."""

    key: str
    value: Any  # the default
    values: str
    effect: str

    @property
    def default(self) -> str:
        """The default as one writes it after KEY=."""
        is_text = isinstance(self.value, str) and self.value
        return str(self.value) if is_text else json.dumps(self.value, default=str)


@cache
def table() -> tuple[Key, ...]:
    """Return the sections and their keys, in the order of the configuration."""
    config, rows = AsrConfig(), list[Key]()
    for name, section in vars(config).items():
        about = " ".join(str(inspect.getdoc(section)).split())
        rows += [Key(name, None, "", about), *_keys(section, name)]
        for chosen, settings in _SETTINGS.get(name, {}).items():
            for row in _keys(settings, f"{name}.config"):
                rows.append(row._replace(effect=f"{chosen}: {row.effect}"))
    return tuple(rows)


def _keys(section: Any, path: str) -> Iterator[Key]:
    kind = type(section)
    hints, texts = get_type_hints(kind, include_extras=True), _strings_below_fields(kind)
    for name, value in vars(section).items():
        key = join(path, name)
        if name == "config" and path in _SETTINGS:
            continue
        if is_dataclass(value):
            yield from _keys(value, key)
        else:
            yield Key(key, value, _words(hints[name]), texts.get(name, ""))


def _words(hint: Any) -> str:
    """A type in words: ``Annotated[int, Ge(1)] | None`` is "whole number, from 1, or null"."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        limits = [
            f", {word} {getattr(bound, name):g}"
            for bound in arguments[1:]
            for name, word in _BOUNDS.items()
            if hasattr(bound, name)
        ]
        return _words(arguments[0]) + "".join(limits)
    if origin is Literal:
        return ", ".join(str(value).lower() for value in arguments)
    if origin in {Union, types.UnionType}:
        return " or ".join(dict.fromkeys(map(_words, arguments)))
    return {list: "list", dict: "mapping"}.get(origin) or _WORDS[hint]


def _strings_below_fields(kind: type) -> dict[str, str]:
    """The help of the fields of a class."""
    (body,) = ast.parse(inspect.cleandoc(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    strings = {}
    for statement, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(statement, ast.AnnAssign) and isinstance(below, ast.Expr):
            value = ast.literal_eval(below.value)
            strings[ast.unparse(statement.target)] = " ".join(str(value).split())
    return strings


def help_text(name: str, width: int = 80) -> str:
    """Describe the keys of a section, of a part of one, or a single key; empty if unknown."""
    lines = []
    for row in table():
        if row.key != name and not row.key.startswith(f"{name}."):
            continue
        if row.values:
            lines += ["", f"{row.key}  ({row.values}; default: {row.default})"]
            lines.append(fill(row.effect, width, initial_indent="    ", subsequent_indent="    "))
        else:
            lines.append(fill(row.effect, width))
    return "\n".join(lines).strip("\n")


def near_keys(key: str) -> list[str]:
    """Return the keys that an unknown one may mean: of its name, or else the nearest beside it."""
    section, _, name = key.rpartition(".")
    keys = [row.key for row in table()]
    same = [other for other in keys if other.endswith(f".{name}")]
    if 0 < len(same) <= _SUGGESTED:
        return same
    beside = [other.rpartition(".") for other in keys]
    names = {own: join(path, own) for path, _, own in beside if not section or path == section}
    return [names[near] for near in get_close_matches(name, names, n=1)]


@cache
def defaults() -> dict[str, Any]:
    """Return the default of each dotted key."""
    return {row.key: row.value for row in table() if row.values}
