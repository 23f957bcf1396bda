"""Whether a value may stand under a key: its type, and numbers that are finite and not negative."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

import torch
from fairseq2.utils.structured import StandardValueConverter, StructureError

_MAY_BE_NEGATIVE: Final = ("fragment_shuffle_window", "beta2_decay")
"""Ends of the keys for which a number below 0 means something to upstream."""

_NAMES: Final[Mapping[Any, str]] = {
    int: "an integer",
    float: "a number",
    str: "a string",
    bool: "true or false",
    Path: "a path",
    torch.dtype: "float32, bfloat16 or float16",
    type(None): "null",
}
"""How types are called in faults."""

_converter = StandardValueConverter()


def value_fault(where: str, value: Any, hint: Any) -> str | None:
    """What is wrong with the value under the dotted key ``where``; None if nothing is.

    Args:
        where: The key.
        value: What YAML has.
        hint: The type of the dataclass field.
    """
    try:
        structured = _converter.structure(value, hint)
    except (StructureError, ValueError, OverflowError):
        return f"{where} must be {_describe(hint)}, but is {value!r}"
    if _is_another(structured, value, hint):
        return f"{where} must be {_describe(hint)}, but is {value!r}"
    numbers = [n for n in _leaves(structured) if isinstance(n, int | float)]
    if not all(math.isfinite(number) for number in numbers):
        return f"{where} must be finite, but is {value!r}"
    if min(numbers, default=0) < 0 and not where.endswith(_MAY_BE_NEGATIVE):
        return f"{where} must be 0 or more, but is {value!r}"
    return None


def _is_another(structured: Any, value: Any, hint: Any) -> bool:
    """Whether a value became what it was not meant to be.

    Types are structured by calling them: ``bool("no")`` is True, ``int(2.5)`` is 2, the list of a
    string is its letters; and True is an int to Python.
    """
    if isinstance(structured, bool):
        return not isinstance(value, bool) or not {bool, object} & {hint, *get_args(hint)}
    if isinstance(structured, int) and isinstance(value, float):
        return structured != value
    return isinstance(structured, list | tuple) and isinstance(value, str)


def _leaves(value: Any) -> Iterator[Any]:
    if is_dataclass(value) and not isinstance(value, type):
        value = [*vars(value).values()]
    if isinstance(value, list | tuple):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


def _describe(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {Union, UnionType}:
        return " or ".join(_describe(a) for a in arguments)
    if origin is Sequence:
        return _describe_list(*arguments)
    if origin is not None and arguments and all(isinstance(a, str) for a in arguments):
        return "one of " + ", ".join(arguments)
    if isinstance(hint, type) and hasattr(hint, "__members__"):
        return "one of " + ", ".join(hint.__members__)
    return _NAMES.get(hint) or str(getattr(hint, "__name__", hint))


def _describe_list(part: Any) -> str:
    if is_dataclass(part):
        return "a list of mappings with " + ", ".join(field.name for field in fields(part))
    return "a list of numbers" if part is float else "a list"
