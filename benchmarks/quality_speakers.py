"""Whether words get the right speaker: voices of eSpeak NG take turns at one microphone.

A turn is one to three sentences, with pauses after each. A word's true speaker is the one of the
turn in its middle. The speakers that are found are matched with the true ones so that most words
are right. Needs the extra ``speakers``::

    python benchmarks/quality_speakers.py demo
"""

from __future__ import annotations

import argparse
import io
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.optimize import linear_sum_assignment

from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.corpus.sources.synthetic import draw_sentence, speak
from danish_asr.corpus.sources.voices import Espeak, SyntheticSpeaker, draw_speaker
from danish_asr.inference.model import Model, load_model
from danish_asr.inference.speakers import AUTO, Turn, Turns, open_speakers

CONVERSATIONS = 2
TURNS = 12
NOISE_DB = 35
"""Level of the noise below the speech."""

DIALECTS = ("Østjysk", "Sjællandsk", "Nordjysk", "Københavnsk", "Vestjysk")


class Case(NamedTuple):
    """A kind of conversation; pauses are in seconds."""

    speakers: int
    pauses: tuple[float, float]
    gender: str | None = None
    gated: bool = False
    """Whether the noise stops in pauses, as where clips were joined or a call suppresses it."""


CASES = (
    Case(1, (0.3, 1.0)),
    Case(2, (0.3, 1.0)),
    Case(3, (0.3, 1.0)),
    Case(4, (0.3, 1.0)),
    Case(2, (0.3, 1.0), "female"),
    Case(2, (0.0, 0.0)),
    Case(2, (0.3, 1.0), gated=True),
)


def main() -> None:
    """Print a row for each kind of conversation."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("demo", type=Path, help="the directory of danish-asr demo")
    demo = parser.parse_args().demo
    model, find_turns, espeak = load_model(demo / "run"), open_speakers(AUTO, []), Espeak()
    table = Table("speakers", "pauses, s", "audio, s", "speakers found", "words", "right, %")
    processor = audio = 0.0
    for case in CASES:
        seconds, words, right, found = 0.0, 0, 0, []
        for number in range(CONVERSATIONS):
            random = Random(f"{case}/{number}")  # noqa: S311 - not cryptography
            samples, turns = _conversation(espeak, random, case)
            file = io.BytesIO()
            soundfile.write(file, samples, SAMPLE_RATE, format="FLAC")
            begin = time.process_time()
            turns_found = find_turns(file.getvalue())
            processor += time.process_time() - begin
            counts = _pairs(model, samples, turns, turns_found)
            seconds += len(samples) / SAMPLE_RATE
            words += sum(counts.values())
            right += _matched(counts)
            found.append(len({name for _, name in counts}))
        audio += seconds
        kind = f"{case.speakers} {case.gender or ''}{'gated' if case.gated else ''}"
        cells = f"{case.pauses[0]:g} to {case.pauses[1]:g}", f"{seconds:.0f}", f"{found}"
        table.add_row(kind, *cells, f"{words:,}", f"{100 * right / words:.1f}")
    console = Console(width=100)
    console.print(table)
    console.print(f"finding turns: {processor / audio:.3f} s of processor time per second of audio")


def _conversation(
    espeak: Espeak, random: Random, case: Case
) -> tuple[NDArray[np.float32], list[Turn]]:
    """A recording with the same noise everywhere, and who speaks when; nobody speaks twice."""
    people: list[SyntheticSpeaker] = []
    while len(people) < case.speakers:
        person = draw_speaker(random, f"s{len(people)}", random.choice(DIALECTS), None)
        known = {other.voice for other in people}
        if person.voice not in known and case.gender in {None, person.row["gender"]}:
            people.append(person)
    parts, turns, length, last = [], list[Turn](), 0, -1
    for turn in range(TURNS):
        others = [number for number in range(len(people)) if number != last or len(people) == 1]
        last = turn if turn < len(people) else random.choice(others)
        for _ in range(random.randint(1, 3)):
            sentence = draw_sentence(random, "test", conversation=turn % 2 == 0)
            spoken = espeak.speak(speak(sentence), people[last])
            spoken = soxr.resample(spoken, espeak.sample_rate, SAMPLE_RATE)
            pause = np.zeros(int(SAMPLE_RATE * random.uniform(*case.pauses)), np.float32)
            start = length / SAMPLE_RATE
            turns.append(Turn(start, start + len(spoken) / SAMPLE_RATE, f"s{last}"))
            parts += [0.5 * spoken / np.abs(spoken).max(), pause]
            length += len(spoken) + len(pause)
    samples = np.concatenate(parts)
    noise = np.random.default_rng(random.getrandbits(32)).standard_normal(length, np.float32)
    level = np.float32(np.sqrt(np.mean(samples**2)) * 10 ** (-NOISE_DB / 20))
    if case.gated:
        noise *= np.concatenate([np.full(len(part), bool(part.any())) for part in parts])
    return (samples + level * noise).clip(-1, 1), turns


def _pairs(
    model: Model, samples: NDArray[np.float32], true: Sequence[Turn], found: Turns
) -> Counter[tuple[str, str]]:
    """How many words each pair of a true speaker and one that was found has."""
    expected = Turns(true)
    words = model.transcribe(samples, rate=SAMPLE_RATE).words
    return Counter((expected.speaker_of(word), found.speaker_of(word)) for word in words)


def _matched(counts: Counter[tuple[str, str]]) -> int:
    """The words that are right with the best match of speakers."""
    true, found = (sorted({pair[side] for pair in counts}) for side in (0, 1))
    matrix = np.array([[counts[name, other] for other in found] for name in true])
    rows, columns = linear_sum_assignment(-matrix)
    return int(matrix[rows, columns].sum())


if __name__ == "__main__":
    main()
