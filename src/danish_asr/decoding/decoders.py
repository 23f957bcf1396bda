"""The table of decoders, and how one is made and called."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, Final

from fairseq2.data.tokenizers import Tokenizer
from torch import Tensor

from danish_asr.base.config_tree import unknown_key
from danish_asr.base.errors import ConfigError, ExtensionError, find_named, user_code
from danish_asr.decoding.beam import BeamDecoder, check_settings
from danish_asr.decoding.greedy import GreedyDecoder

Decoder = Callable[[Tensor, Sequence[int]], list[str]]
"""Takes logits, (N, S, V), and the number of frames of each row; returns one text per row."""

GREEDY: Final = "greedy"

DECODERS: Final[dict[str, Callable[..., Decoder]]] = {GREEDY: GreedyDecoder, "beam": BeamDecoder}
"""What ``decoder.name`` may be, beside ``package.module:name``: each is called with the tokenizer,
and with the keys of ``decoder.config``."""


def find_decoder(name: str, config: Mapping[str, Any]) -> Callable[..., Decoder]:
    """Return what creates a decoder; raises ConfigError if it does not take ``config``.

    Of the decoder ``beam`` it also raises what `check_settings` does.
    """
    factory: Any = find_named(name, DECODERS, "decoder.name")
    try:
        with suppress(ValueError):  # some callables have no signature
            inspect.signature(factory).bind(None, **config)
    except TypeError as error:
        faults = [f"decoder.config does not fit {name}(tokenizer, ...): {error}"]
        keys = list(inspect.signature(factory).parameters)[1:] if callable(factory) else []
        unknown = [key for key in config if keys and key not in keys]
        faults += [
            unknown_key(f"decoder.config.{key}", get_close_matches(key, keys)) for key in unknown
        ]
        raise ConfigError(faults) from error
    if factory is BeamDecoder:
        check_settings(config)
    return factory  # type: ignore[no-any-return]


def decode(decoder: Decoder, logits: Tensor, lengths: Sequence[int]) -> list[str]:
    """Call a decoder; raises ExtensionError if a user's fails or returns anything but texts."""
    with user_code(decoder, f"decoding {len(lengths)} utterances"):
        texts = list(decoder(logits, lengths))
    if len(texts) != len(lengths) or not all(isinstance(text, str) for text in texts):
        kinds = ", ".join(sorted({type(text).__name__ for text in texts}))
        raise ExtensionError(
            f"the decoder {type(decoder).__qualname__} returned {len(texts)} values ({kinds}); "
            f"expected {len(lengths)} texts"
        )
    return texts


def make_decoder(name: str, config: Mapping[str, Any], tokenizer: object) -> Decoder:
    """Create a decoder; raises ExtensionError if a user's code fails."""
    factory = find_decoder(name, config)
    with user_code(factory, f"creating the decoder '{name}'"):
        decoder = factory(tokenizer, **config)
    if not callable(decoder):
        raise ExtensionError(f"{name} returned {decoder!r}; expected a decoder, which is callable")
    return decoder


class Decoders:
    """Creates a model's decoders; the last one is kept, as a language model takes time to load."""

    def __init__(self, tokenizer: Tokenizer, text_profile: str) -> None:
        self.tokenizer, self._text_profile = tokenizer, text_profile
        self._last: tuple[str, dict[str, Any]] | None = None
        self._decoder: Decoder | None = None

    def __call__(self, name: str, config: Mapping[str, Any]) -> Decoder:
        """Return a decoder; raises ConfigError if there is none, or ``config`` does not fit it."""
        if name == "beam" and self._text_profile != "raw":  # for its hotwords
            config = {"text_profile": self._text_profile, **config}
        if self._decoder is None or self._last != (name, dict(config)):
            self._decoder = make_decoder(name, config, self.tokenizer)
            self._last = name, dict(config)
        return self._decoder
