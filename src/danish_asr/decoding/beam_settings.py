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

_OTHERS: Final = ("lm", "hotwords", "text_profile", "workers")
"""Keys of ``decoder.config`` that are no numbers."""


@dataclass(frozen=True, kw_only=True, config=ConfigDict(strict=True, extra="forbid"))
class SearchSettings:
    """The settings of a search."""

    language_model: str | None = None
    hotwords: tuple[str, ...] = ()
    hotword_weight: FiniteFloat = 5.0
    """Added to the score for each hotword, in nats."""
    alpha: Annotated[FiniteFloat, Ge(0)] = 0.5
    """Weight of the language model."""
    beta: FiniteFloat = 1.5
    """Added for each word."""
    unknown: _NEGATIVE = -10.0
    """Added for a word that the language model does not know, in log10."""
    beam: Annotated[int, Ge(1)] = 100
    """Texts that are kept."""
    beam_prune: _NEGATIVE = -10.0
    """Texts this much worse than the best one are dropped, in nats."""
    symbol_prune: _NEGATIVE = -5.0
    """Symbols with a smaller log-probability are not tried in a frame."""


def search_settings(config: Mapping[str, Any]) -> SearchSettings:
    """Return the settings of ``decoder.config``, without its hotwords.

    Raises ConfigError for an unknown key or an impossible value, and LanguageModelError if there
    is no such language model.
    """
    lm = config.get("lm")
    if not isinstance(lm, str | PathLike | None):
        raise ConfigError([f"decoder.config.lm: expected a path, got {lm!r}"])
    values: dict[str, Any] = {}
    if lm:
        files = find_language_model(lm)
        values["language_model"] = str(files.file.absolute())
        values |= {key: files.settings[key] for key in FROM_LANGUAGE_MODEL if key in files.settings}
    values |= {
        key: value for key, value in config.items() if key not in _OTHERS and value is not None
    }
    try:
        return SearchSettings(**values)
    except ValidationError as error:
        faults = [
            f"decoder.config.{fault['loc'][0]}: {fault['msg']}, got {fault['input']!r}"
            for fault in error.errors()
        ]
        raise ConfigError(faults) from None
