"""From a YAML file and overrides to a typed, checked configuration, with every fault told at once.

fairseq2 stops at the first fault it meets, and meets some of them after minutes of loading. Here
the whole mapping is held against the dataclasses first; what is faulty is replaced by its default
so that the rules between values can be checked in the same pass.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from fairseq2.recipe.config import (
    ADAFACTOR_OPTIMIZER,
    ADAMW_OPTIMIZER,
    COSINE_ANNEALING_LR,
    MYLE_LR,
    NOAM_LR,
    PASSTHROUGH_LR,
    POLYNOMIAL_DECAY_LR,
    TRI_STAGE_LR,
    AdafactorConfig,
    AdamWConfig,
    CosineAnnealingLRConfig,
    MyleLRConfig,
    NoamLRConfig,
    PolynomialDecayLRConfig,
    TriStageLRConfig,
)
from fairseq2.utils.config import (
    ReplacePathDirective,
    StandardConfigMerger,
    StandardConfigProcessor,
)
from fairseq2.utils.structured import StandardValueConverter
from fairseq2.utils.validation import StandardObjectValidator, ValidationError, ValidationResult

from danish_asr.errors import ConfigError
from danish_asr.recipe.optimizers import (
    ADAMW_8BIT_OPTIMIZER,
    ADAMW_OFFLOAD_OPTIMIZER,
    LeanAdamWConfig,
)
from danish_asr.recipe.values import value_fault
from danish_asr.yaml_text import YAMLError, from_yaml

ConfigT = TypeVar("ConfigT")

Tree = dict[str, Any]
"""A configuration as YAML has it: nested mappings of plain values."""

COMPONENTS: Mapping[str, Mapping[str, type]] = {
    "optimizer": {
        ADAMW_OPTIMIZER: AdamWConfig,
        ADAMW_8BIT_OPTIMIZER: LeanAdamWConfig,
        ADAMW_OFFLOAD_OPTIMIZER: LeanAdamWConfig,
        ADAFACTOR_OPTIMIZER: AdafactorConfig,
    },
    "lr_scheduler": {
        TRI_STAGE_LR: TriStageLRConfig,
        COSINE_ANNEALING_LR: CosineAnnealingLRConfig,
        POLYNOMIAL_DECAY_LR: PolynomialDecayLRConfig,
        NOAM_LR: NoamLRConfig,
        MYLE_LR: MyleLRConfig,
        PASSTHROUGH_LR: type(None),
    },
}
"""Sections whose ``config`` depends on their ``name``, with the configuration of each name."""

_RULE: Final = re.compile(r"`([\w.]+)` (must .*)", re.DOTALL)
"""How fairseq2 begins to tell a rule that a key of a section breaks."""

_converter = StandardValueConverter()


def read_yaml(file: Path) -> Tree:
    """Return the mapping in a YAML file, with ``${dir}`` replaced by the file's directory.

    Raises:
        ConfigError: There is no such file, it is no YAML, or it holds no mapping.
    """
    try:
        content = from_yaml(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError([f"cannot be read: {error.strerror}"], where=str(file)) from None
    except UnicodeDecodeError as error:
        raise ConfigError([f"is no text in UTF-8: {error}"], where=str(file)) from None
    except (YAMLError, ValueError, RecursionError) as error:  # ValueError: a date of month 13
        raise ConfigError([f"is not YAML: {error}"], where=str(file)) from None
    if not isinstance(content, dict):
        raise ConfigError(["must hold a mapping of sections"], where=str(file))
    directive = ReplacePathDirective(file.resolve().parent)
    processed: Any = StandardConfigProcessor([directive]).process(content)
    tree: Tree = processed
    return tree


def merge(*trees: Mapping[str, Any]) -> Tree:
    """Lay configurations over one another; the last one wins, key by key."""
    merged: Any = {}
    try:
        for tree in trees:
            merged = StandardConfigMerger().merge(merged, tree)
    except (TypeError, ValueError) as error:  # of its directives, _set_ and _del_
        raise ConfigError([f"cannot be laid over one another: {error}"]) from None
    result: Tree = merged
    return result


def defaults(kls: type[object]) -> Tree:
    """Return the default configuration as a mapping."""
    tree: Any = _converter.unstructure(kls())
    result: Tree = tree
    return result


def structure(kls: type[ConfigT], tree: Mapping[str, Any], *, where: str) -> ConfigT:
    """Turn a mapping into a checked ``kls``; missing keys take their defaults.

    Raises:
        ConfigError: Keys are unknown, values have the wrong type or break a rule; all at once.
    """
    config, faults = inspect(kls, tree)
    if faults:
        raise ConfigError(faults, where=where)
    return config


def inspect(
    kls: type[ConfigT], tree: Mapping[str, Any], path: str = ""
) -> tuple[ConfigT, list[str]]:
    """Turn a mapping into a ``kls`` and the list of its faults.

    What is faulty has its default in the configuration that is returned, so that more can be looked
    at in the same pass. ``path`` is the dotted key at which the mapping stands.
    """
    usual = defaults(kls)
    full = merge(usual, _component_defaults(tree, usual), tree)
    faults: list[str] = []
    sound = _sound_part(kls, full, path, faults)
    config = _converter.structure(sound, kls)
    for section, choices in COMPONENTS.items():
        if isinstance(part := sound.get(section), Mapping) and part.get("name") in choices:
            typed_part = _converter.structure(part.get("config"), choices[part["name"]])
            getattr(config, section).config = typed_part
    try:
        StandardObjectValidator().validate(config)
    except ValidationError as error:
        # A section that is no mapping is told already; its defaults break rules of their own.
        lost = tuple(
            f"{fault.split()[0]}{mark}"
            for fault in faults
            if "must be a mapping of keys" in fault
            for mark in ".:"
        )
        broken = _rules_broken(error.result, path, dict(flatten(sound, path)))
        faults.extend(fault for fault in broken if not fault.startswith(lost))
    typed: ConfigT = config
    return typed, faults


def _component_defaults(tree: Mapping[str, Any], usual: Mapping[str, Any]) -> Tree:
    """The defaults of each component that ``tree`` chooses in place of the usual one."""
    chosen: Tree = {}
    for section, choices in COMPONENTS.items():
        name, before = (_name_of(part.get(section)) for part in (tree, usual))
        if name in choices and name != before:
            own = defaults(choices[name]) if is_dataclass(choices[name]) else None
            chosen[section] = {"_set_": {"config": own}}
    return chosen


def _name_of(section: object) -> str:
    return str(section.get("name")) if isinstance(section, Mapping) else ""


def _sound_part(kls: Any, tree: Mapping[str, Any], path: str, faults: list[str]) -> Tree:
    """Return ``tree`` without its faulty leaves, and note each fault with its dotted key."""
    hints = get_type_hints(kls)
    sound: Tree = {}
    for key, value in tree.items():
        where = f"{path}.{key}" if path else str(key)
        if key not in hints:
            faults.append(_unknown(where, str(key), list(hints)))
            continue
        section = _section_of(hints[key], value)
        if path in COMPONENTS and key == "config":
            section = _component(path, tree, faults)
            if section is None:
                continue
        if section is not None and not isinstance(value, Mapping):
            faults.append(f"{where} must be a mapping of keys, but is {value!r}")
        elif section is not None:
            sound[key] = _sound_part(section, value, where, faults)
        elif (fault := value_fault(where, value, hints[key])) is None:
            sound[key] = value
        else:
            faults.append(fault)
    return sound


def _section_of(hint: Any, value: Any) -> type | None:
    """The dataclass that a key's value must fill, if it must."""
    if is_dataclass(hint) and isinstance(hint, type):
        return None if isinstance(value, hint) else hint
    if get_origin(hint) in {Union, UnionType} and isinstance(value, Mapping):
        return next((a for a in get_args(hint) if isinstance(a, type) and is_dataclass(a)), None)
    return None


def _component(section: str, tree: Mapping[str, Any], faults: list[str]) -> type | None:
    choices, name = COMPONENTS[section], tree.get("name")
    if not isinstance(name, str):
        return None  # which is told as a fault of the name
    if name not in choices:
        faults.append(
            f"{section}.name must be one of {', '.join(sorted(choices))}, but is {name!r}"
        )
        return None
    return choices[name] if is_dataclass(choices[name]) else None


def _unknown(where: str, key: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    hint = f"; did you mean {close[0]}?" if close else f"; known here: {', '.join(sorted(known))}"
    return f"{where} is no key of this configuration{hint}"


def _rules_broken(result: ValidationResult, path: str, values: Mapping[str, Any]) -> Iterator[str]:
    for message in result.errors:
        yield _with_key_and_value(message.rstrip("."), path, values)
    for key, below in result.sub_results.items():
        yield from _rules_broken(below, f"{path}.{key}" if path else key, values)


def _with_key_and_value(message: str, path: str, values: Mapping[str, Any]) -> str:
    """A broken rule that begins with a key of its section, told like the other faults."""
    if named := _RULE.match(message):
        key = f"{path}.{named[1]}"
        found = "" if "but is" in message or key not in values else f", but is {values[key]!r}"
        return f"{key} {named[2]}{found}"
    # A message that names the whole key needs no section before it.
    return message if message.startswith(path) else f"{path}: {message}"


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every leaf of a configuration with its dotted key."""
    for key, value in tree.items():
        path = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, Mapping):
            yield from flatten(value, path)
        else:
            yield path, value


def unstructure(config: object) -> Tree:
    """Return a typed configuration as a mapping, as it is written to ``config.yaml``."""
    tree: Any = _converter.unstructure(config)
    result: Tree = tree
    return result
