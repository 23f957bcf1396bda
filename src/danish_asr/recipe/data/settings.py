"""Creates the transforms that the dataset's section names."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from inspect import formatannotation
from typing import Any, Final, cast, get_type_hints

from fairseq2.utils.structured import StandardValueConverter, StructureError

from danish_asr.base.errors import ConfigError, find_named
from danish_asr.recipe.config.schema import TaskSection
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


def transforms_of_training(
    task: TaskSection,
    *,
    speed_factors: Sequence[float] = (),
    transforms: Sequence[Mapping[str, object]] = (),
) -> list[AnyTransform]:
    """Create ``transforms``, or else those of ``speed_factors`` and ``spec_aug_*``, in this order.

    Raises:
        ConfigError: A setting is impossible; all faults at once.
    """
    chosen = make_transforms(transforms)
    try:
        if speed_factors:
            chosen.append(Speed(speed_factors))
        if task.spec_aug_p:
            masks = task.spec_aug_freq_mask_param, task.spec_aug_time_mask_param
            chosen.append(SpecAugment(task.spec_aug_p, *masks))
    except ValueError as error:
        keys = "dataset.speed_factors, dataset.asr_task_config.spec_aug_*"
        raise ConfigError([f"{keys}: {error}"]) from None
    return chosen


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
