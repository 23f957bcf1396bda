"""How recordings are transcribed, as the command line has it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from danish_asr.transcription.model import Model


@dataclass(frozen=True)
class Settings:
    """The options of ``danish-asr transcribe``; None is the default."""

    decoder: str | None = None
    lm: Path | None = None
    hotwords: Path | None = None
    channels: str = "mix"
    batch_seconds: float | None = None

    def options(self) -> dict[str, Any]:
        """Return the arguments of ``Model.transcribe``."""
        config: dict[str, Any] = {}
        if self.lm is not None:
            config["lm"] = str(self.lm)
        if self.hotwords is not None:
            config["hotwords"] = str(self.hotwords)
        decoder = self.decoder or ("beam" if config else "greedy")
        return {
            "decoder": decoder,
            "decoder_config": config,
            "channels": self.channels,
            "batch_seconds": self.batch_seconds,
        }

    def load(self, model: str, device: str) -> Model:
        """Load a model; faults of the decoder are found before its weights are read."""
        from danish_asr.transcription.model import load_model  # noqa: PLC0415

        options = self.options()
        decoder = options["decoder"], options["decoder_config"]
        return load_model(model, device=device, decoder=decoder)
