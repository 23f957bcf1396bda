"""WER of utterances that are joined to recordings, and of the same utterances one by one.

    python benchmarks/quality_joined.py demo/run [--speakers 60]

Speakers whom the demo's model has not heard say ten sentences of the test split each. They are
transcribed as `danish-asr transcribe` does: one by one, and joined, in recordings of one speaker
and in recordings where each utterance is another speaker's. Pauses have the noise of the speakers.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
import soxr
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.corpus.sources import voices
from danish_asr.corpus.sources.synthetic import draw_sentence, record, speak
from danish_asr.inference.model import Model, load_model
from danish_asr.metrics import compute_wer
from danish_asr.text.profiles import normalize

PAUSES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0)
"""Seconds between the speech of two utterances."""

SILENCE = (0.05, 0.3)
"""Seconds before and after an utterance that is transcribed alone."""

TURNS = 10
"""Utterances of a speaker, and of a recording."""

SHARES = {name: voice.share for name, voice in voices.DIALECT_VOICES.items()}


class Utterance(NamedTuple):
    """A sentence as it is spoken, without silence and noise."""

    speech: NDArray[np.float32]
    rate: int
    speaker: voices.SyntheticSpeaker
    text: str
    seed: int

    def recorded(self, before: float, after: float) -> NDArray[np.float32]:
        """Return what its speaker's device records with seconds of silence around it, at 16 kHz."""
        silence = round(before * self.rate), round(after * self.rate)
        audio = record(self.speech, self.speaker, np.random.default_rng(self.seed), silence)
        return np.asarray(soxr.resample(audio, self.rate, SAMPLE_RATE), np.float32)


def main() -> None:
    """Speak, join, transcribe and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("model", type=Path, help="the run of danish-asr demo")
    parser.add_argument("--speakers", type=int, default=60)
    args = parser.parse_args()
    model = load_model(args.model, device="cpu")
    monologues = spoken(args.speakers)
    # The first utterances of ten speakers, then their second ones, ...
    groups = [monologues[begin : begin + TURNS] for begin in range(0, len(monologues), TURNS)]
    dialogues = [list(turns) for group in groups for turns in zip(*group, strict=True)]
    words = sum(len(utterance.text.split()) for turns in monologues for utterance in turns)
    table = Table("pause, s", "one speaker", "changing speakers", title=f"WER %, {words:,} words")
    random = Random("silence")  # noqa: S311 - not cryptography
    alone = [[utterance] for turns in monologues for utterance in turns]
    silences = [(random.uniform(*SILENCE), random.uniform(*SILENCE)) for _ in alone]
    table.add_row("one by one", rate(model, recordings(alone, silences)), "")
    table.add_row("one by one, no silence", rate(model, recordings(alone, [(0.0, 0.0)])), "")
    for pause in PAUSES:
        halves = [(pause / 2, pause / 2)]
        rates = (rate(model, recordings(each, halves)) for each in (monologues, dialogues))
        table.add_row(f"{pause:g}", *rates)
    Console().print(table)


def spoken(speakers: int) -> list[list[Utterance]]:
    """Return the utterances of each speaker; the same in each process."""
    espeak, random = voices.Espeak(), Random("hold")  # noqa: S311 - not cryptography
    monologues = []
    for _ in range(speakers):
        (dialect,) = random.choices(list(SHARES), list(SHARES.values()))
        speaker = voices.draw_speaker(random, "speaker", dialect, None)
        turns = []
        for number in range(TURNS):
            text = speak(draw_sentence(random, "test", conversation=number % 4 == 0))
            speech, seed = espeak.speak(text, speaker), random.getrandbits(64)
            text = normalize(text, "coral")
            turns.append(Utterance(speech, espeak.sample_rate, speaker, text, seed))
        monologues.append(turns)
    return monologues


Recording = tuple[Sequence[Utterance], NDArray[np.float32]]


def recordings(
    turns: Sequence[Sequence[Utterance]], silences: Sequence[tuple[float, float]]
) -> list[Recording]:
    """Join the utterances of each recording, with the silences of the recording around each."""
    return [
        (utterances, np.concatenate([utterance.recorded(*around) for utterance in utterances]))
        for utterances, around in zip(turns, cycle(silences), strict=False)
    ]


def rate(model: Model, recordings: Sequence[Recording]) -> str:
    """Transcribe recordings; return the WER in percent."""
    transcripts = model.transcribe([audio for _, audio in recordings], rate=SAMPLE_RATE)
    texts = [" ".join(utterance.text for utterance in utterances) for utterances, _ in recordings]
    wer = compute_wer([" ".join(found.text.split()) for found in transcripts], texts)
    return f"{100 * wer:.2f}"


if __name__ == "__main__":
    main()
