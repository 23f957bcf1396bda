"""Runs side by side, and what they and each of them say."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from danish_asr.base.files import to_yaml
from danish_asr.recipe.run.advice import CHANCE, LOSS
from danish_asr.recipe.run.run_directory import FAILED
from danish_asr.report.run_table import Runs, report_runs
from danish_asr.scoring.predictions import write_predictions
from tests.browser import WIDTH, in_browser, needs_browser
from tests.score_rows import prediction, write_evaluation

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
    b = make_run(tmp_path / "b", 2e-3, [90, 70, 50, 48])
    report = {LOSS: 1.0, CHANCE: 9.0, "Lapse Time": 900.0, "Number of Source Elements": 5.76e8}
    lines = (json.dumps({"Step": step, **report}) for step in range(1, 5))
    (b / "metrics" / "train.jsonl").write_text("\n".join(lines) + "\n")
    (make_run(tmp_path / "c", 0.5, [100, 100], loss=3.0) / FAILED).write_text("the disk is full")
    (make_run(tmp_path / "d", 100, []) / FAILED).write_text("the loss is NaN")
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / FAILED).write_text("lr must be above 0")
    results = tmp_path / "a" / "eval" / "best" / "test"
    results.mkdir(parents=True)
    about = {"model": "m", "checkpoint": "best", "step": 4, "rows_in_split": {"test": 1}}
    write_predictions(results / "predictions.jsonl", [prediction("x", "ja nej", "ja")])
    write_evaluation(results / "predictions.jsonl", **about)
    (part := results / "part").mkdir()  # its name comes first, and it is not the split's result
    write_predictions(part / "predictions.jsonl", [prediction("x", "ja nej", "ja nej")])
    write_evaluation(part / "predictions.jsonl", **about, where="age > 20")
    (beam := results / "beam").mkdir()  # no comparison with greedy of another run
    write_predictions(beam / "predictions.jsonl", [prediction("x", "ja nej", "ja nej")])
    write_evaluation(beam / "predictions.jsonl", **about, decoder={"name": "beam", "config": {}})
    return tmp_path


@needs_browser
def test_runs_are_listed_with_state_scores_and_the_keys_in_which_they_differ(sweep: Path) -> None:
    output, page = io.StringIO(), sweep / "runs.html"
    report_runs(sweep, csv=sweep / "runs.csv", html=page, console=Console(file=output))
    lines = output.getvalue().splitlines()
    cells = [line.split() for line in lines[3:8]]
    assert cells == [
        ["b", "finished", "4/4", "48.00", "4", "1.00", "40", "0.002"],
        ["a", "finished", "4/4", "49.00", "4", "50.00", "0.001"],
        ["c", "failed", "2/4", "100.00", "2", "0.5"],
        ["d", "failed", "0/4", "100"],
        ["e", "failed"],
    ]
    assert "e: failed: lr must be above 0" in lines
    with (sweep / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert (rows[0]["hours"], rows[0]["audio_hours_per_hour"], rows[1]["hours"]) == (
        "1.0",
        "40.0",
        "",
    )
    assert (rows[1]["test_wer"], rows[2]["reason"]) == ("0.5", "the disk is full")
    assert in_browser(page, WIDTH, width=380) <= 380


def test_what_begins_at_which_step_is_one_column(tmp_path: Path) -> None:
    for name, stages in (("a", {8: {"lr": 1e-3}}), ("b", {})):
        run = make_run(tmp_path / name, 1e-3, [90, 80])
        trainer = {"unfreeze": {0: "head", "2 epochs": "all"} if stages else {}, "stages": stages}
        (run / "config.yaml").write_text(to_yaml({"trainer": trainer}))
    runs = Runs(tmp_path)
    assert {*runs.keys} == {"trainer.unfreeze", "trainer.stages"}
    (row,) = [row for row in runs.rows if row.name == "a"]
    assert runs.values(row)["trainer.stages"] == '{"8": {"lr": 0.001}}'
