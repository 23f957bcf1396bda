"""From log-probabilities to texts: the table of decoders, how one is made and how it is called.

A decoder gets a list with the log-probabilities of each utterance, (S, V), never padded, and
returns a text for each.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from torch import Tensor

from danish_asr.base.errors import ConfigError, ExtensionError, find_named, user_code
from danish_asr.decoding.beam import BeamDecoder
from danish_asr.decoding.beam_settings import search_settings
from danish_asr.decoding.ctc import GreedyDecoder

Decoder = Callable[[Sequence[Tensor]], list[str]]

GREEDY: Final = "greedy"
BEAM: Final = "beam"

DECODERS: Final[dict[str, Callable[..., Decoder]]] = {GREEDY: GreedyDecoder, BEAM: BeamDecoder}
"""What ``decoder.name`` may be, beside ``package.module:name``: each is called with the tokenizer,
and with the keys of ``decoder.config``."""


def make_decoder(name: str, config: Mapping[str, Any], tokenizer: object) -> Decoder:
    """Create a decoder; raises ExtensionError if a user's code fails."""
    factory = find_decoder(name, config)
    with user_code(factory, f"creating the decoder '{name}'"):
        return factory(tokenizer, **config)


def find_decoder(name: str, config: Mapping[str, Any]) -> Callable[..., Decoder]:
    """Return what creates a decoder; raises ConfigError if it does not take ``config``.

    Of the decoder ``beam`` it also raises what `search_settings` does.
    """
    factory: Any = find_named(name, DECODERS, "decoder.name")
    try:
        with suppress(ValueError):  # some callables have no signature
            inspect.signature(factory).bind(None, **config)
    except TypeError as error:
        fault = f"decoder.config does not fit {name}(tokenizer, ...): {error}"
        raise ConfigError([fault]) from error
    if factory is BeamDecoder:
        search_settings(config)
    return factory  # type: ignore[no-any-return]


def decode(decoder: Decoder, log_probs: Sequence[Tensor]) -> list[str]:
    """Call a decoder; raises ExtensionError if a user's fails or returns anything but texts."""
    with user_code(decoder, f"decoding {len(log_probs)} utterances"):
        texts = list(decoder(log_probs))
    if [type(text) for text in texts] != [str] * len(log_probs):
        raise ExtensionError(
            f"the decoder {type(decoder).__qualname__} returned {len(texts)} values, such as "
            f"{texts[:1]}; expected {len(log_probs)} texts"
        )
    return texts


def log_probs_of(logits: Tensor, lengths: Sequence[int]) -> list[Tensor]:
    """Return the log-probabilities of each row of a padded batch, (N, S, V), as a list of (S, V).

    ``lengths`` are the frames of each row.
    """
    rows = logits.float().log_softmax(dim=-1)
    return [row[:length] for row, length in zip(rows, lengths, strict=True)]
