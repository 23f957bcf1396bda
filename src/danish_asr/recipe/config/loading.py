"""From a configuration tree to a typed, checked configuration, with all faults at once.

fairseq2 stops at the first fault, and finds some after minutes of loading. Here its converter takes
each key alone. A faulty key keeps its default, so that rules between values are checked too.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass, replace
from enum import EnumType
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import torch
from fairseq2.recipe import config as base
from fairseq2.utils.structured import StandardValueConverter, StructureError
from fairseq2.utils.validation import StandardObjectValidator, ValidationError, ValidationResult

from danish_asr.base.config_tree import Tree, flatten, join, unknown_key
from danish_asr.recipe.config.keys import (
    DTYPE,
    is_wrong,
    no_section,
    one_of,
    wrong_type,
)
from danish_asr.recipe.config.part_sections import (
    ADAMW_8BIT_OPTIMIZER,
    ADAMW_OFFLOAD_OPTIMIZER,
    LeanAdamWConfig,
)

ConfigT = TypeVar("ConfigT")

COMPONENTS: Final[Mapping[str, Mapping[str, type]]] = {
    "optimizer": {
        base.ADAMW_OPTIMIZER: base.AdamWConfig,
        ADAMW_8BIT_OPTIMIZER: LeanAdamWConfig,
        ADAMW_OFFLOAD_OPTIMIZER: LeanAdamWConfig,
        base.ADAFACTOR_OPTIMIZER: base.AdafactorConfig,
    },
    "lr_scheduler": {
        base.TRI_STAGE_LR: base.TriStageLRConfig,
        base.COSINE_ANNEALING_LR: base.CosineAnnealingLRConfig,
        base.POLYNOMIAL_DECAY_LR: base.PolynomialDecayLRConfig,
        base.NOAM_LR: base.NoamLRConfig,
        base.MYLE_LR: base.MyleLRConfig,
        base.PASSTHROUGH_LR: type(None),
    },
}
"""Sections whose ``config`` depends on their ``name``, with the type of each name's ``config``."""

_MAY_BE_NEGATIVE: Final = re.compile(r"decoder\.config\..*|.*(fragment_shuffle_window|beta2_decay)")
"""Keys for which a number below 0 has a meaning."""

_RULE: Final = re.compile(r"`([\w.]+)` (must .*)", re.DOTALL)
"""How fairseq2, and this recipe's sections, word a rule that a key breaks."""

_converter = StandardValueConverter()


def unstructure(config: object) -> Tree:
    """Return a typed configuration as a mapping, as it is written to ``config.yaml``."""
    return cast(Tree, _converter.unstructure(config))


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def inspect(kls: type[ConfigT], tree: Mapping[str, Any]) -> tuple[ConfigT, list[str]]:
    """Turn a mapping into a ``kls`` and the list of its faults; faulty keys keep their defaults."""
    config, faults = overlay(kls(), tree)
    negative = (
        f"{key} must be 0 or more, but is {value!r}"
        for key, value in flatten(tree)
        if any(isinstance(v, int | float) and v < 0 for v in _as_list(value))
        and not _MAY_BE_NEGATIVE.fullmatch(key)
    )
    _add_new(faults, negative)
    return config, faults


def overlay(config: ConfigT, tree: object, path: str = "") -> tuple[ConfigT, list[str]]:
    """Return a copy changed by the sound values of ``tree``, and the faults of the others."""
    faults: list[str] = []
    config = _field(type(config), config, tree, path, faults)
    try:
        StandardObjectValidator().validate(config)
    except ValidationError as error:
        _add_new(faults, _broken_rules(error.result, config, path))
    return config, faults


def _build(config: Any, tree: Mapping[str, Any], path: str, faults: list[str]) -> Any:
    hints = get_type_hints(type(config))
    if choices := COMPONENTS.get(path):
        name = tree.get("name", config.name)
        if str(name) not in choices:
            faults.append(wrong_type(f"{path}.name", one_of(choices), name))
            return config
        if name != config.name:
            config = replace(config, config=choices[name]())
        hints["config"] = type(config.config)
    values: Tree = {}
    for key, value in tree.items():
        where = join(path, key)
        if key in hints:
            values[key] = _field(hints[key], getattr(config, key), value, where, faults)
        else:
            faults.append(unknown_key(where, key, hints))
    return replace(config, **values)


def _field(hint: Any, current: Any, value: Any, path: str, faults: list[str]) -> Any:
    kinds = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
    section = next((kind for kind in kinds if is_dataclass(kind)), None)
    if section and not (value is None and type(None) in kinds):
        if isinstance(value, Mapping):
            return _build(current or section(), value, path, faults)  # type: ignore[operator]
        faults.append(no_section(path, value))
        return current
    kind = describe(hint)
    if not is_wrong(value, kind):  # fairseq2 calls the types: ``int(2.5)`` is 2, and True an int
        try:
            return _converter.structure(value, hint)
        except (StructureError, ValueError, OverflowError):
            pass
    faults.append(wrong_type(path, kind, value))
    return current


def describe(hint: Any) -> str:
    """Return the type of a key as messages and ``keys.txt`` have it."""
    if isinstance(hint, EnumType) or get_origin(hint) is Literal:
        # The order of a Literal is that of the first equal one in the process.
        return one_of(hint.__members__ if isinstance(hint, EnumType) else sorted(get_args(hint)))
    if get_origin(hint) in {Union, UnionType}:
        kinds = get_args(hint)  # fairseq2 0.8 has `object | None` for `object`
        return "object" if object in kinds else " | ".join(map(describe, kinds))
    if hint is NoneType:
        return "None"
    if hint is torch.dtype:
        return DTYPE
    if get_origin(hint) is tuple:
        return f"{len(get_args(hint))} numbers"
    return hint.__name__ if isinstance(hint, type) else re.sub(r"\w+\.", "", str(hint))


def _broken_rules(result: ValidationResult, section: Any, path: str) -> Iterator[str]:
    for error in result.errors:
        message = error.rstrip(".")
        if named := _RULE.match(message):
            shown = "" if "but is" in message else f", but is {attrgetter(named[1])(section)!r}"
            yield f"{join(path, named[1])} {named[2]}{shown}"
        else:
            # A message that names the whole key needs no section before it.
            yield message if message.startswith(path) else f"{path}: {message}"
    for key, below in result.sub_results.items():
        yield from _broken_rules(below, getattr(section, key, None), join(path, key))


def _add_new(faults: list[str], found: Iterator[str]) -> None:
    # A key or section that has a fault already gets no second one, and what other keys are
    # compared with is then only its default.
    known = tuple(fault.split()[0] for fault in faults)
    compared = [f"`{key.rpartition('.')[2]}`" for key in known] + [f" {key}" for key in known]
    faults += [
        fault
        for fault in found
        if not fault.startswith(known) and not any(key in fault for key in compared)
    ]
