"""Rows whose transcript models contradict: which model judges a row, the page and the table."""

import csv
import json
import shutil
from math import exp
from pathlib import Path

import pytest
from rich.console import Console

from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.base.files import from_yaml, to_yaml
from danish_asr.report.audit import audit
from danish_asr.report.dataset_rows import read_rows
from danish_asr.scoring.predictions import write_predictions
from tests.browser import WIDTH, in_browser, needs_browser
from tests.recipe.running import evaluate
from tests.score_rows import prediction

WRONG = 5
"""Rows whose text a model contradicts, the first of train."""


def training_rows(dataset: Path) -> list[tuple[str, str]]:
    table = read_rows(dataset).table
    columns = (table[name].to_pylist() for name in ("id", "text", "split"))
    return [(name, text) for name, text, split in zip(*columns, strict=True) if split == "train"]


def a_run(
    folder: Path, dataset: Path, finished: Path, *, where: str | None = None, learnt: bool = False
) -> Path:
    """A run on the rows ``where``; it hears other texts than some have, unless it learnt them."""
    evaluation = folder / "eval" / "best" / "train"
    evaluation.mkdir(parents=True)
    config = from_yaml((finished / "config.yaml").read_text())
    config["dataset"]["train_where"] = where
    (folder / "config.yaml").write_text(to_yaml(config))
    predictions = []
    for number, (name, text) in enumerate(training_rows(dataset)):
        wrong = number < WRONG and not (learnt and len(text) % 2 == int(str(where)[-1]))
        loss = 7.0 if wrong else 0.01 * (number % 7)
        hypothesis = "her er noget helt andet sagt" if wrong else text
        measures = {"loss": loss, "confidence": exp(-min(loss, 0.05))}
        predictions.append(prediction(name, text, hypothesis, split="train", **measures))
    write_predictions(evaluation / "predictions.jsonl", predictions)
    (evaluation / "evaluation.json").write_text(
        json.dumps({"dataset": "tiny", "run": str(folder / "checkpoints")})
    )
    return folder


def audited(dataset: Path, *models: Path, out: Path) -> tuple[list[dict[str, str]], str]:
    """The table that an audit writes, and what it prints."""
    console = Console(record=True, width=300, quiet=False)
    audit(dataset, models, out, console=console)
    with out.with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file)), console.export_text()


def wrong_ids(dataset: Path) -> set[str]:
    return {name for name, _ in training_rows(dataset)[:WRONG]}


def test_the_page_has_the_audio_and_the_table_the_ids_and_kinds_of_the_rows(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    run = a_run(tmp_path / "run", dataset, finished_run)
    rows, printed = audited(dataset, run, out=tmp_path / "audit.html")
    assert {row["id"] for row in rows} == wrong_ids(dataset)
    assert {row["reason"] for row in rows} == {"another text"}
    page = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert page.count("data:audio/flac") == WRONG
    assert "48 rows are judged by a model that was trained on them" in printed
    assert "rows that no evaluation has are not judged: 12 of dev, 16 of test" in printed
    assert f"{WRONG} of 48 judged rows" in printed


def test_each_row_is_judged_by_the_model_that_was_not_trained_on_it(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    halves = [
        a_run(
            tmp_path / half,
            dataset,
            finished_run,
            where=f"LENGTH(text) % 2 = {half}",
            learnt=True,
        )
        for half in "01"
    ]
    rows, printed = audited(dataset, *halves, out=tmp_path / "audit.html")
    assert {row["id"] for row in rows} == wrong_ids(dataset)
    assert "was trained on them" not in printed
    lengths = {name: len(text) for name, text in training_rows(dataset)}
    rows, printed = audited(dataset, halves[0], out=tmp_path / "audit.html")
    assert {row["id"] for row in rows} == {i for i in wrong_ids(dataset) if lengths[i] % 2}
    assert "rows are judged by a model that was trained on them" in printed


def test_a_run_that_began_with_another_knows_its_rows(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    first = a_run(tmp_path / "first", dataset, finished_run)
    second = a_run(tmp_path / "second", dataset, finished_run, where="split = 'train'")
    config = from_yaml((second / "config.yaml").read_text())
    config["dataset"]["train_where"] = "LENGTH(text) % 2 = 0"
    config["model"]["path"] = str(first)
    (second / "config.yaml").write_text(to_yaml(config))
    _, printed = audited(dataset, second, out=tmp_path / "audit.html")
    assert "48 rows are judged by a model that was trained on them" in printed


def test_a_file_tells_its_run_and_without_one_the_rows_may_be_learnt(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    run = a_run(tmp_path / "run", dataset, finished_run)
    file = run / "eval" / "best" / "train" / "predictions.jsonl"
    learnt = "48 rows are judged by a model that was trained on them"
    about = {"dataset": "tiny", "run": str(run / "checkpoints")}
    (file.parent / "evaluation.json").write_text(json.dumps(about))
    assert learnt in audited(dataset, file, out=tmp_path / "audit.html")[1]
    (file.parent / "evaluation.json").unlink()
    _, printed = audited(dataset, file, out=tmp_path / "audit.html")
    assert "it cannot be told which rows it was trained on" in printed


def test_evaluations_of_models_by_name_and_their_directories_are_read(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    run = a_run(tmp_path / "run", dataset, finished_run)
    named = tmp_path / "named" / "eval" / "omniASR_CTC_300M" / "train"
    shutil.copytree(run / "eval" / "best" / "train", named)
    (named / "evaluation.json").write_text(json.dumps({"dataset": "tiny", "run": ""}))
    for model in (tmp_path / "named", named.parent, named):
        rows, printed = audited(dataset, model, out=tmp_path / "audit.html")
        assert {row["id"] for row in rows} == wrong_ids(dataset)
        assert "it cannot be told which rows it was trained on" in printed
    evaluation = run / "eval" / "best" / "train"
    _, printed = audited(dataset, evaluation, out=tmp_path / "audit.html")
    assert "48 rows are judged by a model that was trained on them" in printed


def test_what_is_no_evaluation_of_the_dataset_is_named(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    out = tmp_path / "audit.html"
    with pytest.raises(PredictionsError, match="is a dataset, not a run"):
        audit(dataset, [dataset], out)
    (tmp_path / "empty").mkdir()
    with pytest.raises(PredictionsError, match="no evaluation and no checkpoint; name a run"):
        audit(dataset, [tmp_path / "empty"], out)
    run = a_run(tmp_path / "run", dataset, finished_run)
    file = run / "eval" / "best" / "train" / "predictions.jsonl"
    write_predictions(file, [prediction("of another", "dataset", "dataset", split="train")])
    with pytest.raises(
        PredictionsError, match=r"none in .*predictions\.jsonl \(of dataset tiny\)$"
    ):
        audit(dataset, [run], out)
    assert not out.exists()


def test_what_cannot_be_judged_is_refused_with_what_to_do(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    out = tmp_path / "audit.html"
    with pytest.raises(PredictionsError, match="no such run or file"):
        audit(dataset, [tmp_path / "run"], out)
    shutil.copytree(finished_run, tmp_path / "run")
    with pytest.raises(PredictionsError, match=r"danish-asr evaluate .*evaluator\.split=train"):
        audit(dataset, [tmp_path / "run"], out)
    assert evaluate(tmp_path / "run", dataset, "evaluator.split=train") == 0
    with pytest.raises(PredictionsError, match="too weak"):
        audit(dataset, [tmp_path / "run"], out)
    with pytest.raises(ConfigError, match=r"--out: expected a file that ends in \.html"):
        audit(dataset, [tmp_path / "run"], tmp_path / "audit.csv")
    assert not out.exists()


@needs_browser
@pytest.mark.parametrize("width", [390, 1200])
def test_the_page_fits_a_phone_and_a_screen(
    tmp_path: Path, dataset: Path, finished_run: Path, width: int
) -> None:
    run = a_run(tmp_path / "run", dataset, finished_run)
    audited(dataset, run, out=tmp_path / "audit.html")
    assert in_browser(tmp_path / "audit.html", WIDTH, width=width) <= width
