"""Learning curves: rates of runs on shares of the training data, and what is said about them."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from rich.console import Console

from danish_asr.base.errors import PredictionsError, RunError
from danish_asr.base.files import to_yaml
from danish_asr.report.learning_curve import report_learning_curve
from danish_asr.scoring.learning_curve import LearningCurve, TrainedRun, learning_curves
from danish_asr.scoring.predictions import Prediction, write_predictions
from danish_asr.scoring.scored_rows import score_rows
from danish_asr.scoring.settings import Settings
from tests.score_rows import prediction, write_evaluation

HOURS = 20.0
SHARES = (0.1, 0.3, 1.0)
DIALECTS = {"Fynsk": 1.0, "Østjysk": 0.5}
"""The error rate of a dialect, as a part of that of the first."""


def rows(rate: float, *, seed: int = 0, speakers: int = 20) -> list[Prediction]:
    """Rows of ten words; each is wrong with a chance that depends on the speaker."""
    made, random = [], Random(seed)
    for speaker in range(speakers):
        dialect = [*DIALECTS][speaker % len(DIALECTS)]
        chance = rate * DIALECTS[dialect] * Random(speaker).uniform(0.7, 1.3)
        for number in range(40):
            words = ["ja" if random.random() < chance else "nej" for _ in range(10)]
            about = {"speaker_id": f"s{speaker}", "dialect": dialect}
            texts = " ".join(["nej"] * 10), " ".join(words)
            made.append(prediction(f"{speaker}-{number}", *texts, **about))
    return made


def curves(rate_of: Callable[[float], float], *, seeds: int = 1) -> list[LearningCurve]:
    """The curves of runs whose rate depends on the hours."""
    settings, runs = Settings(), []
    for number, share in enumerate([share for share in SHARES for _ in range(seeds)]):
        predictions = rows(rate_of(share * HOURS), seed=number)
        scored = score_rows(predictions, by=["dialect"], settings=settings)
        run = TrainedRun(name=str(number), share=share, hours=share * HOURS, rows=scored)
        runs.append(run)
    return [*learning_curves(runs, settings, "dialect")]


@pytest.mark.parametrize("seeds", [1, 2])
def test_the_fit_finds_the_law_that_made_the_rates(seeds: int) -> None:
    overall, *dialects = curves(lambda hours: 0.3 * hours**-0.4, seeds=seeds)
    assert overall.exponent.value == pytest.approx(0.4, abs=0.05)
    assert overall.exponent.interval
    low, high = overall.exponent.interval
    assert low < 0.4 < high
    assert overall.doubled.value == pytest.approx(0.75 * 0.3 * 40**-0.4, rel=0.1)
    assert overall.next_hour.value == pytest.approx(0.75 * 0.3 * (21**-0.4 - 20**-0.4), rel=0.3)
    assert [curve.label for curve in dialects] == [*DIALECTS]
    fynsk, oestjysk = dialects
    assert fynsk.next_hour.value < oestjysk.next_hour.value < 0
    assert not overall.is_flat
    assert overall.misfit < 1.15


def test_hours_that_change_nothing_give_a_flat_curve() -> None:
    overall, *_ = curves(lambda _: 0.2)
    assert overall.is_flat


def test_a_curve_that_flattens_bends() -> None:
    overall, *_ = curves(lambda hours: 0.1 if hours > 5 else 0.4 * hours**-0.8)
    assert overall.bend < 0.5


def test_rates_without_errors_and_few_speakers_have_a_curve_without_an_interval() -> None:
    settings = Settings()
    runs = [
        TrainedRun(
            name=str(share),
            share=share,
            hours=share * HOURS,
            rows=score_rows(rows(rate, speakers=4), by=["dialect"], settings=settings),
        )
        for share, rate in zip(SHARES, (0.2, 0.1, 0.0), strict=True)
    ]
    overall, *_ = learning_curves(runs, settings, "dialect")
    assert overall.exponent.value > 0
    assert overall.exponent.interval is None


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Finished runs on three shares, evaluated on dev, and one that has failed."""
    (tmp_path / "sweep.json").touch()
    for number, share in enumerate(SHARES):
        run = tmp_path / f"train_share_{share}"
        (run / "cards").mkdir(parents=True)
        (run / "cards" / f"{run.name}.yaml").touch()
        config = {"dataset": {"train_share": share}, "regime": {"num_steps": 0}}
        (run / "config.yaml").write_text(to_yaml(config))
        (run / "environment.json").write_text("[]")
        (run / "training_data.json").write_text(json.dumps({"hours": share * HOURS}))
        file = run / "eval" / "best" / "dev" / "predictions.jsonl"
        file.parent.mkdir(parents=True)
        write_predictions(file, rows(0.3 * (share * HOURS) ** -0.4, seed=number))
        write_evaluation(file, model="m", rows_in_split={"dev": 800})
    (tmp_path / "failed").mkdir()
    (tmp_path / "failed" / "failed.txt").write_text("the disk is full")
    return tmp_path


def printed(root: Path) -> str:
    console = Console(width=200, record=True, quiet=False)
    report_learning_curve(root, console)
    return console.export_text()


def test_the_report_says_what_the_next_hour_gives_per_dialect_and_what_its_interval_covers(
    sweep: Path,
) -> None:
    text = printed(sweep)
    assert "runs that are not finished are left out: failed" in text
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert any(line.startswith("all 800 20 ") for line in lines)
    assert any(line.startswith("Fynsk 400 10 ") for line in lines)
    assert "advice: one more hour changes the WER by -0." in text
    assert "advice: Fynsk gains most" in text
    assert "not for other training speakers and seeds" in text
    assert "do not rely" not in text


def test_too_few_shares_and_runs_without_an_evaluation_are_refused(sweep: Path) -> None:
    run = sweep / "train_share_0.3"
    (run / "eval").rename(run / "gone")
    with pytest.raises(RunError, match=rf"danish-asr evaluate {run} evaluator.split=dev$"):
        report_learning_curve(sweep)
    (run / "config.yaml").write_text(to_yaml({"dataset": {"train_share": 1.0}}))
    with pytest.raises(RunError, match=r"2 shares.*--over dataset.train_share=0.1,0.3,1.0"):
        report_learning_curve(sweep)


def test_runs_that_scored_different_rows_are_refused(sweep: Path) -> None:
    file = sweep / "train_share_0.3" / "eval" / "best" / "dev" / "predictions.jsonl"
    write_predictions(file, rows(0.1, speakers=19))
    write_evaluation(file, model="m", rows_in_split={"dev": 760})
    with pytest.raises(PredictionsError, match="different rows"):
        report_learning_curve(sweep)


def test_shares_that_have_the_same_rows_are_no_points_of_a_curve(sweep: Path) -> None:
    hours = (sweep / "train_share_0.3" / "training_data.json").read_text()
    (sweep / "train_share_1.0" / "training_data.json").write_text(hours)
    with pytest.raises(RunError, match="2 different numbers of hours"):
        report_learning_curve(sweep)
