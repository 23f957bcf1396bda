"""The page of a run, from its files."""

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from rich.console import Console

from danish_asr.base.config_tree import flatten
from danish_asr.base.errors import RunError
from danish_asr.base.files import to_yaml
from danish_asr.recipe.run.advice import CHANCE, LOSS, advise
from danish_asr.recipe.run.run_directory import weights_digest
from danish_asr.report.components import curves_chart
from danish_asr.report.prediction_advice import advise_predictions
from danish_asr.report.run_advice import advise_run
from danish_asr.report.run_history import History, Panel, read_panels
from danish_asr.report.run_page import report_run
from danish_asr.scoring.digests import digests_of
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
    assert "fell from 16.67 (step 30) to 12.50" in text
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


@pytest.mark.parametrize(
    ("losses", "rates", "found"),
    [
        ([3.0, 2.0, 1.0, 0.9], [50, 30, 25, 24.9], None),
        ([3.0, 2.0, 1.0, 0.9], [50, 40, 30, 20], "still improves"),
        ([3.0, 2.0, 1.0, 0.9], [50, 51, 52, 53], "overfits"),
        ([3.0, 1.0, 5.0, 4.9], [50, 30, 25, 24.9], "diverges"),
        ([3.0, 1.0, 5.0, 5.0, 0.9], [50, 30, 25, 24.9], "has recovered"),
        ([3.0, 1.0, 5.0, 0.9, 5.0], [50, 30, 25, 24.9], None),
        ([14.0, 2.0, 1.0, 0.9], [50, 30, 25, 24.9], None),
        ([3.0, 2.9, 2.8, 2.8], [100, 99, 98, 98], "too few steps"),
    ],
)
def test_advice_names_what_a_run_shows_and_is_silent_otherwise(
    losses: list[float], rates: list[float], found: str | None
) -> None:
    reports = [{"Step": n, LOSS: loss, CHANCE: 9.0} for n, loss in enumerate(losses)]
    validations = [{"Step": n, WER: rate} for n, rate in enumerate(rates)]
    config = {"masking.time": 0.5}
    advice = advise(reports, validations, WER, config, complete=True)
    assert len(advice) == (found is not None)
    assert all(found and found in each.text for each in advice)
    assert not any("masking.time" in each.text for each in advice)


def test_a_trained_model_that_learns_nothing_is_told_to_look_at_its_data() -> None:
    reports = [{"Step": 120 + n, LOSS: 2.9, CHANCE: 9.0} for n in range(3)]
    for config in ({"model.name": "omniASR_CTC_300M"}, {}):
        (advice,) = advise(reports, [], WER, config, complete=True)
        assert "hears nothing" in advice.text


SENTENCE = "jens køber ti røde æbler på fyn"


@pytest.mark.parametrize(
    ("hypotheses", "seconds", "found"),
    [
        ([SENTENCE] * 30, 2.5, None),
        # The model is right about most rows, and of two it writes something else.
        ([SENTENCE] * 28 + ["bo bor i ribe og maler"] * 2, 2.5, "2 of 30 rows of test"),
        (["helt andre ord om det hele nu"] * 30, 2.5, None),
        ([SENTENCE.replace("æ", "a").replace("ø", "o")] * 30, 2.5, "never writes æ ø"),
        ([SENTENCE] * 30, 5.0, "6.2 characters a second"),
        ([SENTENCE] * 30, 0.5, "62.0 characters a second"),
    ],
)
def test_predictions_show_wrong_texts_missing_letters_and_a_wrong_speed(
    tmp_path: Path, hypotheses: list[str], seconds: float, found: str | None
) -> None:
    rows = [
        prediction(str(number), SENTENCE, hypothesis, duration=seconds)
        for number, hypothesis in enumerate(hypotheses)
    ]
    write_predictions(tmp_path / "predictions.jsonl", rows)
    advice = [*advise_predictions(tmp_path / "predictions.jsonl", "test")]
    assert len(advice) == (found is not None)
    assert all(found and found in str(each) for each in advice)


def test_an_evaluation_of_weights_that_are_gone_is_named(run: Path) -> None:
    _complete(run)
    (run / "checkpoints" / "step_40" / "model").mkdir(parents=True)
    torch.save({"weight": torch.ones(2)}, run / "checkpoints" / "step_40" / "model" / "a.pt")
    results = run / "eval" / "best" / "test"
    results.mkdir(parents=True)
    write_predictions(results / "predictions.jsonl", [prediction("a", "ja", "ja")])
    about: dict[str, Any] = {"model": "m", "checkpoint": "best", "step": 40}
    about |= {"run": str(run / "checkpoints"), "rows_in_split": {"test": 1}}
    for weights, named in ((weights_digest(run, 40), False), ("0123", True)):
        write_evaluation(results / "predictions.jsonl", **about, weights=weights)
        assert ("of weights 0123" in _page(run)) is named


@pytest.mark.parametrize(("deleted", "named"), [(1, False), (60, True), (90, False)])
def test_a_language_model_is_advised_for_words_that_are_missed_by_a_model_that_hears(
    run: Path, deleted: int, *, named: bool
) -> None:
    _complete(run)
    results = run / "eval" / "best" / "test"
    results.mkdir(parents=True)
    rows = [prediction(str(n), SENTENCE, "" if n < deleted else SENTENCE) for n in range(100)]
    write_predictions(results / "predictions.jsonl", rows)
    about = {"checkpoint": "best", "rows_in_split": {"test": 100}} | digests_of(rows)._asdict()
    (results / "evaluation.json").write_text(json.dumps(about))
    assert ("decode with a language model" in str(advise_run(History(run)))) is named


@pytest.mark.parametrize(
    ("start", "overrides", "named"),
    [
        ("omniASR_CTC_300M", {}, True),
        (None, {}, False),
        ("xls-r-hf", {"target_vocab_size": 5}, False),
    ],
)
def test_a_trained_model_that_knows_nothing_of_the_data_is_named(
    start: str | None, overrides: dict[str, int], *, named: bool
) -> None:
    reports = [{"Step": n, LOSS: 5.0 - n, CHANCE: 9.0} for n in range(1, 5)]
    config = dict(flatten({"model": {"name": start, "config_overrides": overrides}}))
    assert (
        "training begins at 4.00" in str(advise(reports, [], WER, config, complete=False))
    ) is named


def test_training_rows_that_are_harder_than_those_of_validation_are_named() -> None:
    reports = [{"Step": n, LOSS: 1.2 - n / 10, CHANCE: 9.0} for n in range(1, 5)]
    validations = [{"Step": n, WER: 50 - 10 * n, LOSS: 0.3} for n in range(1, 5)]
    for masked, named in ((0, True), (0.5, False)):
        advice = advise(reports, validations, WER, {"masking.time": masked}, complete=False)
        assert ("rows of training" in str(advice)) is named


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
