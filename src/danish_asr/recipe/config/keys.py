"""The keys of a configuration and their defaults, without the import of PyTorch and fairseq2.

``keys.tsv`` has both, and the values and the effect of each key. A test writes it from the sections
(UPDATE_GOLDEN=1) and fails if it is stale; it keeps the effects of keys that fairseq2 or upstream
defines, which are written there. Types and the keys of other optimizers and schedules are
checked later, by `danish_asr.recipe.config.loading`.
"""

import json
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from textwrap import fill
from typing import Any, Final, NamedTuple

from danish_asr.base.config_tree import Tree, flatten, join, unknown_key

TABLE: Final = Path(__file__).with_name("keys.tsv")

_WITHOUT_EFFECT: Final = "Read and without effect."
"""The effect, in the table, of keys that upstream has and this recipe ignores."""

_SUGGESTED: Final = 3
"""Most keys that an unknown one may mean."""


class Key(NamedTuple):
    """A key of the configuration, or a section, which has no default and no values."""

    key: str
    default: str  # of a transform, its settings with theirs
    values: str
    effect: str


def table() -> list[Key]:
    """Return the table of keys, section by section."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    return [Key(*line.split("\t")) for line in lines[1:]]


def help_text(name: str, width: int = 80) -> str:
    """Describe the keys of a section, of a part of one, or a single key; empty if unknown."""
    rows = [row for row in table() if row.key == name or row.key.startswith(f"{name}.")]
    lines, ineffective = list[str](), list[str]()
    for key, default, values, effect in rows:
        if effect == _WITHOUT_EFFECT and key != name:
            ineffective.append(key.removeprefix(f"{name}."))
            continue
        if not values and not default:
            lines.append(fill(effect, width))
            continue
        kind = f"{values}; default: {default}" if values else default
        lines += ["", f"{key}  ({kind})"]
        lines.append(fill(effect, width, initial_indent="    ", subsequent_indent="    "))
    if ineffective:
        lines += ["", fill(f"Read and without effect: {', '.join(ineffective)}", width)]
    return "\n".join(lines).strip("\n")


def same_name(key: object) -> list[str]:
    """Return the dotted keys that end with a name; none if there are more than three."""
    keys = [row.key for row in table() if row.key.endswith(f".{key}")]
    return keys if len(keys) <= _SUGGESTED else []


def near_keys(name: str) -> list[str]:
    """Return the keys and sections that an unknown ``name`` may mean, the nearest first."""
    last = name.rpartition(".")[2]
    return same_name(last) or get_close_matches(name, [row.key for row in table()], n=1)


@cache
def _default_tree() -> Tree:
    rows = [row for row in table() if row.values]
    keys, tree = {row.key for row in rows}, Tree()
    for row in rows:
        path, _, name = row.key.rpartition(".")
        if path in keys:  # a setting of one of several components
            continue
        section = tree
        for part in path.split("."):
            section = section.setdefault(part, {})
        section[name] = _from_text(row.default)
    return tree


def _from_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


@cache
def defaults() -> Tree:
    """Return the default of each dotted key."""
    return dict(flatten(_default_tree()))


@cache
def without_effect() -> tuple[str, ...]:
    """Return the dotted keys whose values are ignored."""
    return tuple(row.key for row in table() if row.effect == _WITHOUT_EFFECT)


def key_faults(tree: Tree) -> list[str]:
    """Return unknown keys, and values in the place of a section, as faults."""
    return list(_faults(tree, _default_tree(), ""))


def _faults(tree: Mapping[str, Any], section: Tree, path: str) -> Iterator[str]:
    other_component = "name" in tree and tree["name"] != section.get("name")
    for key, value in tree.items():
        dotted = join(path, key)
        if key not in section:
            yield unknown_key(dotted, key, section, same_name(key))
        elif not isinstance(section[key], dict) or not section[key]:
            continue  # a value, or a mapping of names that the user chooses
        elif key == "config" and other_component:
            continue
        elif isinstance(value, Mapping):
            yield from _faults(value, section[key], dotted)
        elif value is not None:
            yield no_section(dotted, value)


def no_section(path: str, value: object) -> str:
    """Return the fault of a value in the place of a section."""
    return f"{path} must be a mapping of keys, but is {value!r}"
