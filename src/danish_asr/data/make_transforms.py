"""From the entries of ``dataset.transforms`` to transforms; all faults at once."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Final, cast

from fairseq2.utils.structured import StandardValueConverter, StructureError

from danish_asr.data.augmentations import BandPass, ColouredNoise, Noise, Reverb, Telephone
from danish_asr.data.joining import Join
from danish_asr.data.transforms import AnyTransform, SpecAugment, Speed
from danish_asr.errors import ConfigError
from danish_asr.extending import find_named

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
            _check_keys(kind, values)
            made.append(StandardValueConverter().structure(values, kind))
        except StructureError as error:
            # The innermost cause names the key and what was expected of it.
            causes = [str(error)]
            while error.__cause__ is not None:
                error = error.__cause__  # type: ignore[assignment]
                causes.append(str(error))
            faults.append(f"dataset.transforms[{number}] ({name}): {' '.join(causes[1:])}")
        except ValueError as error:
            faults.append(f"dataset.transforms[{number}] ({name}): {error}")
    if sum(isinstance(each, Join) for each in made) > 1:
        faults.append("dataset.transforms: expected `join` once, found it several times")
    if faults:
        raise ConfigError(faults)
    return made


def _check_keys(kind: type[AnyTransform], values: Mapping[str, object]) -> None:
    known = {field.name: field.default for field in fields(cast(Any, kind))}
    if missing := [key for key, usual in known.items() if usual is MISSING and key not in values]:
        raise ValueError(f"needs {', '.join(missing)}")
    if unknown := [key for key in values if key not in known]:
        raise ValueError(f"unknown key {', '.join(unknown)}; known: {', '.join(known)}")


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
