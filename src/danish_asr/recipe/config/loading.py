"""From a configuration tree to a typed, checked configuration, with all faults at once.

fairseq2 stops at the first fault, and finds some after minutes of loading. Here its converter takes
each key alone. A faulty key keeps its default, so that rules between values are checked too. Each
fault is a text that begins with its dotted key.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from enum import EnumType
from operator import attrgetter
from pathlib import Path
from types import UnionType
from typing import (
    Any,
    Final,
    Literal,
    Self,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import torch
from fairseq2.recipe import config as base
from fairseq2.utils.structured import StandardValueConverter, StructureError
from fairseq2.utils.validation import StandardObjectValidator, ValidationError, ValidationResult

from danish_asr.base.config_tree import Tree, flatten, join, unknown_key
from danish_asr.base.errors import ConfigError
from danish_asr.recipe.config.keys import no_section
from danish_asr.recipe.config.optimizers import find_optimizer

ConfigT = TypeVar("ConfigT")

SCHEDULES: Final[Mapping[str, type]] = {
    base.TRI_STAGE_LR: base.TriStageLRConfig,
    base.COSINE_ANNEALING_LR: base.CosineAnnealingLRConfig,
    base.POLYNOMIAL_DECAY_LR: base.PolynomialDecayLRConfig,
    base.NOAM_LR: base.NoamLRConfig,
    base.MYLE_LR: base.MyleLRConfig,
    base.PASSTHROUGH_LR: type(None),
}
"""The type of ``lr_scheduler.config`` for each ``lr_scheduler.name``."""

_CHOOSE_SETTINGS: Final = ("optimizer", "lr_scheduler")
"""Sections whose ``name`` chooses the type of ``config``."""

_DTYPES: Final = (torch.float32, torch.bfloat16, torch.float16)

_MAY_BE_NEGATIVE: Final = re.compile(r"decoder\.config\..*|.*(fragment_shuffle_window|beta2_decay)")
"""Keys for which a number below 0 has a meaning."""

_NAMED: Final = re.compile(r"`([\w.]+)`")
_RULE: Final = re.compile(r"`[\w.]+` must ")
"""Rules of fairseq2, and of this recipe's sections, begin with the key that breaks them."""

_converter = StandardValueConverter()


class Fault(str):
    """A text that begins with the dotted ``key`` of the value that it is about."""

    __slots__ = ("key",)

    key: str

    def __new__(cls, key: str, text: str) -> Self:
        """Keep the key beside the text, so that nothing reads it from the text."""
        fault = super().__new__(cls, text)
        fault.key = key
        return fault

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override] # two, for `__new__`
        """Pickle for another process."""
        return self.key, str(self)


def unstructure(config: object) -> Tree:
    """Return a typed configuration as a mapping, as it is written to ``config.yaml``."""
    return cast(Tree, _converter.unstructure(config))


def load_with_faults(kls: type[ConfigT], tree: Mapping[str, Any]) -> tuple[ConfigT, list[str]]:
    """Turn a mapping into a ``kls`` and the list of its faults; faulty keys keep their defaults."""
    config, faults = overlay(kls(), tree)
    for key, value in flatten(tree):
        values = value if isinstance(value, list) else [value]
        negative = any(isinstance(number, int | float) and number < 0 for number in values)
        if negative and not _MAY_BE_NEGATIVE.fullmatch(key) and not is_faulty(key, faults):
            faults.append(Fault(key, f"{key} must be 0 or more, but is {value!r}"))
    return config, list(faults)


def overlay(config: ConfigT, tree: object, path: str = "") -> tuple[ConfigT, list[Fault]]:
    """Return a copy changed by the sound values of ``tree``, and the faults of the others."""
    faults: list[Fault] = []
    config = _converted(type(config), config, tree, path, faults)
    try:
        StandardObjectValidator().validate(config)
    except ValidationError as error:
        wrong_values = list(faults)
        for keys, fault in _broken_rules(error.result, config, path):
            # What is compared with a faulty key is compared with its default only.
            if not any(is_faulty(key, wrong_values) for key in keys):
                faults.append(fault)
    return config, faults


def is_faulty(key: str, faults: Sequence[str]) -> bool:
    """Whether a value's fault is that of a key, or of a section around it."""
    faulty_keys = [fault.key for fault in faults if isinstance(fault, Fault)]
    return any(key == other or key.startswith(f"{other}.") for other in faulty_keys)


def component_settings(section: str, name: object) -> type:
    """Return the type of ``config`` in a section whose ``name`` chooses it.

    Raises:
        ConfigError: There is no component of this name.
    """
    if section == "optimizer":
        return find_optimizer(str(name)).settings
    if str(name) not in SCHEDULES:
        rule = f"must be one of {', '.join(SCHEDULES)}"
        raise ConfigError([f"{section}.name {rule}, but is {name!r}"])
    return SCHEDULES[str(name)]


def _converted(hint: Any, current: Any, value: Any, path: str, faults: list[Fault]) -> Any:
    """Return ``value`` as its type; if it cannot be, add a fault and return the ``current`` one."""
    kinds = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
    section = next((kind for kind in kinds if is_dataclass(kind)), None)
    if section and not (value is None and type(None) in kinds):
        if isinstance(value, Mapping):
            return _built(current or cast(Any, section)(), value, path, faults)
        faults.append(Fault(path, no_section(path, value)))
        return current
    try:
        converted = _converter.structure(value, hint)
        if _means(value, converted):
            return converted
    except (StructureError, ValueError, OverflowError):
        pass
    faults.extend(
        _faulty_entries(hint, value, path)
        or [Fault(path, f"{path} must be {_describe(hint)}, but is {value!r}")]
    )
    return current


def _faulty_entries(hint: Any, value: object, path: str) -> list[Fault]:
    """The faults of a list's or mapping's sections: unknown or missing keys, wrong values."""
    kinds = [kind for kind in get_args(hint) if is_dataclass(kind)]
    if not kinds or not isinstance(value, list | Mapping):
        return []
    if isinstance(value, Mapping):
        entries = [(join(path, key), entry) for key, entry in value.items()]
    else:
        entries = [(f"{path}[{number}]", entry) for number, entry in enumerate(value)]
    own, hints = {field.name: field for field in fields(kinds[0])}, get_type_hints(kinds[0])
    texts = list[str]()
    for place, entry in entries:
        if not isinstance(entry, Mapping):
            texts.append(no_section(place, entry))
        elif unknown := [key for key in entry if key not in own]:
            texts += [unknown_key(f"{place}.{key}", key, own) for key in unknown]
        else:
            texts += [
                f"{place}.{key} is missing"
                for key, field in own.items()
                if field.default is field.default_factory is MISSING and key not in entry
            ]
            wrong_values = list[Fault]()
            for key, item in entry.items():
                _converted(hints[key], None, item, f"{place}.{key}", wrong_values)
            texts += wrong_values
    return [Fault(path, text) for text in texts]


def _built(config: Any, tree: Mapping[str, Any], path: str, faults: list[Fault]) -> Any:
    hints = get_type_hints(type(config))
    if path in _CHOOSE_SETTINGS:
        name = tree.get("name", config.name)
        try:
            settings = component_settings(path, name)
        except ConfigError as error:
            faults.extend(Fault(join(path, "name"), fault) for fault in error.faults)
            return config
        if name != config.name:
            config = replace(config, config=settings())
        hints["config"] = type(config.config)
    values: Tree = {}
    for key, value in tree.items():
        dotted = join(path, key)
        if key in hints:
            values[key] = _converted(hints[key], getattr(config, key), value, dotted, faults)
        else:
            faults.append(Fault(dotted, unknown_key(dotted, key, hints)))
    return replace(config, **values)


def _means(value: object, converted: object) -> bool:
    """Whether a converted value is what was written.

    fairseq2 calls the types: ``int(2.5)`` is 2, ``True`` a number and a text a list of letters.
    """
    if isinstance(converted, torch.dtype):
        return converted in _DTYPES
    if isinstance(value, bool) or isinstance(converted, bool):
        return value is converted
    if isinstance(converted, float) and not math.isfinite(converted):
        return False
    if isinstance(value, int | float):
        return value == converted
    return not (isinstance(value, str) and isinstance(converted, list))


_IN_WORDS: Final = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    Path: "a path",
    torch.dtype: "float32, bfloat16 or float16",
    type(None): "null",
}


def _describe(hint: Any) -> str:
    """What a value of this type is, in words of YAML."""
    kinds, origin = get_args(hint), get_origin(hint)
    if isinstance(hint, EnumType):
        text = f"one of {', '.join(hint.__members__)}"
    elif is_dataclass(hint):
        text = f"a mapping with the keys {', '.join(field.name for field in fields(hint))}"
    elif origin is Literal:
        text = f"one of {', '.join(sorted(kinds))}"
    elif origin in {Union, UnionType}:
        text = " or ".join(map(_describe, kinds))
    elif origin is tuple:
        text = f"[{', '.join(map(_describe, kinds))}]"
    elif origin in {list, Sequence}:
        text = f"a list, each entry {_describe(kinds[0])}"
    elif origin in {dict, Mapping}:
        text = "a mapping as in {key: value}"
        if is_dataclass(kinds[1]):
            text = f"a mapping, each key {_describe(kinds[0])}, each value {_describe(kinds[1])}"
    else:
        text = _IN_WORDS.get(hint, str(hint))
    return text


def _broken_rules(
    result: ValidationResult, section: Any, path: str
) -> Iterator[tuple[list[str], Fault]]:
    """Yield the keys that a broken rule compares, and its fault."""
    for error in result.errors:
        message = error.rstrip(".")
        names = _NAMED.findall(message)
        if _RULE.match(message):
            value = "" if "but is" in message else f", but is {attrgetter(names[0])(section)!r}"
            rule = message.replace(f"`{names[0]}`", join(path, names[0]), 1)
            keys = [join(path, name) for name in names]
            yield keys, Fault(keys[0], f"{rule}{value}")
        elif message.startswith(path):
            # fairseq2's validation carries texts alone; this one begins with the whole key.
            key = message.split(maxsplit=1)[0].rstrip(":")
            yield [key], Fault(key, message)
        else:
            keys = [join(path, name) for name in names] or [path]
            yield keys, Fault(path, f"{path}: {message}")
    for key, below in result.sub_results.items():
        yield from _broken_rules(below, getattr(section, key, None), join(path, key))
