"""What there is to know about each key of the configuration, for help, completion and the docs.

It is read from the JSON schema that pydantic makes of `schema.py` and `training_sections.py`:
types, bounds, and the string below each field. No PyTorch.
"""

import json
from collections.abc import Iterator
from dataclasses import is_dataclass
from difflib import get_close_matches
from functools import cache
from textwrap import fill
from typing import Any, Final, NamedTuple

from pydantic import TypeAdapter

from danish_asr.base.config_tree import join
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.config.training_sections import SCHEDULES

_WORDS: Final = {
    "array": "list",
    "boolean": "true or false",
    "integer": "whole number",
    "null": "null",
    "number": "number",
    "object": "mapping",
    "path": "path",
    "string": "text",
}
_BOUNDS: Final = {
    "exclusiveMinimum": "above",
    "minimum": "from",
    "exclusiveMaximum": "below",
    "maximum": "at most",
}


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
    rows = list[Key]()
    for name, section in vars(AsrConfig()).items():
        about = " ".join(str(section.__doc__).split())
        keys = [*_keys(section, name)]
        if name == "lr_scheduler":  # its first key chooses the settings
            del keys[1:]
            for chosen, kind in SCHEDULES.items():
                settings = _keys(kind(), f"{name}.config")
                keys += [key._replace(effect=f"{chosen}: {key.effect}") for key in settings]
        rows += [Key(name, None, "", about), *keys]
    return tuple(rows)


def _keys(section: Any, path: str) -> Iterator[Key]:
    fields = TypeAdapter(type(section)).json_schema().get("properties", {})
    for name, value in vars(section).items():
        key = join(path, name)
        if is_dataclass(value):
            yield from _keys(value, key)
        else:
            effect = " ".join(fields[name]["description"].split())
            yield Key(key, value, _words(fields[name]), effect)


def _words(schema: dict[str, Any]) -> str:
    """A type in words: "whole number, from 1, or null"."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_words, schema["anyOf"])))
    if "enum" in schema:
        return ", ".join(str(value).lower() for value in schema["enum"])
    kind = _WORDS[schema.get("format") or schema["type"]]
    limits = [f", {word} {schema[name]:g}" for name, word in _BOUNDS.items() if name in schema]
    return kind + "".join(limits)


def help_text(name: str, width: int = 80) -> str:
    """Describe the keys of a section, of a part of one, or a single key; empty if unknown."""
    lines = []
    for row in table():
        if f"{row.key}.".startswith(f"{name}."):
            indent = "    " if row.values else ""
            if row.values:
                lines += ["", f"{row.key}  ({row.values}; default: {row.default})"]
            lines.append(fill(row.effect, width, initial_indent=indent, subsequent_indent=indent))
    return "\n".join(lines).strip("\n")


def near_keys(key: str) -> list[str]:
    """Return the key that an unknown one may mean, if any: of the same name or a similar one."""
    by_name: dict[str, list[str]] = {}
    for row in table():
        if row.key != key:  # which other schedules may have
            by_name.setdefault(row.key.rpartition(".")[2], []).append(row.key)
    similar = get_close_matches(key.rpartition(".")[2], by_name, n=1)
    return [near for name in similar for near in get_close_matches(key, by_name[name], 1, 0)]


@cache
def defaults() -> dict[str, Any]:
    """Return the default of each dotted key."""
    return {row.key: row.value for row in table() if row.values}
