"""Runs side by side, and what they and each of them say."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from danish_asr.base.errors import RunError
from danish_asr.base.files import to_yaml
from danish_asr.recipe.run.advice import CHANCE, LOSS, MOST, advise
from danish_asr.recipe.run.run_directory import FAILED
from danish_asr.report.run_advice import advise_run
from danish_asr.report.run_history import History
from danish_asr.report.run_table import report_advice, report_runs
from danish_asr.scoring.predictions import write_predictions
from tests.browser import WIDTH, in_browser, needs_browser
from tests.score_rows import prediction

WER = "Word Error Rate (WER)"


def make_run(folder: Path, rate: float, rates: list[float], *, loss: float = 1.0) -> Path:
    """A run of four steps that is validated at each; complete if it got so far."""
    (folder / "metrics").mkdir(parents=True)
    config: dict[str, Any] = {"optimizer": {"config": {"lr": rate}}, "regime": {"num_steps": 4}}
    (folder / "config.yaml").write_text(to_yaml(config))
    (folder / "environment.json").write_text("[]")
    rows = [{"Step": n, WER: wer, LOSS: loss} for n, wer in enumerate(rates, 1)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "metrics" / "valid.jsonl").write_text(text)
    if len(rates) == 4:
        (folder / "cards").mkdir()
        (folder / "cards" / f"{folder.name}.yaml").touch()
    return folder


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    (tmp_path / "sweep.json").touch()
    make_run(tmp_path / "a", 1e-3, [90, 80, 50, 49])
    make_run(tmp_path / "b", 2e-3, [90, 70, 50, 48])
    (make_run(tmp_path / "c", 0.5, [100, 100], loss=3.0) / FAILED).write_text("the disk is full")
    (make_run(tmp_path / "d", 100, []) / FAILED).write_text("the loss is NaN")
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / FAILED).write_text("lr must be above 0")
    results = tmp_path / "a" / "eval" / "best" / "test"
    results.mkdir(parents=True)
    about = {"model": "m", "checkpoint": "best", "step": 4, "rows_in_split": {"test": 1}}
    (results / "evaluation.json").write_text(json.dumps(about))
    write_predictions(results / "predictions.jsonl", [prediction("x", "ja nej", "ja")])
    (part := results / "part").mkdir()  # its name comes first, and it is not the split's result
    (part / "evaluation.json").write_text(json.dumps(about | {"where": "age > 20"}))
    write_predictions(part / "predictions.jsonl", [prediction("x", "ja nej", "ja nej")])
    return tmp_path


@needs_browser
def test_runs_are_listed_with_state_scores_and_the_keys_in_which_they_differ(sweep: Path) -> None:
    output, page = io.StringIO(), sweep / "runs.html"
    report_runs(sweep, csv=sweep / "runs.csv", html=page, console=Console(file=output))
    lines = output.getvalue().splitlines()
    cells = [line.split() for line in lines[3:8]]
    assert cells == [
        ["b", "finished", "4/4", "48.00", "4", "0.002"],
        ["a", "finished", "4/4", "49.00", "4", "50.00", "0.001"],
        ["c", "failed", "2/4", "100.00", "2", "0.5"],
        ["d", "failed", "0/4", "100"],
        ["e", "failed"],
    ]
    advice = [line.removeprefix("advice: ") for line in lines if line.startswith("advice: ")]
    assert advice[0].startswith(
        "the run b is the best on dev, with Word Error Rate (WER) 48.00 at step 4: keep"
    )
    assert "a is close with 49.00" in advice[0]
    assert any(
        text.endswith("leave out optimizer.config.lr=0.5, which is bad here") for text in advice
    )
    assert any("lr=100, which is bad" in text and "the loss is NaN" in text for text in advice)
    assert "e: failed: lr must be above 0" in lines
    with (sweep / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert (rows[1]["test_wer"], rows[2]["reason"]) == ("0.5", "the disk is full")
    assert in_browser(page, WIDTH, width=380) <= 380


def test_equal_values_are_no_difference_and_a_narrow_terminal_names_what_it_leaves_out(
    tmp_path: Path,
) -> None:
    make_run(tmp_path / "a", 1, [50])
    make_run(tmp_path / "b", 1.0, [60])
    output = io.StringIO()
    report_runs(tmp_path, console=Console(file=output))
    assert " lr" not in output.getvalue()
    make_run(tmp_path / "c", 2, [70])
    report_runs(tmp_path, console=Console(file=output, force_terminal=True, width=40))
    assert "narrow: lr left out" in output.getvalue()


def test_a_directory_without_runs_is_refused_and_a_good_run_gets_no_advice(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no run in it"):
        report_runs(tmp_path)
    output = io.StringIO()
    run = make_run(tmp_path / "good", 1e-3, [50, 30, 25, 24.9])
    report_advice(run, Console(file=output))
    assert output.getvalue().startswith("nothing to say")


def test_runs_without_a_signal_are_ranked_by_the_loss_and_only_those_of_a_sweep(
    tmp_path: Path,
) -> None:
    make_run(tmp_path / "a", 1e-3, [100, 100, 100, 100], loss=3.0)
    make_run(tmp_path / "b", 2e-3, [100, 100], loss=9.5)
    output = io.StringIO()
    report_runs(tmp_path, console=Console(file=output))
    assert "advice" not in output.getvalue()
    assert " stopped   0/4 " in output.getvalue()  # no checkpoint
    (tmp_path / "sweep.json").touch()
    report_advice(tmp_path, Console(file=output))
    assert "the best run on dev, a, has Word Error Rate (WER) 100.00: the runs" in output.getvalue()
    assert "leave out" not in output.getvalue()


def _evaluate(run: Path, words: dict[str, int]) -> None:
    """Ten speakers of each dialect say ten words, of which so many, or one less, are found."""
    results = run / "eval" / "best" / "test"
    results.mkdir(parents=True)
    about = {"model": "m", "checkpoint": "best", "step": 4, "rows_in_split": {"test": 20}}
    (results / "evaluation.json").write_text(json.dumps(about))
    rows = [
        prediction(
            f"{dialect}{n}",
            "ja " * 10,
            "ja " * (found - n % 2),
            dialect=dialect,
            speaker_id=f"{dialect}{n}",
        )
        for dialect, found in words.items()
        for n in range(10)
    ]
    write_predictions(results / "predictions.jsonl", rows)


def test_an_evaluation_shows_a_dialect_that_is_behind_and_too_many_deletions(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path / "run", 1e-3, [50, 30, 25, 24.9])
    _evaluate(run, {"Fynsk": 10, "Vestjysk": 10, "Bornholmsk": 2})
    dialect, deletions = advise_run(History(run))
    assert "Bornholmsk has a WER of 85.00 % (" in dialect.evidence
    assert "100% of the word errors on test are deletions (95 of 95)" in deletions.evidence
    assert "decoder.config.beta" in deletions.text


def test_metrics_show_a_wait_for_data_and_memory_that_is_left_and_advice_has_an_end() -> None:
    reports = [
        {"Step": n, LOSS: 2.0, CHANCE: 9.0, "Data Time": 3.0, "Compute Time": 7.0}
        | {"Peak Reserved Device Memory (%)": 0.4}
        for n in (1, 2)
    ]
    config = {"dataset.asr_task_config.max_num_elements": 1_000_000}
    waiting, memory = advise(reports, [], WER, config, complete=True)
    assert waiting.evidence == "30% of the training time waits for data"
    assert "max_num_elements=2120000, 2.1 times as much" in memory.text
    many = advise(reports, [], WER, config, complete=True, scored=[memory] * 9)
    assert len(many) == MOST
