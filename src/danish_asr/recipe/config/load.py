"""From a configuration tree to a checked `AsrConfig`, with all faults at once, without PyTorch.

First the type and the bounds of each key; if these are sound, the rules between keys. Each fault is
a text that begins with its dotted key.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from danish_asr.base.config_tree import Tree, flatten, join, merge, unknown_key, value_of
from danish_asr.base.errors import ConfigError
from danish_asr.recipe.config.keys import near_keys
from danish_asr.recipe.config.schema import AsrConfig, DatasetSection
from danish_asr.recipe.config.training_sections import SCHEDULES, ScheduleSection
from danish_asr.recipe.config.upstream import ONLY_DEFAULT, WITHOUT_EFFECT
from danish_asr.recipe.config.values import FULL
from danish_asr.text.profiles import normalizer

_RULES: Final = {
    "bool_type": "true or false",
    "dataclass_type": "a mapping of keys",
    "dict_type": "a mapping",
    "float_type": "a number",
    "int_type": "a whole number",
    "list_type": "a list",
    "string_too_short": "longer",
    "string_type": "text",
}
"""Pydantic's types of faults, in the words of YAML."""

HEAD: Final = "head"
ALL_LAYERS: Final = "all"
"""What learns in a stage of ``trainer.unfreeze``, beside ``top <n>``."""


def load(tree: Mapping[str, Any], *, where: str) -> AsrConfig:
    """Check a configuration, which errors call ``where``; raises `ConfigError` with all faults."""
    ours, faults = _without_upstreams(tree)
    config, more = validated(AsrConfig, ours, "")
    schedule, of_schedule = _schedule(ours)
    faults += [*more, *of_schedule]
    if config is not None:
        config.lr_scheduler.config = schedule
        if not faults:
            faults += _broken_rules(config)
    if faults:
        raise ConfigError(faults, where=where)
    checked: AsrConfig = config
    return checked


def _schedule(tree: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """Return the settings of the schedule that a configuration names, and their faults."""
    name = value_of(tree, "lr_scheduler.name") or ScheduleSection.name
    kind = SCHEDULES.get(name)
    if kind is None:  # its name is a fault already
        return None, []
    return validated(kind, value_of(tree, "lr_scheduler.config") or {}, "lr_scheduler.config")


def unstructure(config: object) -> Tree:
    """Return a configuration as plain values, as it is written to ``config.yaml``."""
    kind: Any = type(config)
    tree: Tree = _adapter(kind).dump_python(config)
    return tree


def ineffective_keys(tree: Mapping[str, Any]) -> list[str]:
    """Return the dotted keys of a configuration that have no effect here."""
    prefixes = tuple(f"{section}." for section in WITHOUT_EFFECT)
    return [key for key, _ in flatten(tree) if f"{key}.".startswith(prefixes)]


def top_layers(learning: str) -> int | None:
    """The number of encoder layers that learn in a stage; None: all, and what is below them.

    Raises:
        ValueError: It is not ``head``, ``top <n>`` or ``all``.
    """
    if learning in {HEAD, ALL_LAYERS}:
        return 0 if learning == HEAD else None
    number = learning.removeprefix("top ")
    if number == learning or not number.isdecimal() or int(number) < 1:
        raise ValueError(learning)
    return int(number)


def in_steps(first: int | str, epoch: float = 1.0) -> float:
    """After how many steps a stage begins: a number of them, or of epochs (``2 epochs``).

    Raises:
        ValueError: It is neither.
    """
    if isinstance(first, int):
        return first
    number = re.fullmatch(r"(\d+(?:\.\d+)?) epochs?", first)
    if not number:
        raise ValueError(first)
    return float(number[1]) * epoch


def _without_upstreams(tree: Mapping[str, Any]) -> tuple[Tree, list[str]]:
    """Leave out upstream's keys that are not ours; values that would change a run are faults."""
    ours, faults = merge(tree), list[str]()
    for key, only in ONLY_DEFAULT.items():
        value = value_of(tree, key)
        if isinstance(value, str):
            value = value.removeprefix("torch.")  # as upstream writes a dtype
        if value is not None and value != only:
            faults.append(f"{key} must be {_as_yaml(only)}, but is {_as_yaml(value)}")
    for key in (*ONLY_DEFAULT, *WITHOUT_EFFECT):
        _remove(ours, key)
    return ours, faults


def _remove(tree: Tree, key: str) -> None:
    """Remove a dotted key, and the sections that are empty without it."""
    path, _, name = key.rpartition(".")
    section = value_of(tree, path) if path else tree
    if isinstance(section, dict) and name in section:
        del section[name]
        if path and not section:
            _remove(tree, path)


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def validated(kind: type, value: object, path: str) -> tuple[Any, list[str]]:
    """Return a value as its type, or None and its faults; ``path`` is its dotted key."""
    try:
        return _adapter(kind).validate_python(value), []
    except ValidationError as error:
        details = error.errors(include_url=False)
    faults, rules = dict[str, str](), dict[str, list[str]]()
    for detail in details:
        key, wrong = _place(value, detail["loc"], path)
        if detail["type"] == "unexpected_keyword_argument":
            faults[key] = unknown_key(key, near_keys(key))
        elif detail["type"] == "missing":
            faults[key] = f"{key}.{detail['loc'][-1]} is missing"
        elif detail["type"] == "value_error":
            faults[key] = f"{key} {detail['ctx']['error']}"
        else:  # one for each type that the value may have
            message = detail["msg"].removeprefix("Input should be ")
            rules.setdefault(key, []).append(_RULES.get(detail["type"], message))
            rule = " or ".join(dict.fromkeys(rules[key]))
            faults[key] = f"{key} must be {rule}, but is {_as_yaml(wrong)}"
    return None, list(faults.values())


def _as_yaml(value: object) -> str:
    """A value as YAML has it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value)


def _place(value: Any, parts: Sequence[int | str], path: str) -> tuple[str, Any]:
    """Return the dotted key of a fault of pydantic in ``value``, and what is there."""
    for part in parts:
        if isinstance(value, Mapping) and part in value:
            path, value = join(path, part), value[part]
        elif isinstance(value, Sequence) and isinstance(part, int):
            path, value = f"{path}[{part}]", value[part]
        else:  # the name of one type of several, or of a key that is missing
            break
    return path, value


def _broken_rules(config: AsrConfig) -> Iterator[str]:
    """Yield the rules between keys, and those that no type can say, that do not hold."""
    yield from _broken_rules_of_model(config)
    yield from _broken_rules_of_data(config.dataset)
    yield from _broken_rules_of_trainer(config)
    yield from _broken_rules_of_regime(config)
    label = config.evaluator.label
    if label is not None and not re.fullmatch(r"\w[\w.+-]*", label):
        yield f"evaluator.label must be letters, digits, `_`, `-`, `+` and `.`, but is '{label}'"
    if config.evaluator.where and not label:
        yield "evaluator.label must name a directory for the rows of evaluator.where"


def _broken_rules_of_model(config: AsrConfig) -> Iterator[str]:
    model = config.model
    if model.head != FULL and not (model.name or model.path):
        yield "model.head must be full without a trained model (model.name or model.path)"
    if model.keep_layers != sorted({*model.keep_layers}):
        rule = "must be numbers of layers, from 0 on and ascending"
        yield f"model.keep_layers {rule}, but is {model.keep_layers}"


def _broken_rules_of_data(data: DatasetSection) -> Iterator[str]:
    if data.name is None:
        yield "dataset.name must say which dataset to read; or give --dataset DIR"
    if data.valid_max_num_elements is not None and not data.valid_elements:
        yield "dataset.valid_max_num_elements must be a number above 0, or a multiple such as 3x"
    yield from _profile_faults("dataset.text_profile", data.text_profile)


def _profile_faults(key: str, profile: str) -> Iterator[str]:
    try:
        normalizer(profile)
    except ConfigError as error:
        yield from (fault.replace("profile", key, 1) for fault in error.faults)


def _broken_rules_of_trainer(config: AsrConfig) -> Iterator[str]:
    trainer = config.trainer
    if trainer.unfreeze and trainer.freeze_encoder_for_n_steps:
        yield "trainer.unfreeze must be empty with trainer.freeze_encoder_for_n_steps"
    if not _are_stages(trainer.unfreeze):
        rule = "must be steps from 0 on, or 0 and epochs, each with head, top <n> or all"
        yield f"trainer.unfreeze {rule}, in this order, but is {trainer.unfreeze}"
    if config.regime.num_steps is None and not config.lr_scheduler.config.has_no_end:
        yield "regime.num_steps must be given for this schedule, but is null"
    if max(trainer.stages, default=-math.inf) >= (config.regime.num_steps or math.inf):
        yield f"trainer.stages must begin before regime.num_steps, {config.regime.num_steps}"


def _are_stages(unfreeze: Mapping[int | str, str]) -> bool:
    try:
        sizes = [top_layers(unfreeze[first]) for first in sorted(unfreeze, key=in_steps)]
    except ValueError:
        return False
    numbers = [math.inf if size is None else size for size in sizes]
    kinds = {type(first) for first in unfreeze if first != 0}
    ascends = numbers == sorted(set(numbers))
    return not unfreeze or (min(map(in_steps, unfreeze)) == 0 and ascends and len(kinds) < 2)


def _broken_rules_of_regime(config: AsrConfig) -> Iterator[str]:
    regime = config.regime
    yield from _profile_faults("regime.score_profile", regime.score_profile)
    every = regime.validate_every_n_data_epochs
    validates = regime.validate_every_n_steps or every
    if regime.early_stopping_patience and not (config.dataset.valid_split and validates):
        yield "regime.early_stopping_patience must be null without validation"
    if regime.num_data_epochs is not None and config.trainer.stages:
        yield "regime.num_data_epochs must be null with trainer.stages; set regime.num_steps"
    if every is not None and regime.keep_checkpoint_every_n_steps is not None:
        yield "regime.keep_checkpoint_every_n_steps must be null with validate_every_n_data_epochs"
    for name, of in _MULTIPLES:
        interval, unit = getattr(regime, name), getattr(regime, of)
        is_set_later = every is not None and name != "keep_checkpoint_every_n_steps"
        if not is_set_later and interval is not None and unit is not None and interval % unit:
            yield f"regime.{name} must be a multiple of regime.{of}, {unit}, but is {interval}"
    if regime.keep_best_n_checkpoints and regime.checkpoint_every_n_steps and not validates:
        yield "regime.keep_best_n_checkpoints must be null without validation"


_MULTIPLES: Final = (
    ("validate_every_n_steps", "publish_metrics_every_n_steps"),
    ("checkpoint_every_n_steps", "publish_metrics_every_n_steps"),
    ("checkpoint_every_n_steps", "validate_every_n_steps"),
    ("keep_checkpoint_every_n_steps", "checkpoint_every_n_steps"),
)
"""Keys of ``regime`` that fairseq2 wants to be multiples of others."""
