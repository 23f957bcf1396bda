"""Checks ``dataset``'s sections, and creates the transforms that they name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from inspect import formatannotation
from typing import Any, Final, cast, get_type_hints

from fairseq2.utils.structured import StandardValueConverter, StructureError
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig
from omnilingual_asr.datasets.tasks.asr_task import AsrTaskConfig
from omnilingual_asr.datasets.utils.batching import BatchingStrategy

from danish_asr.base.errors import ConfigError, find_named
from danish_asr.recipe.data.transforms import (
    AnyTransform,
    LengthTransform,
    Noise,
    Reverb,
    SpecAugment,
    Speed,
    Transform,
)

TRANSFORMS: Final[dict[str, type[AnyTransform]]] = {
    "noise": Noise,
    "reverb": Reverb,
    "spec_augment": SpecAugment,
    "speed": Speed,
}
"""Names that ``dataset.transforms`` takes beside ``<module>:<class>``."""

_TASK: Final = "dataset.asr_task_config"

_UNUSED: Final = (
    *("batching_strategy", "max_bucket_size", "drop_remainder", "max_num_batches", "no_padding"),
    *("remove_unknown", "filter_long_text_threshold", "use_fbank"),
)
"""Upstream's options that would change rows or labels, and that this recipe does not have."""


def check_settings(
    task: AsrTaskConfig,
    *,
    speed_factors: Sequence[float] = (),
    transforms: Sequence[Mapping[str, object]] = (),
) -> list[AnyTransform]:
    """Refuse impossible settings, all faults at once; return the transforms of training.

    These are ``transforms``, or else those of ``speed_factors`` and ``spec_aug_*``, in this order.

    Raises:
        ConfigError: At least one setting is impossible.
    """
    faults = [*_impossible_values(task)]
    chosen: list[AnyTransform] = []
    try:
        chosen += make_transforms(transforms)
    except ConfigError as error:
        faults += error.faults
    if transforms and (speed_factors or task.spec_aug_p):
        faults.append(
            "dataset.transforms: expected speed_factors and spec_aug_p to be unset; list "
            "`speed` and `spec_augment` among the transforms instead"
        )
    try:
        if speed_factors:
            chosen.append(Speed(speed_factors))
        if task.spec_aug_p:
            masks = task.spec_aug_freq_mask_param, task.spec_aug_time_mask_param
            chosen.append(SpecAugment(task.spec_aug_p, *masks))
    except ValueError as error:
        faults.append(f"dataset.speed_factors, {_TASK}.spec_aug_*: {error}")
    if faults:
        raise ConfigError(faults)
    return chosen


def _impossible_values(task: AsrTaskConfig) -> Iterator[str]:
    default = AsrTaskConfig()
    for name in ("num_seqs_multiple_of", "max_num_elements"):
        if (value := getattr(task, name)) < 1:
            yield f"{_TASK}.{name} must be 1 or more, but is {value}"
    for name in _UNUSED:
        value, only = getattr(task, name), getattr(default, name)
        if value != only:
            yield f"{_TASK}.{name} must be {_written(only)}, but is {_written(value)}"
    for name in ("example_shuffle_window", "batch_shuffle_window"):
        value, upstreams = getattr(task, name), getattr(default, name)
        if value not in {0, 1, upstreams}:
            yield f"{_TASK}.{name} must be 0, to shuffle all, or 1, not to shuffle, but is {value}"


def storage_faults(storage: MixtureParquetStorageConfig) -> Iterator[str]:
    """Check upstream's storage section; what selects rows there must be at its default."""
    default, section = MixtureParquetStorageConfig(), "dataset.mixture_parquet_storage_config"
    beta = storage.beta_corpus
    if beta is not None and not 0 <= beta <= 1:
        yield (
            f"{section}.beta_corpus must be from 0 (equal shares) to 1 (shares by hours), but is "
            f"{beta}"
        )
    filters = {
        "fragment_streaming.partition_filters": storage.fragment_streaming.partition_filters,
        "fragment_loading.filters": storage.fragment_loading.filters,
    }
    for name, value in filters.items():
        if value is not None:
            yield (
                f"{section}.{name} must be null, but is {value!r}; write it as SQL in "
                "dataset.train_where, dataset.valid_where or evaluator.where"
            )
    if storage.split_column != default.split_column:
        yield f"{section}.split_column must be split, but is {storage.split_column}"
    if storage.fragment_streaming.limit != default.fragment_streaming.limit:
        yield (
            f"{section}.fragment_streaming.limit must be empty; dataset.train_subset takes a part "
            "of the rows"
        )
    if storage.fragment_loading.drop_null:
        yield f"{section}.fragment_loading.drop_null must be false; write it as dataset.train_where"


def _written(value: object) -> str:
    """A value as in YAML."""
    if isinstance(value, BatchingStrategy):
        return str(value.name)
    return "null" if value is None else str(value).lower()


def make_transforms(entries: Sequence[Mapping[str, object]]) -> list[AnyTransform]:
    """Create the transforms that ``dataset.transforms`` lists; raises all faults at once."""
    made: list[AnyTransform] = []
    faults: list[str] = []
    for number, entry in enumerate(entries):
        values = dict(entry)
        name = values.pop("name", None)
        if name is None:
            fault = "needs a name, as in [{name: speed, factors: [0.9, 1.1]}]"
            faults.append(f"dataset.transforms[{number}]: {fault}")
            continue
        try:
            kind: Any = find_named(str(name), TRANSFORMS, "name")
            is_transform = isinstance(kind, type) and issubclass(kind, Transform | LengthTransform)
            if not (is_transform and hasattr(kind, "__dataclass_fields__")):
                raise ValueError(  # noqa: TRY301
                    "expected a dataclass that derives from Transform or LengthTransform"
                )
            made.append(kind(**_structured(kind, values)))
        except ConfigError as error:
            faults += [f"dataset.transforms[{number}]: {fault}" for fault in error.faults]
        except (TypeError, ValueError) as error:
            faults.append(f"dataset.transforms[{number}] ({name}): {error}")
    if faults:
        raise ConfigError(faults)
    return made


def _structured(kind: type[AnyTransform], values: Mapping[str, object]) -> dict[str, Any]:
    """Return the values in the types of the fields; raises ``ValueError`` for what does not fit."""
    structured, hints = {}, get_type_hints(kind)
    all_fields = {field.name: field for field in fields(cast(Any, kind))}
    faults = [
        f"needs {name}"
        for name, field in all_fields.items()
        if name not in values and field.default is MISSING and field.default_factory is MISSING
    ]
    for name, value in values.items():
        if name not in all_fields:
            faults.append(f"unknown key {name}; known: {', '.join(all_fields)}")
            continue
        try:
            structured[name] = StandardValueConverter().structure(value, hints[name])
        except StructureError:
            expected = formatannotation(hints[name]).removeprefix("collections.abc.")
            faults.append(f"{name}: expected {expected}, found {value!r}")
    if faults:
        raise ValueError("; ".join(faults))
    return structured
