"""From YAML files and overrides to a typed, checked configuration, with all faults at once.

fairseq2 stops at the first fault it meets, and meets some of them after minutes of loading. Here
its converter takes each key alone. A faulty key keeps its default, so that the rules between values
are checked in the same pass.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import torch
from fairseq2.recipe import config as fairseq2_config
from fairseq2.utils.config import (
    ReplacePathDirective,
    StandardConfigMerger,
    StandardConfigProcessor,
)
from fairseq2.utils.structured import StandardValueConverter, StructureError
from fairseq2.utils.validation import StandardObjectValidator, ValidationError, ValidationResult

from danish_asr.errors import ConfigError
from danish_asr.recipe.optimizers import (
    ADAMW_8BIT_OPTIMIZER,
    ADAMW_OFFLOAD_OPTIMIZER,
    LeanAdamWConfig,
)
from danish_asr.yaml_text import YAMLError, from_yaml

ConfigT = TypeVar("ConfigT")

Tree = dict[str, Any]
"""A configuration as YAML has it: nested mappings of plain values."""

COMPONENTS: Final[Mapping[str, Mapping[str, type]]] = {
    "optimizer": {
        fairseq2_config.ADAMW_OPTIMIZER: fairseq2_config.AdamWConfig,
        ADAMW_8BIT_OPTIMIZER: LeanAdamWConfig,
        ADAMW_OFFLOAD_OPTIMIZER: LeanAdamWConfig,
        fairseq2_config.ADAFACTOR_OPTIMIZER: fairseq2_config.AdafactorConfig,
    },
    "lr_scheduler": {
        fairseq2_config.TRI_STAGE_LR: fairseq2_config.TriStageLRConfig,
        fairseq2_config.COSINE_ANNEALING_LR: fairseq2_config.CosineAnnealingLRConfig,
        fairseq2_config.POLYNOMIAL_DECAY_LR: fairseq2_config.PolynomialDecayLRConfig,
        fairseq2_config.NOAM_LR: fairseq2_config.NoamLRConfig,
        fairseq2_config.MYLE_LR: fairseq2_config.MyleLRConfig,
        fairseq2_config.PASSTHROUGH_LR: type(None),
    },
}
"""Sections whose ``config`` depends on their ``name``, with the type of each name's ``config``."""

_MAY_BE_NEGATIVE: Final = ("fragment_shuffle_window", "beta2_decay")
"""Ends of the keys for which upstream gives a number below 0 a meaning."""

_TYPE_NAMES: Final[Mapping[Any, str]] = {
    int: "an integer",
    float: "a number",
    str: "a string",
    bool: "true or false",
    Path: "a path",
    torch.dtype: "float32, bfloat16 or float16",
    type(None): "null",
}

_RULE: Final = re.compile(r"`([\w.]+)` (must .*)", re.DOTALL)
"""How fairseq2 words a rule that a key of a section breaks."""

_converter = StandardValueConverter()


def read_yaml(file: Path) -> Tree:
    """Return the mapping in a YAML file, with ``${dir}`` replaced by the file's directory.

    Raises:
        ConfigError: The file cannot be read, is not YAML, or does not hold a mapping.
    """
    try:
        content = from_yaml(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError([f"cannot be read: {error.strerror}"], where=str(file)) from None
    except (YAMLError, ValueError) as error:  # ValueError: not UTF-8, or a date of month 13
        raise ConfigError([f"is not YAML in UTF-8: {error}"], where=str(file)) from None
    if not isinstance(content, dict):
        raise ConfigError(["must hold a mapping of sections"], where=str(file))
    directive = ReplacePathDirective(file.resolve().parent)
    tree: Any = StandardConfigProcessor([directive]).process(content)
    return dict(tree)


def merge(*trees: Mapping[str, Any]) -> Tree:
    """Merge configurations key by key; later ones override earlier ones."""
    merged: Any = {}
    for tree in trees:
        merged = StandardConfigMerger().merge(merged, tree)
    return dict(merged)


def defaults(kls: type[object]) -> Tree:
    """Return the default configuration as a mapping."""
    return unstructure(kls())


def unstructure(config: object) -> Tree:
    """Return a typed configuration as a mapping, as it is written to ``config.yaml``."""
    tree: Any = _converter.unstructure(config)
    return dict(tree)


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every leaf of a configuration with its dotted key."""
    for key, value in tree.items():
        path = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, Mapping):
            yield from flatten(value, path)
        else:
            yield path, value


def structure(kls: type[ConfigT], tree: Mapping[str, Any], *, where: str) -> ConfigT:
    """Turn a mapping into a checked ``kls``; missing keys take their defaults.

    Raises:
        ConfigError: Keys are unknown, or values have the wrong type or break a rule. The error
            lists all faults.
    """
    config, faults = inspect(kls, tree)
    if faults:
        raise ConfigError(faults, where=where)
    return config


def inspect(
    kls: type[ConfigT], tree: Mapping[str, Any], path: str = ""
) -> tuple[ConfigT, list[str]]:
    """Turn a mapping into a ``kls`` and the list of its faults.

    Args:
        kls: A dataclass.
        tree: Values of its fields. What cannot be structured keeps its default.
        path: The dotted key of the mapping.
    """
    usual = defaults(kls)
    full = merge(usual, _component_defaults(tree, usual), tree)
    faults: list[str] = []
    config = _build(kls, full, path, faults)
    try:
        StandardObjectValidator().validate(config)
    except ValidationError as error:
        _add_new(faults, _broken_rules(error.result, path, dict(flatten(full, path))))
    _add_new(faults, _negative_numbers(config, path))
    return config, faults


def _component_defaults(tree: Mapping[str, Any], usual: Mapping[str, Any]) -> Tree:
    """The defaults of each component that ``tree`` selects in place of the usual one."""
    chosen: Tree = {}
    for section, choices in COMPONENTS.items():
        part = tree.get(section)
        name = part.get("name") if isinstance(part, Mapping) else None
        if isinstance(name, str) and name in choices and name != usual.get(section, {}).get("name"):
            chosen[section] = {"_set_": {"config": _converter.unstructure(choices[name]())}}
    return chosen


def _build(kls: Any, tree: Mapping[str, Any], path: str, faults: list[str]) -> Any:
    """Make a ``kls`` of the sound values of ``tree``; note each fault with its dotted key."""
    hints = get_type_hints(kls)
    if path in COMPONENTS:
        choices, name = COMPONENTS[path], tree.get("name")
        if isinstance(name, str) and name not in choices:
            faults.append(f"{path}.name must be one of {', '.join(choices)}, but is {name!r}")
        hints["config"] = choices.get(str(name), object)
    values: Tree = {}
    for key, value in tree.items():
        where = f"{path}.{key}" if path else str(key)
        if key not in hints:
            close = difflib.get_close_matches(str(key), hints, n=1)
            hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(sorted(hints))}"
            faults.append(f"{where} is not a key of this configuration; {hint}")
        elif section := _section(hints[key], value):
            if isinstance(value, Mapping):
                values[key] = _build(section, value, where, faults)
            else:
                faults.append(f"{where} must be a mapping of keys, but is {value!r}")
        elif part := _list_part(hints[key], value):
            values[key] = [_build(part, v, f"{where}[{n}]", faults) for n, v in enumerate(value)]
        else:
            try:
                values[key] = _structured(value, hints[key])
            except (StructureError, ValueError, OverflowError):
                faults.append(f"{where} must be {_describe(hints[key])}, but is {value!r}")
    return kls(**values)


def _section(hint: Any, value: Any) -> type | None:
    """The dataclass that a value must fill, if any; an optional one takes null as well."""
    candidates = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
    if value is None and hint not in candidates:
        return None
    return next((kls for kls in candidates if isinstance(kls, type) and is_dataclass(kls)), None)


def _list_part(hint: Any, value: Any) -> type | None:
    """The dataclass that each of a list of mappings must fill, if any."""
    part = get_args(hint)[0] if get_origin(hint) is Sequence else None
    mappings = isinstance(value, list) and all(isinstance(v, Mapping) for v in value)
    return part if mappings and is_dataclass(part) else None  # type: ignore[return-value]


def _structured(value: Any, hint: Any) -> Any:
    """Structure one value, strictly.

    fairseq2 structures numbers and lists by calling their types: ``int(2.5)`` is 2, the list of a
    string is its letters, and True is an int to Python.

    Raises:
        StructureError: The value does not have the type; also if it became another value, or is not
            finite.
    """
    structured = _converter.structure(value, hint)
    if isinstance(structured, bool):
        changed = not isinstance(value, bool) or not {bool, object} & {hint, *get_args(hint)}
    elif isinstance(structured, int) and isinstance(value, float):
        changed = structured != value
    else:
        changed = isinstance(structured, list | tuple) and isinstance(value, str)
    if changed or not all(math.isfinite(number) for number in _numbers(structured)):
        raise StructureError("The value is not finite, or changed its type.")
    return structured


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, list | tuple):
        for part in value:
            yield from _numbers(part)
    elif isinstance(value, int | float):
        yield value


def _describe(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {Union, UnionType}:
        return " or ".join(map(_describe, arguments))
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return f"one of {', '.join(hint.__members__)}"
    if origin is Sequence:
        return f"a list of {getattr(arguments[0], '__name__', arguments[0])}"
    return _TYPE_NAMES.get(hint) or str(hint)


def _broken_rules(result: ValidationResult, path: str, values: Mapping[str, Any]) -> Iterator[str]:
    """Each broken rule, worded like the other faults: the dotted key, the rule, the value."""
    for error in result.errors:
        message = error.rstrip(".")
        if named := _RULE.match(message):
            key = f"{path}.{named[1]}"
            shown = "" if "but is" in message or key not in values else f", but is {values[key]!r}"
            yield f"{key} {named[2]}{shown}"
        else:
            # A message that names the whole key needs no section before it.
            yield message if message.startswith(path) else f"{path}: {message}"
    for key, below in result.sub_results.items():
        yield from _broken_rules(below, f"{path}.{key}" if path else key, values)


def _negative_numbers(config: Any, path: str) -> Iterator[str]:
    """Negative values of typed keys; what decoders and transforms accept is their own concern."""
    for name in (field.name for field in fields(config)):
        key, value = f"{path}.{name}" if path else name, getattr(config, name)
        if is_dataclass(value):
            yield from _negative_numbers(value, key)
        elif isinstance(value, list) and value and is_dataclass(value[0]):
            for number, part in enumerate(value):
                yield from _negative_numbers(part, f"{key}[{number}]")
        elif not key.endswith(_MAY_BE_NEGATIVE) and min(_numbers(value), default=0) < 0:
            yield f"{key} must be 0 or more, but is {value!r}"


def _add_new(faults: list[str], found: Iterator[str]) -> None:
    """Add what was found, except about a key that has a fault already, or is in such a section."""
    known = [fault.split()[0] for fault in faults]
    for fault in found:
        key = fault.split()[0].rstrip(":")
        if not any(key == k.rstrip(":") or key.startswith(f"{k}.") for k in known):
            faults.append(fault)
