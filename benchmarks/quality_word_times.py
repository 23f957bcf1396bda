"""How exact word times are, and what a confidence means: two tables for the demo's model.

The boundaries to compare with are those that eSpeak NG reports for its own synthesis. Confidence is
compared with the share of words that are correct in jiwer's alignment with the reference.

::

    python benchmarks/quality_word_times.py demo
"""

from __future__ import annotations

import argparse
import ctypes
import io
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import numpy as np
import pyarrow.dataset as ds
import soundfile
import soxr
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from danish_asr.base.schema import SAMPLE_RATE, VERSION_DIR
from danish_asr.corpus.sources import voices
from danish_asr.corpus.sources.synthetic import draw_sentence, speak
from danish_asr.decoding.alignment import align_words
from danish_asr.decoding.greedy import GreedyDecoder
from danish_asr.inference.model import Model, load_model
from danish_asr.metrics import align_words as align_texts
from danish_asr.text.profiles import normalize

SENTENCES = {"dev": 200, "test": 260}
BINS = (0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.99, 1)
WORD, PHONEME, PHONEME_EVENTS = 1, 7, 1  # from espeak-ng's speak_lib.h

Floats = NDArray[np.float64]


class Event(ctypes.Structure):
    """espeak_EVENT of speak_lib.h."""

    _fields_: ClassVar = [
        *((name, ctypes.c_int) for name in ("type", "id", "position", "length", "ms", "sample")),
        ("user_data", ctypes.c_void_p),
        ("name", ctypes.c_char * 8),
    ]


class ReportingEspeak(voices.Espeak):
    """eSpeak NG, with the words of each text: text, start and end in seconds."""

    def __init__(self) -> None:
        super().__init__()
        data = voices.find_espeak().get_data_path().encode()
        # Again, with events for pauses, where words end before the next one starts.
        self._library.espeak_Initialize(2, 0, data, PHONEME_EVENTS)
        self._library.espeak_SetSynthCallback(self._callback)
        self._events: list[tuple[int, int, int, int, bytes]] = []

    def words(self, text: str) -> Iterator[tuple[str, float, float]]:
        """Yield the words of the text that was spoken last, as models write them."""
        for index, (kind, position, length, start, _) in enumerate(self._events):
            word = normalize(text[position - 1 : position - 1 + length], "coral")
            if kind == WORD and word:
                end = next(
                    sample
                    for kind, _, _, sample, name in self._events[index + 1 :]
                    if kind == WORD or (kind == PHONEME and name.startswith(b"_"))
                )
                yield word, start / self.sample_rate, end / self.sample_rate

    def speak(self, text: str, speaker: voices.SyntheticSpeaker) -> NDArray[np.float32]:
        """Speak a text."""
        self._events.clear()
        return super().speak(text, speaker)

    def _receive(self, samples: Any, count: int, events: int | None) -> int:
        event = ctypes.cast(events or 0, ctypes.POINTER(Event))
        for number in range(1 << 16):
            found = event[number]
            if not found.type:
                break
            fields = found.type, found.position, found.length, found.sample, found.name
            self._events.append(fields)
        return super()._receive(samples, count, events)


def main() -> None:
    """Measure the times and the confidence of a demo's model, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("demo", type=Path, help="the directory of danish-asr demo")
    demo = parser.parse_args().demo
    model = load_model(demo / "run")
    times = Table("split", "words", "boundary", "median", "|median|", "90 %", "95 %", "99 %")
    times.title = "Distance to eSpeak NG's boundaries, ms"
    for split, count in SENTENCES.items():
        distances = np.array(list(boundaries(model, split, count))) * 1000
        for name, values in zip(("start", "end"), distances.T, strict=True):
            shown = np.median(values), *np.percentile(np.abs(values), [50, 90, 95, 99])
            times.add_row(split, f"{len(values):,}", name, *(f"{value:.1f}" for value in shown))
    console = Console(width=100)
    console.print(times)
    for split in SENTENCES:
        sure, correct = confidences(model, demo / "dataset" / VERSION_DIR, split)
        console.print(reliability(split, sure, correct))


def boundaries(model: Model, split: str, count: int) -> Iterator[tuple[float, float]]:
    """Yield how much later each word starts and ends than eSpeak NG says, in seconds."""
    espeak, random = ReportingEspeak(), Random(f"times/{split}")  # noqa: S311 - not cryptography
    dialects = {name: voice.share for name, voice in voices.DIALECT_VOICES.items()}
    for number in range(count):
        (dialect,) = random.choices(list(dialects), list(dialects.values()))
        speaker = voices.draw_speaker(random, "speaker", dialect, None)
        text = speak(draw_sentence(random, split, conversation=number % 4 == 0))
        speech = espeak.speak(text, speaker)
        noise = np.random.default_rng(number).standard_normal(len(speech), np.float32)
        level = float(np.sqrt(np.mean(speech**2))) * 10 ** (-speaker.noise_db / 20)
        audio = soxr.resample(speech + np.float32(level) * noise, espeak.sample_rate, SAMPLE_RATE)
        expected = list(espeak.words(text))
        (log_probs,) = model.log_probs([audio])
        words = align_words(log_probs, " ".join(word for word, _, _ in expected), model.tokenizer)
        for word, (_, start, end) in zip(words, expected, strict=True):
            yield word.start - start, word.end - end


def confidences(model: Model, dataset: Path, split: str) -> tuple[Floats, Floats]:
    """Return the confidence of each word of a split, and 1 where it is correct, else 0."""
    sure, correct, decoder = [], [], GreedyDecoder(model.tokenizer)
    found = ds.dataset(dataset, partitioning="hive").to_table(
        ["audio_bytes", "text"], filter=ds.field("split") == split
    )
    for row in found.to_pylist():
        audio, _ = soundfile.read(io.BytesIO(row["audio_bytes"]), dtype="float32")
        (log_probs,) = model.log_probs([audio])
        (text,) = decoder(log_probs[None], [len(log_probs)])
        words = align_words(log_probs, text, model.tokenizer)
        reference, hypothesis = normalize(row["text"], "coral").split(), [w.text for w in words]
        sure += [word.confidence for word in words]
        aligned = align_texts(reference, hypothesis)
        correct += [pair.tag == "hit" for pair in aligned if pair.hypothesis]
    return np.array(sure), np.array(correct, np.float64)


def reliability(split: str, sure: Floats, correct: Floats) -> Table:
    """Return a row per bin of confidence; the error is expected over ten equal bins."""
    tenths = np.minimum((sure * 10).astype(int), 9)
    error = sum(abs(float(np.sum((sure - correct)[tenths == tenth]))) for tenth in range(10)) / len(
        sure
    )
    table = Table("confidence", "words", "mean confidence", "correct")
    table.title = f"{split}: {len(sure):,} words, expected calibration error {error:.3f}, "
    table.title += f"Brier score {np.mean((sure - correct) ** 2):.4f}"
    for low, high in pairwise(BINS):
        part = (sure >= low) & ((sure < high) | (high == 1))
        if part.any():
            means = f"{sure[part].mean():.3f}", f"{correct[part].mean():.3f}"
            table.add_row(f"{low:g} to {high:g}", f"{part.sum():,}", *means)
    return table


if __name__ == "__main__":
    main()
