"""Run an exported model in its own library, and compare it with fairseq2's output."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import layer_norm, log_softmax

from danish_asr.audio import AudioError, to_mono
from danish_asr.decoding.greedy import BLANK, GreedyDecoder
from danish_asr.errors import DanishAsrError, RunError
from danish_asr.export.to_onnx import INT8, MODEL
from danish_asr.export.vocabulary import Vocabulary
from danish_asr.metrics import compute_wer
from danish_asr.schema import SAMPLE_RATE
from danish_asr.text.profiles import normalize
from danish_asr.transcription.model import Model

LIMIT: Final = 1e-3
"""The largest difference of log-probabilities of an export in float32. Measured: 0 in transformers,
below 2e-5 in ONNX."""

Array = NDArray[np.float32]
Runner = Callable[[Array], tuple[Array, str]]
"""From a waveform, (samples,), to logits, (frames, symbols), and its text."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """Audio to compare on; the reference is only for the word error rate of int8."""

    waveform: Array
    reference: str | None = None


def read_utterances(files: Sequence[Path]) -> list[Utterance]:
    """Read audio files and folders of them, each with its text in a ``.txt`` file if there is one.

    Without files: five sounds of seconds with the rhythm of syllables, one of them quiet.

    Raises:
        DanishAsrError: A file cannot be decoded, or a folder has none.
    """
    if not files:
        return [Utterance(sound) for sound in _sounds()]
    found, audio = [], []
    for given in files:
        inside = sorted(given.iterdir()) if given.is_dir() else [given]
        audio += (here := [file for file in inside if file.suffix != ".txt"])
        if not here:
            raise DanishAsrError(f"--audio {given}: there is no audio; name a file or folder of it")
    for file in audio:
        text = file.with_suffix(".txt")
        reference = text.read_text(encoding="utf-8") if text.is_file() else None
        try:
            found.append(Utterance(to_mono(file), reference))
        except (AudioError, OSError) as error:
            raise DanishAsrError(f"--audio {file}: {error}") from None
    return found


def _sounds() -> Iterator[Array]:
    draw = np.random.default_rng(0)
    for seconds, level in ((0.6, 0.1), (1.3, 0.1), (2.9, 0.003), (4.0, 0.2), (7.1, 0.05)):
        times = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
        pitch = 2 * np.pi * np.cumsum(120 + 30 * np.sin(3 * times)) / SAMPLE_RATE
        voice = sum(np.sin(pitch * k) / k for k in range(1, 20))
        loudness = np.clip(np.sin(2 * np.pi * 4 * times), 0, None)
        sound = voice * loudness + 0.05 * draw.standard_normal(len(times))
        yield (level * sound / sound.std()).astype(np.float32)


def verify(model: Model, folder: Path, to: str, utterances: Sequence[Utterance]) -> list[str]:
    """Compare what is in ``folder`` with fairseq2's model; return lines to print.

    Raises:
        RunError: A log-probability differs by more than `LIMIT`, or a text differs.
    """
    waveforms = [utterance.waveform for utterance in utterances]
    expected = model.log_probs(waveforms)
    decode = GreedyDecoder(model.tokenizer)
    texts = [" ".join(decode(row[None], [len(row)])[0].split()) for row in expected]
    runner, what = _runner(model, folder, to), f"{len(texts)} utterances"
    largest, changed = 0.0, 0
    for waveform, row, text in zip(waveforms, expected, texts, strict=True):
        logits, found = runner(waveform)
        largest = max(largest, _difference(logits, row))
        changed += " ".join(found.split()) != text
    measured = f"largest difference of a log-probability {largest:.1e}, {changed} texts differ"
    if largest > LIMIT or changed:
        raise RunError(
            f"the export is not published: over {what}, {measured}; expected at most {LIMIT:g} and "
            "equal texts. Report this with the model's configuration"
        )
    lines = [f"compared with fairseq2 on {what}: {measured}"]
    if to == "hf" and model.normalizes:
        lines.append(_plain_line(folder, runner, waveforms, texts))
    if (folder / INT8).is_file():
        lines.append(_int8_line(model, folder, to, utterances, texts))
    return lines


def _difference(logits: Array, expected: torch.Tensor) -> float:
    found = log_softmax(torch.from_numpy(logits), dim=-1)
    if found.shape != expected.shape:
        return float("inf")
    return float((found - expected).abs().max()) if found.numel() else 0.0


def _runner(model: Model, folder: Path, to: str, file: str = MODEL) -> Runner:
    if to == "hf":
        return _hugging_face(folder, exact=model.normalizes)
    from onnxruntime import InferenceSession  # noqa: PLC0415 - an extra

    session = InferenceSession(folder / file, providers=["CPUExecutionProvider"])
    vocabulary = Vocabulary(model.tokenizer, model.settings.target_vocab_size)

    def run(waveform: Array) -> tuple[Array, str]:
        if to == "onnx":
            # A second row that is longer: padding changes nothing.
            batch = np.zeros((2, len(waveform) + SAMPLE_RATE), np.float32)
            batch[0, : len(waveform)], batch[1] = waveform, batch.shape[1] * [0.1]
            lengths = np.array([len(waveform), batch.shape[1]])
            logits, frames = session.run(None, {"waveforms": batch, "lengths": lengths})
            logits = logits[0, : frames[0]]
        else:
            centred = waveform - waveform.mean()
            x = centred / np.sqrt(centred.var() + np.float32(1e-5))
            logits = session.run(None, {"x": x[None]})[0][0]
        best = [symbol for symbol, _ in groupby(logits.argmax(-1).tolist()) if symbol != BLANK]
        return logits, vocabulary.text(best)

    return run


def _hugging_face(folder: Path, *, exact: bool) -> Runner:
    """Run the directory in transformers; ``exact``: normalise the audio as fairseq2 does."""
    from transformers import (  # noqa: PLC0415 - an extra
        AutoFeatureExtractor,
        AutoModelForCTC,
        AutoTokenizer,
    )

    module = AutoModelForCTC.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)  # type: ignore[no-untyped-call]
    extractor = AutoFeatureExtractor.from_pretrained(folder)  # type: ignore[no-untyped-call]

    @torch.inference_mode()
    def run(waveform: Array) -> tuple[Array, str]:
        if exact:
            samples = torch.from_numpy(waveform)
            inputs = layer_norm(samples, samples.shape)[None]
        else:
            found: Any = extractor(waveform, sampling_rate=SAMPLE_RATE, return_tensors="pt")
            inputs = found.input_values
        logits = module(inputs).logits[0]
        return logits.numpy(), tokenizer.decode(logits.argmax(-1))

    return run


def _plain_line(
    folder: Path, exact: Runner, waveforms: Sequence[Array], texts: Sequence[str]
) -> str:
    """Measure the feature extractor of transformers, whose constant is 1e-7 instead of 1e-5."""
    plain, largest, changed = _hugging_face(folder, exact=False), 0.0, 0
    for waveform, text in zip(waveforms, texts, strict=True):
        logits, found = plain(waveform)
        expected = log_softmax(torch.from_numpy(exact(waveform)[0]), dim=-1)
        largest = max(largest, _difference(logits, expected))
        changed += " ".join(found.split()) != text
    return (
        f"with the feature extractor of transformers itself: largest difference {largest:.1e}, "
        f"{changed} of {len(texts)} texts differ (it makes quiet audio louder; see README.md)"
    )


def _int8_line(
    model: Model, folder: Path, to: str, utterances: Sequence[Utterance], texts: Sequence[str]
) -> str:
    full, small = _runner(model, folder, to), _runner(model, folder, to, INT8)
    frames, flipped, found = 0, 0, []
    for utterance in utterances:
        logits, text = small(utterance.waveform)
        found.append(text)
        best = full(utterance.waveform)[0].argmax(-1)
        frames, flipped = frames + len(best), flipped + int((best != logits.argmax(-1)).sum())
    changed = sum(" ".join(a.split()) != b for a, b in zip(found, texts, strict=True))
    line = (
        f"int8: the best symbol of {100 * flipped / max(frames, 1):.2f} % of {frames} frames "
        f"changed, and the text of {changed} of {len(texts)} utterances"
    )
    rows = [n for n, utterance in enumerate(utterances) if utterance.reference is not None]
    if rows:
        references = [normalize(utterances[n].reference or "", "coral") for n in rows]
        rates = [
            100 * compute_wer([normalize(part[n], "coral") for n in rows], references)
            for part in (list(texts), found)
        ]
        line += f"; WER {rates[0]:.2f} % in float32, {rates[1]:.2f} % in int8"
    return line
