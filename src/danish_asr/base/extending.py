"""Finds and guards the code of users: sources, transforms and decoders (docs/extending.md)."""

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pkgutil import resolve_name
from typing import Any

from danish_asr.base.errors import ConfigError, DanishAsrError, ExtensionError


def find_named(name: str, table: Mapping[str, Any], key: str) -> Any:
    """Return ``table[name]`` or what ``package.module:name`` names; else raises ConfigError."""
    if name in table:
        return table[name]
    try:
        if not ({":", "."} & {*name}):
            raise ImportError("there is no such name")  # noqa: TRY301
        return resolve_name(name)
    except Exception as error:  # whatever the import of a user's module raises
        close = get_close_matches(name, table, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        fault = (
            f"{key} must be one of {', '.join(sorted(table))}, or 'package.module:name' of a "
            f"module that is installed or on PYTHONPATH, but is {name!r} "
            f"({type(error).__name__}: {error}{hint})"
        )
        raise ConfigError([fault]) from error


@contextmanager
def user_code(code: object, doing: str) -> Iterator[None]:
    """Turn an exception of a user's ``code`` into an ExtensionError that says where it was raised.

    Exceptions of this package's own objects pass unchanged. The message says what it was ``doing``.
    """
    try:
        yield
    except DanishAsrError:
        raise
    except Exception as error:
        module = getattr(code, "__module__", type(code).__module__)
        if module.split(".")[0] == "danish_asr":
            raise
        name = getattr(code, "__qualname__", type(code).__qualname__)
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if "site-packages" not in frame.filename] or frames
        raise ExtensionError(
            f"{module}.{name} failed, {doing}: {type(error).__name__}: {error} "
            f"({own[-1].filename}, line {own[-1].lineno})"
        ) from error
