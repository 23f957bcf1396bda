"""The tables of `benchmarks/quality.py`: error rates of its arms, and their differences.

A difference is that of ``danish-asr compare`` over the rows of all seeds. Its interval adds the
variance between seeds, pooled over the arms, to that between speakers.
"""

import json
import re
from collections.abc import Iterator, Sequence
from math import hypot, isnan, sqrt
from pathlib import Path
from statistics import fmean, variance
from typing import Any, Final

import pandas as pd
from rich.console import Console
from rich.table import Table

from danish_asr.base.files import publish_text
from danish_asr.scoring.compare import compare_runs
from danish_asr.scoring.intervals import t_quantile
from danish_asr.scoring.predictions import Prediction, read_predictions

OURS: Final = "ours"
RESULT: Final = "result.json"
"""What a finished run has used: ``cpu_seconds`` (null if it was interrupted), ``audio_seconds``."""

SETS: Final = {
    "dev": ("dev,test", "dev"),
    "test": ("dev,test", "test"),
    "noisy": ("test/noisy", "test"),
}
"""Where the predictions of each set are in a run's ``eval/best``, and its split."""

_COLUMNS: Final = (
    *("arm", "seeds", "dev", "test", "difference", "noisy", "difference", "CPU", "audio"),
)


def run_of(folder: Path, arm: str, seed: int) -> Path:
    """The directory of a run."""
    return folder / "runs" / re.sub(r"\W+", "-", arm).strip("-") / f"seed_{seed}"


def report(folder: Path, arms: Sequence[str]) -> None:
    """Print the table of the finished runs; write it as Markdown, and all numbers as JSON.

    An arm ``x + y`` is compared with ``x``, others with ours.
    """
    found: dict[str, dict[str, Any]] = {}
    for arm in dict.fromkeys(arms):
        baseline = arm.rpartition(" + ")[0] or OURS
        seeds = [
            seed
            for seed in range(1, 100)
            if all((run_of(folder, each, seed) / RESULT).is_file() for each in (arm, baseline))
        ]
        if seeds:
            found[arm] = {
                "seeds": seeds,
                "ratios_to_ours": _ratios(folder, arm, seeds),
                **{part: _measure(folder, baseline, arm, seeds, part) for part in SETS},
            }
    for part in SETS:
        _add_intervals([arm[part] for name, arm in found.items() if name != OURS])
    publish_text(folder / "quality.json", json.dumps(found, indent=1, ensure_ascii=False))
    table = Table(
        *_COLUMNS, title="WER, %; differences to ours, or to what is before +, with 95 % intervals"
    )
    lines = [_COLUMNS, ("---",) * len(_COLUMNS)]
    for arm, values in found.items():
        cells = _cells(arm, values)
        table.add_row(*cells)
        lines.append(cells)
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    publish_text(folder / "quality.md", text)
    Console(width=140).print(table)


def _measure(
    folder: Path, baseline: str, arm: str, seeds: Sequence[int], part: str
) -> dict[str, Any]:
    """Compare an arm with another on a set, in per cent; ``by_seed`` has the difference of each."""

    def compare(*chosen: int) -> "pd.Series[Any]":
        runs = {
            name: {f"{name} {seed}": _predictions(folder, each, seed, part) for seed in chosen}
            for name, each in (("baseline", baseline), ("arm", arm))
        }
        return compare_runs(runs, by=()).table.iloc[1]

    both = compare(*seeds)
    width = both["wer_high"] - both["wer_low"]
    return {
        "wer": 100 * both["wer"],
        "difference": 100 * both["wer_difference"],
        "half_between_speakers": 0.0 if isnan(width) else 50 * width,
        "by_seed": [100 * compare(seed)["wer_difference"] for seed in seeds],
    }


def _predictions(folder: Path, arm: str, seed: int, part: str) -> Iterator[Prediction]:
    """The rows of a run in one of ``SETS``."""
    place, split = SETS[part]
    file = run_of(folder, arm, seed) / "eval" / "best" / place / "predictions.jsonl"
    return (row for row in read_predictions(file) if row.split == split)


def _add_intervals(compared: Sequence[dict[str, Any]]) -> None:
    """Add ``low`` and ``high`` of each difference, for other speakers and other seeds."""
    # Where the best model is that of the baseline, seeds say nothing.
    different = [each["by_seed"] for each in compared if any(each["by_seed"])]
    several = [by_seed for by_seed in different if len(by_seed) > 1]
    freedom = sum(len(by_seed) - 1 for by_seed in several)
    reach = t_quantile(0.975, freedom) * sqrt(fmean(map(variance, several))) if freedom else 0.0
    for each in compared:
        seeds = reach / sqrt(len(each["by_seed"])) if any(each["by_seed"]) else 0.0
        half = hypot(each["half_between_speakers"], seeds)
        each |= {"low": each["difference"] - half, "high": each["difference"] + half}


def _ratios(folder: Path, arm: str, seeds: Sequence[int]) -> dict[str, float | None]:
    """How much an arm's runs used, as a multiple of ours with the same seeds."""
    used = [
        [json.loads((run_of(folder, each, seed) / RESULT).read_text()) for seed in seeds]
        for each in (arm, OURS)
    ]
    return {
        name: sum(run[name] for run in used[0]) / sum(run[name] for run in used[1])
        if all(run[name] for runs in used for run in runs)
        else None
        for name in ("cpu_seconds", "audio_seconds")
    }


def _cells(arm: str, values: dict[str, Any]) -> tuple[str, ...]:
    """A line of the table."""

    def difference(part: str) -> str:
        if arm == OURS:
            return ""
        return "{difference:+.1f} ({low:+.1f} to {high:+.1f})".format(**values[part])

    wer = {part: f"{values[part]['wer']:.1f}" for part in SETS}
    ratios = (f"{ratio:.2f}" if ratio else "" for ratio in values["ratios_to_ours"].values())
    return (
        *(arm, str(len(values["seeds"])), wer["dev"], wer["test"], difference("test")),
        *(wer["noisy"], difference("noisy"), *ratios),
    )
