"""From the entries of ``dataset.transforms`` to transforms; all faults at once."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from inspect import formatannotation
from typing import Any, Final, cast, get_type_hints

from fairseq2.utils.structured import StandardValueConverter, StructureError

from danish_asr.base.errors import ConfigError
from danish_asr.base.extending import find_named
from danish_asr.recipe.data.augmentations import BandPass, ColouredNoise, Noise, Reverb, Telephone
from danish_asr.recipe.data.joining import Join
from danish_asr.recipe.data.transforms import AnyTransform, SpecAugment, Speed

TRANSFORMS: Final[dict[str, type[AnyTransform]]] = {
    "band_pass": BandPass,
    "coloured_noise": ColouredNoise,
    "join": Join,
    "noise": Noise,
    "reverb": Reverb,
    "spec_augment": SpecAugment,
    "speed": Speed,
    "telephone": Telephone,
}
"""Names that ``dataset.transforms`` takes beside ``<module>:<class>``."""


def make_transforms(entries: Sequence[Mapping[str, object]]) -> list[AnyTransform]:
    """The transforms that ``dataset.transforms`` lists; refuses faults, all of them at once."""
    made, faults = [], []
    for number, entry in enumerate(entries):
        values = dict(entry)
        name = values.pop("name", None)
        try:
            kind = _transform_class(name)
            made.append(kind(**_structured(kind, values)))
        except (TypeError, ValueError) as error:
            faults.append(f"dataset.transforms[{number}] ({name}): {error}")
    if sum(isinstance(each, Join) for each in made) > 1:
        faults.append("dataset.transforms: expected `join` once, found it several times")
    if faults:
        raise ConfigError(faults)
    return made


def _structured(kind: type[AnyTransform], values: Mapping[str, object]) -> dict[str, Any]:
    """Return the values in the types of the fields; raise ``ValueError`` for what does not fit."""
    known = {field.name: field for field in fields(cast(Any, kind))}
    needed = [key for key, f in known.items() if f.default is MISSING is f.default_factory]
    faults, structured, hints = [], {}, get_type_hints(kind)
    if missing := [key for key in needed if key not in values]:
        faults.append(f"needs {', '.join(missing)}")
    if unknown := [key for key in values if key not in known]:
        faults.append(f"unknown key {', '.join(unknown)}; known: {', '.join(known)}")
    for key in (key for key in known if key in values):
        try:
            structured[key] = StandardValueConverter().structure(values[key], hints[key])
        except StructureError:
            expected = formatannotation(hints[key]).removeprefix("collections.abc.")
            faults.append(f"{key}: expected {expected}, found {values[key]!r}")
    if faults:
        raise ValueError("; ".join(faults))
    return structured


def _transform_class(name: object) -> type[AnyTransform]:
    """Look a name up, or import it; raise ``ValueError`` if that fails."""
    try:
        found: Any = find_named(str(name), TRANSFORMS, "name")
    except ConfigError as error:
        raise ValueError(error.faults[0]) from error
    derived = isinstance(found, type) and issubclass(found, AnyTransform)
    if not (derived and is_dataclass(found)):
        raise ValueError("expected a dataclass that derives from Transform or LengthTransform")
    return cast(type[AnyTransform], found)
