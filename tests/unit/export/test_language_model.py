"""A language model goes along into Hugging Face's layout."""

from __future__ import annotations

import io
from pathlib import Path

import torch
from rich.console import Console

from danish_asr.decoding.beam import BeamDecoder
from danish_asr.decoding.ngram import find_language_model
from danish_asr.inference.export import export_model
from danish_asr.inference.export.verify import read_utterances
from danish_asr.inference.model import load_model
from tests.builders import arpa_text


def test_the_processor_of_transformers_decodes_with_it_as_we_do(
    model: Path, tmp_path: Path
) -> None:
    from transformers import AutoModelForCTC, AutoProcessor  # noqa: PLC0415 - slow

    lm = tmp_path / "lm"
    lm.mkdir()
    (lm / "two.arpa").write_text(arpa_text("k", "på"), encoding="utf-8")
    (lm / "lm.json").write_text('{"alpha": 0.7, "beta": 2.0}')
    export_model(str(model), "hf", tmp_path / "hf", lm=lm, console=Console(file=io.StringIO()))
    assert find_language_model(tmp_path / "hf").words() == ["k", "på"]

    processor = AutoProcessor.from_pretrained(tmp_path / "hf")  # type: ignore[no-untyped-call]
    assert type(processor).__name__ == "Wav2Vec2ProcessorWithLM"
    network = AutoModelForCTC.from_pretrained(tmp_path / "hf")
    loaded = load_model(model, device="cpu")
    ours = BeamDecoder(loaded.tokenizer, lm, workers=1)
    for sound in read_utterances([])[:2]:
        samples = torch.from_numpy(sound.waveform)
        inputs = torch.nn.functional.layer_norm(samples, samples.shape)[None]
        with torch.inference_mode():
            logits = network(inputs).logits
        found = processor.decode(logits[0].numpy()).text
        assert found == ours(logits, [logits.shape[1]])[0]
        assert len(found) > 10
