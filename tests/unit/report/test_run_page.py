"""The page of a run, from its files."""

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from danish_asr.base.errors import RunError
from danish_asr.base.files import to_yaml
from danish_asr.recipe.run.advice import CHANCE, LOSS
from danish_asr.report.components import curves_chart
from danish_asr.report.run_history import Panel, read_panels
from danish_asr.report.run_page import report_run
from danish_asr.scoring.predictions import write_predictions
from tests.browser import WIDTH, in_browser, needs_browser
from tests.score_rows import prediction, write_evaluation

WER = "Word Error Rate (WER)"
HOSTILE = "<script>alert(1)</script>"


def _lines(file: Path, rows: list[dict[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that has only just begun."""
    run = tmp_path / "run"
    run.mkdir()
    optimizer = {"name": "adamw", "config": {"lr": 1e-3}}
    config = {
        "optimizer": optimizer,
        "lr_scheduler": {"name": "tri_stage"},
        "regime": {"num_steps": 40, "publish_metrics_every_n_steps": 10},
    }
    (tmp_path / "layer.yaml").write_text(to_yaml({"optimizer": {"config": {"lr": 2e-3}}}))
    (run / "config.yaml").write_text(to_yaml(config))
    command = ["train", "--config-file", f"{tmp_path}/layer.yaml", "optimizer.config.lr=1e-3"]
    (run / "environment.json").write_text(json.dumps([{"command": command}]))
    return run


def _complete(run: Path) -> None:
    report = {CHANCE: 9.0, "Learning Rate": 1e-3, "Gradient Norm": 2.0, "Data Time": 1.0}
    report |= {"Lapse Time": 20.0, "Number of Source Elements": 9_600_000.0}
    report["Peak Reserved Device Memory"] = 2**31
    steps = range(10, 50, 10)
    _lines(run / "metrics" / "train.jsonl", [{"Step": n, LOSS: 20 / n, **report} for n in steps])
    rates = {n: {WER: 500 / n, f"wer/dialect/{HOSTILE}": 600 / n} for n in steps}
    _lines(run / "metrics" / "valid.jsonl", [{"Step": n, LOSS: 1.0, **rates[n]} for n in steps])
    (run / "cards").mkdir()
    (run / "cards" / "run.yaml").touch()


def _page(run: Path) -> str:
    report_run(run, console=Console(file=io.StringIO()))
    return (run / "report.html").read_text(encoding="utf-8")


@needs_browser
def test_the_page_has_everything_and_fits_a_phone(run: Path) -> None:
    _complete(run)
    results = run / "eval" / "best" / "test"
    results.mkdir(parents=True)
    about = {"model": "m", "checkpoint": "best", "step": 40, "rows_in_split": {"test": 2}}
    rows = [prediction("a", "ja", "ja"), prediction("b", f"nej {HOSTILE}", "ja")]
    write_predictions(results / "predictions.jsonl", rows)
    write_evaluation(results / "predictions.jsonl", **about)
    (results / "report.html").touch()
    text = _page(run)
    assert "Training run: complete." in text
    assert 'href="eval/best/test/report.html"' in text
    assert "best, step 40" in text
    assert re.search(r"optimizer\.config\.lr</th>.*>0\.001<.*>5e-05<.*layer.yaml: 0\.002", text)
    assert f"tensorboard --logdir {run}/tb" in text
    assert "<script>alert" not in text
    assert 'http-equiv="refresh"' not in text
    charts = re.findall(r"<title>(.*?)</title><desc>(.*?)</desc>", text)
    assert dict(charts)["Audio per step"].startswith("audio: 1 at step 10")
    assert dict(charts)["Time per step"].startswith("all: 2 at step 10")
    assert "chance: 9 at step 10" in dict(charts)["Loss"]
    assert "reserved: 2 at step 10" in dict(charts)["GPU memory, peak"]
    assert in_browser(run / "report.html", WIDTH, width=380) <= 380


def test_a_run_that_has_just_begun_has_a_page_and_another_directory_is_refused(run: Path) -> None:
    assert "the first one comes at step 10" in _page(run)
    with pytest.raises(RunError, match=r"no config\.yaml and no environment\.json"):
        report_run(run.parent)


def test_curves_are_sorted_by_step_and_the_last_whole_line_of_a_step_counts(tmp_path: Path) -> None:
    losses = [(10, 5.0), (5, 9.0), (10, 4.0), (7, float("nan")), (8, None)]
    file = tmp_path / "metrics" / "train.jsonl"
    _lines(file, [{"Step": step, LOSS: value} for step, value in losses])
    with file.open("a", encoding="utf-8") as stream:
        stream.write('{"Step": 12')
    _lines(tmp_path / "metrics" / "valid.jsonl", [{"Step": 1, WER: 0.0}])
    loss, rates = read_panels(tmp_path)
    assert {name: dict(curve) for name, curve in loss.curves.items()} == {
        "training": {5: 9.0, 10: 4.0}
    }
    assert {name: dict(curve) for name, curve in rates.curves.items()} == {"WER": {1: 0.0}}
    with pytest.raises(RunError, match="metrics"):
        read_panels(tmp_path / "metrics")


@pytest.mark.parametrize(
    ("points", "noisy", "smoothed"), [(60, True, 1), (60, False, 0), (9, True, 0)]
)
def test_a_long_noisy_curve_is_smoothed(points: int, *, noisy: bool, smoothed: int) -> None:
    curve = pd.Series(1.0 + np.arange(points) % 2, index=np.arange(points))
    chart = curves_chart(Panel("Loss", "", {"training": curve}, noisy=noisy))
    assert chart.count("training, smoothed") == smoothed
    assert chart.count("highest 2") == 1
