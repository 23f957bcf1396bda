"""Checks ``dataset``'s sections, and creates the transforms that they name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from inspect import formatannotation
from typing import Any, Final, cast, get_type_hints

from fairseq2.utils.structured import StandardValueConverter, StructureError
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

_AT_LEAST_ONE: Final = (
    "batch_size",
    "num_seqs_multiple_of",
    "max_num_elements",
    "max_bucket_size",
    "max_num_batches",
    "filter_long_text_threshold",
)


def check_settings(
    task: AsrTaskConfig,
    storage: object,
    *,
    speed_factors: Sequence[float] = (),
    transforms: Sequence[Mapping[str, object]] = (),
) -> list[AnyTransform]:
    """Refuse impossible settings, all faults at once; return the transforms of training.

    These are ``transforms``, or else those of ``speed_factors`` and ``spec_aug_*``, in this order.

    Raises:
        ConfigError: At least one setting is impossible.
    """
    faults = [*_impossible_numbers(task, storage)]
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


def _impossible_numbers(task: AsrTaskConfig, storage: object) -> Iterator[str]:
    for name in _AT_LEAST_ONE:
        value = getattr(task, name)
        if value is not None and value < 1:
            yield f"{_TASK}.{name} must be 1 or more, but is {value}"
    if task.use_fbank:
        yield f"{_TASK}.use_fbank must be false: the models take waveforms"
    if task.no_padding and task.batching_strategy is BatchingStrategy.STATIC:
        yield f"{_TASK}.no_padding must be false with batching_strategy STATIC"
    for name in ("beta_corpus", "beta_language"):
        beta = getattr(storage, name, None)
        if beta is not None and not 0 <= beta <= 1:
            yield (
                f"dataset.mixture_parquet_storage_config.{name} must be from 0 (equal shares) to 1 "
                f"(shares by hours), but is {beta}"
            )


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
