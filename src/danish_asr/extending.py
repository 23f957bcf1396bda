"""Finds what a configuration names: an entry of a table, or ``package.module:name``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, TypeVar

from danish_asr.errors import ConfigError

EntryT = TypeVar("EntryT")


def find_named(name: str, table: Mapping[str, EntryT], key: str) -> EntryT:
    """Return ``table[name]``, or the object that ``package.module:name`` names.

    Raises:
        ConfigError: It is neither; the message has ``key`` and the known names.
    """
    if name in table:
        return table[name]
    module, _, attribute = name.partition(":")
    try:
        if not attribute:
            raise ImportError("there is no such name")  # noqa: TRY301
        found: Any = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        fault = (
            f"{key} must be one of {', '.join(sorted(table))}, or 'package.module:name' of "
            f"importable code, but is {name!r} ({error})"
        )
        raise ConfigError([fault]) from error
    return found  # type: ignore[no-any-return]
