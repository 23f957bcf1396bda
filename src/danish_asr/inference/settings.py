"""How recordings are transcribed, as the command line has it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from danish_asr.base.errors import DanishAsrError
from danish_asr.decoding.ngram import find_language_model

if TYPE_CHECKING:
    from danish_asr.inference.model import Model


@dataclass(frozen=True)
class Settings:
    """The options of ``danish-asr transcribe``; None is the default."""

    decoder: str | None = None
    lm: Path | None = None
    hotwords: Path | None = None
    channels: str = "mix"
    batch_seconds: float | None = None

    def options(self) -> dict[str, Any]:
        """Return the arguments of ``Model.transcribe``.

        Raises:
            DanishAsrError: The decoder takes no such option.
            LanguageModelError: There is no such language model.
        """
        both = {"lm": self.lm, "hotwords": self.hotwords}
        config = {name: str(path) for name, path in both.items() if path is not None}
        decoder = self.decoder or ("beam" if config else "greedy")
        if config and decoder == "greedy":
            raise DanishAsrError(f"--{next(iter(config))} needs --decoder beam, not greedy")
        if self.lm is not None and decoder == "beam":
            find_language_model(self.lm)
        return {
            "decoder": decoder,
            "decoder_config": config,
            "channels": self.channels,
            "batch_seconds": self.batch_seconds,
        }

    def load(self, model: str, device: str) -> Model:
        """Load a model; faults of the decoder are found before its weights are read."""
        options = self.options()
        decoder = options["decoder"], options["decoder_config"]

        from danish_asr.inference.model import load_model  # noqa: PLC0415

        return load_model(model, device=device, decoder=decoder)
