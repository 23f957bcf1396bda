"""A configuration before it has types: YAML files and overrides, merged key by key.

The syntax is fairseq2's. Neither torch nor fairseq2 is imported, which takes seconds.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ruamel.yaml.error import YAMLError

from danish_asr.base.errors import ConfigError
from danish_asr.base.files import from_yaml

Tree = dict[str, Any]
"""A configuration as YAML has it: nested mappings of plain values."""

_QUOTE: Final = "quote a value that has spaces: 'optimizer={name: adamw_8bit}'"


def read_yaml(file: Path) -> Tree:
    """Return the mapping in a YAML file.

    Outside of the checkout, ``configs/NAME.yaml`` is the package's, unless there is such a file.

    Raises:
        ConfigError: The file cannot be read, is not YAML, or does not hold a mapping.
    """
    shipped = Path(__file__).parents[1] / "recipe" / "configs" / file.name
    if file == Path("configs", file.name) and not file.exists() and shipped.exists():
        file = shipped
    try:
        content = from_yaml(file.read_text(encoding="utf-8")) or {}  # all may be commented out
    except (OSError, YAMLError, ValueError) as error:  # ValueError: not UTF-8, or month 13
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError([f"cannot be read: {reason}"], where=str(file)) from None
    if not isinstance(content, dict):
        raise ConfigError(["must hold a mapping of sections"], where=str(file))
    tree: Tree = content
    return tree


def parse_override(text: str) -> Tree:
    """Return the mapping of ``key=value``, or of ``del:key``; the value is YAML.

    A value replaces the earlier one as a whole, also a section.

    Raises:
        ValueError: It is neither, or the value is not YAML.
    """
    path, equals, value = text.strip().partition("=")
    removes = path.startswith("del:")
    if removes == bool(equals):
        raise ValueError(f"expected key=value, found '{text}'; {_QUOTE}")
    section, _, key = path.removeprefix("del:").removeprefix("set:").strip().rpartition(".")
    try:
        change: Tree = {"_del_": [key]} if removes else {"_set_": {key: from_yaml(value)}}
    except (YAMLError, ValueError):
        raise ValueError(f"expected a value in YAML, found '{text}'; {_QUOTE}") from None
    return nested(section, change) if section else change


def nested(key: str, value: Any) -> Tree:
    """Return the tree that has this value at a dotted key, and nothing else."""
    for part in reversed(key.split(".")):
        value = {part: value}
    tree: Tree = value
    return tree


def merge(*trees: Mapping[str, Any]) -> Tree:
    """Merge configurations key by key; later ones override earlier ones.

    ``_del_`` lists keys that go, ``_set_`` has values that replace a whole section.
    """
    merged: Tree = {}
    for tree in trees:
        for key in tree.get("_del_", ()):
            merged.pop(key, None)
        for key, value in tree.items():
            if isinstance(value, Mapping) and key != "_set_":
                below = merged.get(key)
                merged[key] = merge(below if isinstance(below, Mapping) else {}, value)
            elif key not in {"_del_", "_set_"}:
                merged[key] = value
        merged |= tree.get("_set_", {})
    return merged


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every leaf of a configuration with its dotted key."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from flatten(value, join(prefix, key))
        else:
            yield join(prefix, key), value


def value_of(tree: object, key: str) -> Any:
    """Return the value of a dotted key; None where a section above it is missing or a value."""
    for part in key.split("."):
        tree = tree.get(part) if isinstance(tree, Mapping) else None
    return tree


def short_names(keys: Iterable[str]) -> dict[str, str]:
    """Return the last part of each dotted key; the key itself where two would be equal."""
    parts = {key: key.rpartition(".")[2] for key in keys}
    names = [*parts.values()]
    return {key: name if names.count(name) == 1 else key for key, name in parts.items()}


def join(path: str, key: object) -> str:
    """Return the dotted key of a key in a section."""
    return f"{path}.{key}".lstrip(".")
