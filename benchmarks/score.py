"""How long scoring takes, and how much memory: one table.

::

    python benchmarks/score.py
    python benchmarks/score.py --many 100000     # instead of a million rows
"""

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from random import Random

import jiwer
import numpy as np
from rich.console import Console
from rich.table import Table

from danish_asr.metrics import count_errors
from danish_asr.report import ReportOptions, compare_files, parse_runs, score_file
from danish_asr.scoring.error_analysis import analyse_errors
from danish_asr.scoring.intervals import resample_sums
from danish_asr.scoring.predictions import Prediction, read_predictions, write_predictions
from danish_asr.scoring.scores import score_predictions
from danish_asr.scoring.settings import Settings
from danish_asr.text.profiles import PROFILES, normalizer

ROWS = 20_000
SPEAKERS = 150
BY = ["dialect", "age_group", "gender", "age_group,gender"]
DIALECTS = ["Østjysk", "Sjællandsk", "Nordjysk", "Københavnsk", "Vestjysk", "Sønderjysk", "Fynsk"]
WORDS = (
    *("jeg", "det", "er", "en", "et", "på", "at", "og", "til", "med", "har", "ikke", "som", "der"),
    *("den", "for", "af", "de", "men", "om", "21", "1.203", "øh", "hmm", "København", "Aalborg"),
    *("rødgrød", "fløde", "sommerhus", "togstation", "enogtyve", "arbejdsplads", "kr."),
)

Measured = tuple[str, float, float, float]
"""Task, seconds, seconds of CPU, and peak memory in MiB."""


def main() -> None:
    """Measure each task in a process of its own, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--many", type=int, default=1_000_000, help="rows of the large file")
    many = parser.parse_args().many
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        small, other, large = root / "small.jsonl", root / "other.jsonl", root / "large.jsonl"
        write_predictions(small, rows(ROWS))
        write_predictions(other, rows(ROWS, seed=1))
        write_predictions(large, repeated(many))
        tasks: list[tuple[str, Callable[..., None], tuple[object, ...]]] = [
            (f"{ROWS:,} rows, all profiles, 4 groupings, intervals", score_profiles, (small,)),
            (f"{ROWS:,} rows, 1,000 resamples of 150 speakers", resample, (SPEAKERS,)),
            (f"{ROWS:,} rows, 1,000 resamples, each row a speaker", resample, (ROWS,)),
            (f"{ROWS:,} rows, error analysis", analyse, (small,)),
            (f"{ROWS:,} rows, table, JSON and page", report, (small,)),
            (f"{ROWS:,} rows, compare", compare, (small, other)),
            (f"{many:,} rows, 1 profile, 4 groupings, intervals", score, (large, "coral")),
        ]
        texts = normalised(small, "coral")
        ours, baseline = (
            measure(f"{ROWS:,} normalised rows, {name}", task, *texts)
            for name, task in (("error counts", count), ("jiwer.wer and jiwer.cer", rates_of_jiwer))
        )
        measured = [measure(name, task, *arguments) for name, task, arguments in tasks]
        show([*measured, ours, baseline])
        print(f"CPU time of our counts / of jiwer: {ours[2] / baseline[2]:.2f}")


def measure(name: str, task: Callable[..., None], *arguments: object) -> Measured:
    """Run a task in a process of its own, to measure its peak memory."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        seconds, busy, mebibytes = pool.apply(timed, (task, *arguments))
    return name, seconds, busy, mebibytes


def timed(task: Callable[..., None], *arguments: object) -> tuple[float, float, float]:
    """Return the seconds of one run by both clocks, and this process's peak of memory."""
    begin, busy = time.perf_counter(), time.process_time()
    task(*arguments)
    seconds, busy = time.perf_counter() - begin, time.process_time() - busy
    return seconds, busy, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def normalised(path: Path, profile: str) -> tuple[list[str], list[str]]:
    """Return the references and hypotheses of a file as they are compared."""
    normalize = normalizer(profile)
    pairs = [(row.reference, row.hypothesis) for row in read_predictions(path)]
    references, hypotheses = zip(*pairs, strict=True)
    return list(map(normalize, references)), list(map(normalize, hypotheses))


def count(references: list[str], hypotheses: list[str]) -> None:
    """Count the errors of each row."""
    for pair in zip(references, hypotheses, strict=True):
        count_errors(*pair)


def rates_of_jiwer(references: list[str], hypotheses: list[str]) -> None:
    """Compute WER and CER over all rows."""
    jiwer.wer(references, hypotheses)
    jiwer.cer(references, hypotheses)


def score(path: Path, profile: str) -> None:
    """Score one file under one profile."""
    score_predictions(read_predictions(path), by=BY, settings=Settings(profile=profile))


def score_profiles(path: Path) -> None:
    """Score one file under every profile."""
    for profile in PROFILES:
        score(path, profile)


def resample(speakers: int) -> None:
    """Draw the resamples of one group."""
    sums = np.random.default_rng(0).integers(0, 50, (speakers, 9))
    resample_sums(sums, 1_000, np.random.default_rng(0))


def analyse(path: Path) -> None:
    """Analyse the errors of one file."""
    analyse_errors(read_predictions(path))


def report(path: Path) -> None:
    """Run what ``danish-asr score`` runs."""
    score_file(
        path,
        ReportOptions(outputs=[path.with_suffix(".json"), path.with_suffix(".html")]),
        console=Console(file=StringIO()),
    )


def compare(a: Path, b: Path) -> None:
    """Run what ``danish-asr compare`` runs."""
    compare_files(parse_runs([str(a), str(b)]), console=Console(file=StringIO()))


def rows(count: int, *, seed: int = 0) -> Iterator[Prediction]:
    """Yield random sentences; ``seed`` changes the hypotheses only."""
    references, hypotheses = Random(0), Random(seed)  # noqa: S311 - not cryptography
    for number in range(count):
        words = references.choices(WORDS, k=references.randint(2, 16))
        speaker = number % SPEAKERS
        yield Prediction(
            id=f"utterance-{number:07d}",
            corpus="coral_read_aloud" if number % 3 else "coral_conversation",
            split="test",
            reference=" ".join(words).capitalize() + ".",
            hypothesis=" ".join(with_errors(words, 0.1 + speaker / 1000, hypotheses)),
            duration=len(words) / 2.5,
            speaker_id=f"speaker-{speaker:03d}",
            dialect=DIALECTS[speaker % len(DIALECTS)],
            age_group=("0-24", "25-49", "50+")[speaker % 3],
            gender=("female", "male")[speaker % 2],
        )


def with_errors(words: list[str], rate: float, random: Random) -> Iterator[str]:
    """Yield the words, some of them wrong, missing or followed by another."""
    for word in words:
        if random.random() > rate:
            yield word
        elif random.random() > 0.2:
            yield word.replace("e", "æ").replace("d", "t") + random.choice("ers")


def repeated(count: int) -> Iterator[Prediction]:
    """Yield the small file's rows over and over under new ids."""
    some = list(rows(min(count, ROWS)))
    for number in range(count):
        yield replace(some[number % len(some)], id=f"utterance-{number:07d}")


def show(results: list[Measured]) -> None:
    """Print one line per task."""
    table = Table(title=f"Scoring, one core, Python {sys.version.split()[0]}")
    table.add_column("what")
    table.add_column("seconds", justify="right")
    table.add_column("of CPU", justify="right")
    table.add_column("peak MiB", justify="right")
    for name, seconds, busy, mebibytes in results:
        table.add_row(name, f"{seconds:.2f}", f"{busy:.2f}", f"{mebibytes:.0f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
