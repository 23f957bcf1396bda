"""Whether words get the right speaker: conversations of the demo's test speakers, one microphone.

Speakers take turns of one to three of their utterances. A word's true speaker is the one of the
turn in its middle. The speakers that are found are matched with the true ones so that most words
are right. Needs the extra ``speakers``::

    python benchmarks/speakers.py demo
"""

from __future__ import annotations

import argparse
import io
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
import pyarrow.dataset as ds
import soundfile
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.optimize import linear_sum_assignment

from danish_asr.base.schema import SAMPLE_RATE, VERSION_DIR
from danish_asr.inference.model import Model, load_model
from danish_asr.inference.speakers import AUTO, Turn, Turns, open_speakers

CONVERSATIONS = 4
TURNS = 40


class Case(NamedTuple):
    """A kind of conversation; pauses are in seconds."""

    speakers: int
    pauses: tuple[float, float]
    gender: str | None = None


CASES = (
    Case(1, (0.3, 1.0)),
    Case(2, (0.3, 1.0)),
    Case(3, (0.3, 1.0)),
    Case(4, (0.3, 1.0)),
    Case(2, (0.3, 1.0), "female"),
    Case(2, (0.0, 0.0)),
)

Utterances = Mapping[str, Sequence[NDArray[np.float32]]]


def main() -> None:
    """Print a row for each kind of conversation."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("demo", type=Path, help="the directory of danish-asr demo")
    demo = parser.parse_args().demo
    model, find_turns = load_model(demo / "run"), open_speakers(AUTO, [])
    table = Table("speakers", "pauses, s", "audio, s", "speakers found", "words", "right, %")
    processor = audio = 0.0
    for case in CASES:
        utterances = _utterances(demo / "dataset" / VERSION_DIR, case.gender)
        seconds, words, right, found = 0.0, 0, 0, []
        for number in range(CONVERSATIONS):
            random = Random(f"{case}/{number}")  # noqa: S311 - not cryptography
            samples, turns = _conversation(random, utterances, case)
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
        kind = f"{case.speakers} {case.gender or ''}"
        cells = f"{case.pauses[0]:g} to {case.pauses[1]:g}", f"{seconds:.0f}", f"{found}"
        table.add_row(kind, *cells, f"{words:,}", f"{100 * right / words:.1f}")
    console = Console(width=100)
    console.print(table)
    console.print(f"finding turns: {processor / audio:.3f} s of processor time per second of audio")


def _utterances(dataset: Path, gender: str | None) -> Utterances:
    """The waveforms of each test speaker."""
    where = ds.field("split") == "test"
    if gender is not None:
        where &= ds.field("gender") == gender
    table = ds.dataset(dataset, partitioning="hive").to_table(["audio_bytes", "speaker_id"], where)
    speakers = defaultdict(list)
    for row in table.to_pylist():
        waveform, rate = soundfile.read(io.BytesIO(row["audio_bytes"]), dtype="float32")
        assert rate == SAMPLE_RATE
        speakers[row["speaker_id"]].append(waveform)
    return speakers


def _conversation(
    random: Random, utterances: Utterances, case: Case
) -> tuple[NDArray[np.float32], list[Turn]]:
    """A recording, and who speaks when; every speaker has turns, and none two in a row."""
    people = random.sample(sorted(utterances), case.speakers)
    parts, turns, length = [], list[Turn](), 0
    for number in range(TURNS):
        last = turns[-1].speaker if turns else None
        others = [person for person in people if person != last] or people
        speaker = people[number] if number < len(people) else random.choice(others)
        for waveform in random.choices(utterances[speaker], k=random.randint(1, 3)):
            pause = np.zeros(int(SAMPLE_RATE * random.uniform(*case.pauses)), np.float32)
            start = length / SAMPLE_RATE
            turns.append(Turn(start, start + len(waveform) / SAMPLE_RATE, speaker))
            parts += [waveform, pause]
            length += len(waveform) + len(pause)
    samples = np.concatenate(parts)
    noise = np.random.default_rng(random.getrandbits(32)).standard_normal(length, np.float32)
    return (samples + np.float32(1e-4) * noise).clip(-1, 1), turns


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
