"""From a configuration tree to a checked `AsrConfig`, with all faults at once, without PyTorch.

First the type and the bounds of each key; if these are sound, the rules between keys. Each fault is
a text that begins with its dotted key. Keys of upstream and fairseq2 that are none here are
refused, or left out with a note.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, Final, cast

from pydantic import TypeAdapter, ValidationError

from danish_asr.base.config_tree import Tree, flatten, join, value_of
from danish_asr.base.errors import ConfigError, names_code
from danish_asr.base.files import from_yaml
from danish_asr.recipe.config.keys import near_keys
from danish_asr.recipe.config.schema import FULL, AsrConfig
from danish_asr.recipe.config.training_sections import (
    SCHEDULES,
    WITHOUT_END,
    RegimeSection,
    ScheduleSection,
)

ONLY_DEFAULT: Final[Tree] = dict(
    flatten(
        from_yaml("""
model: {family: wav2vec2_asr}
optimizer: {config: {groups: []}}
pretrained_encoder: {path: null, family: wav2vec2_ssl, arch: null, config_overrides: null}
tokenizer: {family: char_tokenizer, config_overrides: null}
dataset:
  family: mixture_parquet_asr_dataset
  storage_mode: MIXTURE_PARQUET
  mixture_parquet_storage_config:
    split_column: split
    fragment_streaming: {partition_filters: null, limit: null}
    fragment_loading: {filters: null, drop_null: false}
  asr_task_config:
    {batching_strategy: LENGTH, max_bucket_size: null, drop_remainder: false, max_num_batches: null,
     filter_long_text_threshold: null, remove_unknown: false, use_fbank: false, no_padding: false,
     spec_aug_freq_mask_param: 80, spec_aug_time_mask_param: 80}
""")
    )
)
"""Keys of upstream and fairseq2 that would change what is learned: their one value here."""

WITHOUT_EFFECT: Final = {
    "model": "dtype mmap compile compile_options",
    "pretrained_encoder": "dtype mmap compile compile_options",
    "dataset": "manifest_storage_config task_mode",
    "dataset.mixture_parquet_storage_config": "beta_language dataset_summary_path "
    "fragment_loading fragment_streaming max_workers num_prefetch pa_cpu_count "
    "parquet_path_name sampling_seed sync_batches sync_mode",
    "dataset.asr_task_config": "batch_size npc num_prefetch seed unified_audio_feature_keys",
    "gang": "tensor_parallel_size high_priority",
    "trainer": "fsdp fp16_loss_scale gc_every_n_steps grad_check anomaly_detection",
    "trainer.grad_accumulation": "no_sync",
    "optimizer.config": "amsgrad maximize capturable differentiable impl",
    "lr_scheduler.config": "cycle_len cycle_mul lr_mul",
    "regime": "validate_at_start validate_after_n_data_epochs checkpoint_after_n_data_epochs "
    "checkpoint_every_n_data_epochs publish_metrics_after_n_data_epochs "
    "publish_metrics_every_n_data_epochs export_hugging_face",
    "common": "cluster debug no_sweep_dir profilers sweep_format",
    "common.torch": "allow_tf32 bf16_reduced_precision default_sdpa fp16_reduced_precision "
    "compiled_region_activation_memory_budget",
    "common.metric_recorders": "tensorboard",
    "common.metric_recorders.wandb": "run_id run_name group job_type resume_mode",
}
"""Keys and sections of upstream and fairseq2, by section: accepted, and named in one note."""

_MAY_NAME_CODE: Final = (
    *("dataset.text_profile", "regime.score_profile"),
    *("decoder.name", "decoder.config.text_profile"),
)
_TRANSFORMS: Final = "dataset.transforms"
"""Their entries may name code too."""

HEAD: Final = "head"
ALL_LAYERS: Final = "all"
"""What learns in a stage of ``trainer.unfreeze``, beside ``top <n>``."""


def load(tree: Mapping[str, Any], *, where: str) -> AsrConfig:
    """Check a configuration, which errors call ``where``; raises `ConfigError` with all faults."""
    faults = [
        f"{key} must be {_as_yaml(only)}, but is {_as_yaml(value_of(tree, key))}"
        for key, only in ONLY_DEFAULT.items()
        if value_of(tree, key) not in (None, only)
    ]
    ours = _ours(tree)
    config, of_keys = validated(AsrConfig, ours, "")
    kind = SCHEDULES.get(str(value_of(ours, "lr_scheduler.name") or ScheduleSection.name), dict)
    settings = value_of(ours, "lr_scheduler.config") or {}
    schedule, of_schedule = validated(kind, settings, "lr_scheduler.config")
    faults += [*of_keys, *of_schedule]
    if not faults:
        config.lr_scheduler.config = schedule
        faults += _broken_rules(config)
    if faults:
        raise ConfigError(faults, where=where)
    return cast(AsrConfig, config)


def unstructure(config: object) -> Tree:
    """Return a configuration as plain values, as it is written to ``config.yaml``."""
    kind: Any = type(config)
    tree: Tree = _adapter(kind).dump_python(config)
    return tree


def ineffective_keys(tree: Mapping[str, Any]) -> list[str]:
    """Return the dotted keys of a configuration that have no effect here."""
    ours = dict(flatten(_ours(tree)))
    return [key for key, _ in flatten(tree) if key not in ours and key not in ONLY_DEFAULT]


def named_code(tree: Mapping[str, Any]) -> Tree:
    """Return the values of a configuration that name code of users, by their dotted keys."""
    named = {key: value_of(tree, key) for key in _MAY_NAME_CODE if names_code(value_of(tree, key))}
    transforms = value_of(tree, _TRANSFORMS)
    entries = transforms if isinstance(transforms, list) else []
    if any(names_code(value_of(entry, "name")) for entry in entries):
        named[_TRANSFORMS] = transforms
    return named


def top_layers(learning: str) -> int | None:
    """The number of encoder layers that learn in a stage; None: all, and what is below them."""
    if learning == ALL_LAYERS:
        return None
    return 0 if learning == HEAD else int(learning.removeprefix("top "))


def in_steps(first: int | str, epoch: float = 1.0) -> float:
    """After how many steps a stage begins: a number of them, or of epochs (``2 epochs``)."""
    return first if isinstance(first, int) else float(first.split()[0]) * epoch


def validated(kind: type, value: object, path: str) -> tuple[Any, list[str]]:
    """Return a value as its type, or None and its faults; ``path`` is its dotted key."""
    try:
        return _adapter(kind).validate_python(value), []
    except ValidationError as error:
        details = error.errors()
    faults, rules = dict[str, str](), dict[str, list[str]]()
    for detail in details:
        key = _dotted_key(value, detail["loc"], path)
        if detail["type"] == "unexpected_keyword_argument":
            faults[key] = f"{key} is not a key of this configuration; {_hint(key)}"
        elif detail["type"] == "missing":
            key = join(key, detail["loc"][-1])
            faults[key] = f"{key} is missing"
        elif detail["type"] == "value_error":
            faults[key] = f"{key} {detail['ctx']['error']}"
        else:  # one for each type that the value may have
            rule = _RULES.get(detail["type"], detail["msg"])
            rules.setdefault(key, []).append(rule.format(**detail.get("ctx", {})))
            rule = " or ".join(dict.fromkeys(rules[key]))
            faults[key] = f"{key} must be {rule}, but is {_as_yaml(detail['input'])}"
    return None, list(faults.values())


_RULES: Final = {
    "bool_type": "true or false",
    "dataclass_type": "a section",
    "dict_type": "a mapping",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "greater_than": "above {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "int_from_float": "an integer",
    "int_parsing": "an integer",
    "int_type": "an integer",
    "less_than": "below {lt:g}",
    "less_than_equal": "at most {le:g}",
    "list_type": "a list",
    "literal_error": "{expected}",
    "path_type": "a path",
    "string_pattern_mismatch": "a text that matches {pattern}",
    "string_too_short": "a text that is not empty",
    "string_type": "a text",
    "too_long": "a list of at most {max_length}",
    "too_short": "a list of at least {min_length}",
}
"""What a value must be, by the fault that pydantic has found."""


def _hint(key: str) -> str:
    """Say which keys there are instead of an unknown one."""
    if near := " or ".join(near_keys(key)):
        return f"did you mean {near}?"
    section, sections = key.partition(".")[0], [field.name for field in fields(AsrConfig)]
    if section not in sections:
        return f"its sections are {', '.join(sections)}"
    return f"see `train --help-keys {section}`"


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _ours(tree: Mapping[str, Any], path: str = "") -> Tree:
    """Leave out upstream's keys that are not ours, and the sections that hold no others."""
    ours: Tree = {}
    for name, value in tree.items():
        key = join(path, name)
        if key in ONLY_DEFAULT or name in WITHOUT_EFFECT.get(path, "").split():
            continue
        own = _ours(value, key) if isinstance(value, Mapping) else value
        if own != {} or value == {}:
            ours[name] = own
    return ours


def _as_yaml(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _dotted_key(value: Any, parts: Sequence[int | str], path: str) -> str:
    """Return the key of a fault of pydantic in ``value``, which is at ``path``."""
    for part in parts:
        if isinstance(value, Mapping) and part in value:
            path, value = join(path, part), value[part]
        elif isinstance(value, Sequence) and isinstance(part, int):
            path, value = f"{path}[{part}]", value[part]
        else:  # the name of one type of several, or of a key that is missing
            break
    return path


def _broken_rules(config: AsrConfig) -> Iterator[str]:
    """Yield the rules between keys that do not hold."""
    model, trainer, regime = config.model, config.trainer, config.regime
    if config.dataset.name is None:
        yield "dataset.name must say which dataset to read; or give --dataset DIR"
    if model.head != FULL and not (model.name or model.path):
        yield "model.head must be full without a trained model (model.name or model.path)"
    if config.evaluator.where and not config.evaluator.label:
        yield "evaluator.label must name a directory for the rows of evaluator.where"
    if trainer.unfreeze and trainer.freeze_encoder_for_n_steps:
        yield "trainer.unfreeze must be empty with trainer.freeze_encoder_for_n_steps"
    if trainer.unfreeze and 0 not in trainer.unfreeze:
        yield f"trainer.unfreeze must say what learns from step 0 on, but is {trainer.unfreeze}"
    if config.optimizer.name == "adamw_8bit" and trainer.data_parallelism == "fsdp":
        yield "optimizer.name must not be adamw_8bit with fsdp; adamw_offload takes shards"
    if regime.num_steps is None and config.lr_scheduler.name not in WITHOUT_END:
        yield "regime.num_steps must be given for this schedule, but is null"
    if regime.num_data_epochs is not None and trainer.stages:
        yield "regime.num_data_epochs must be null with trainer.stages; set regime.num_steps"
    yield from _broken_intervals(regime)


def _broken_intervals(regime: RegimeSection) -> Iterator[str]:
    """Yield what fairseq2 would refuse in a traceback when the model is loaded."""
    if regime.validate_every_n_data_epochs is not None:  # sets the intervals later
        if regime.keep_checkpoint_every_n_steps is not None:
            yield "regime.keep_checkpoint_every_n_steps must be null with validations by epochs"
        return
    for name, of in _MULTIPLES:
        interval, unit = getattr(regime, name), getattr(regime, of)
        if interval is not None and unit is not None and interval % unit:
            yield f"regime.{name} must be a multiple of regime.{of}, {unit}, but is {interval}"
    saves, validates = regime.checkpoint_every_n_steps, regime.validate_every_n_steps
    if regime.keep_best_n_checkpoints and saves and not validates:
        yield "regime.keep_best_n_checkpoints must be null without validation"


_MULTIPLES: Final = (
    ("validate_every_n_steps", "publish_metrics_every_n_steps"),
    ("checkpoint_every_n_steps", "publish_metrics_every_n_steps"),
    ("checkpoint_every_n_steps", "validate_every_n_steps"),
    ("keep_checkpoint_every_n_steps", "checkpoint_every_n_steps"),
)
"""Keys of ``regime`` that must be multiples of others."""
