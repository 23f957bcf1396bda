"""What a beam search depends on beside the audio: defaults, bounds, and what ``lm.json`` says.

Imports neither torch nor fairseq2, so that worker processes start fast.
"""

from collections.abc import Mapping
from os import PathLike
from typing import Annotated, Any, Final

from annotated_types import Ge, Le
from pydantic import ConfigDict, FiniteFloat, ValidationError
from pydantic.dataclasses import dataclass

from danish_asr.base.errors import ConfigError
from danish_asr.decoding.ngram import find_language_model

_NEGATIVE = Annotated[FiniteFloat, Le(0)]

FROM_LANGUAGE_MODEL: Final = ("alpha", "beta", "beam")
"""Where a configuration does not say them, those of ``lm.json`` count."""


@dataclass(frozen=True, kw_only=True, config=ConfigDict(strict=True))
class SearchSettings:
    """The settings of a search; `danish_asr.decoding.beam.BeamDecoder` describes them."""

    language_model: str | None = None
    hotwords: tuple[str, ...] = ()
    hotword_weight: FiniteFloat = 5.0
    alpha: Annotated[FiniteFloat, Ge(0)] = 0.5
    beta: FiniteFloat = 1.5
    unknown: _NEGATIVE = -10.0
    beam: Annotated[int, Ge(1)] = 100
    beam_prune: _NEGATIVE = -10.0
    symbol_prune: _NEGATIVE = -5.0


def search_settings(config: Mapping[str, Any]) -> SearchSettings:
    """Return the settings of ``decoder.config``, without its hotwords.

    Raises:
        ConfigError: A value is impossible.
        LanguageModelError: There is no such language model.
    """
    lm = config.get("lm")
    if not isinstance(lm, str | PathLike | None):
        raise ConfigError([f"decoder.config.lm: expected a path, found {lm!r}"])
    values: dict[str, Any] = {}
    if lm:
        files = find_language_model(lm)
        values["language_model"] = str(files.file.absolute())
        values |= {key: files.settings[key] for key in FROM_LANGUAGE_MODEL if key in files.settings}
    names = SearchSettings.__dataclass_fields__.keys() - {"language_model", "hotwords"}
    values |= {key: config[key] for key in names if config.get(key) is not None}
    try:
        return SearchSettings(**values)
    except ValidationError as error:
        raise ConfigError(
            [
                f"decoder.config.{fault['loc'][0]}: {fault['msg']}, found {fault['input']!r}"
                for fault in error.errors()
            ]
        ) from None
