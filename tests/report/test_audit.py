"""Rows of a dataset whose transcript a model contradicts: the page, and the table of their ids."""

import csv
import re
from math import exp
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.report.audit import audit
from danish_asr.scoring.contradictions import KINDS
from danish_asr.scoring.predictions import read_references
from tests.browser import faults_of, needs_browser
from tests.builders import build_dataset
from tests.foreign_code import NAME, ForeignCode
from tests.score_rows import prediction, write_evaluation, write_rows
from tests.shards import utterance, write_shard

WRONG = 3
"""Rows whose text the model contradicts, the first of train."""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("audit") / "data"
    build_dataset(root)
    return root


def a_run(
    folder: Path,
    dataset: Path,
    *,
    split: str = "train",
    checkpoint: str = "best",
    wrong_rows: int = WRONG,
    corpus: bool = True,
    **about: Any,
) -> Path:
    """A run that has transcribed a split."""
    file = folder / "eval" / checkpoint / split / "predictions.jsonl"
    file.parent.mkdir(parents=True)
    rows = []
    for number, row in enumerate(read_references(dataset, split).to_dict("records")):
        wrong = number < wrong_rows
        loss = 7.0 if wrong else 0.01 * (number % 7)
        heard = "her er noget helt andet sagt" if wrong else row["reference"]
        values: dict[str, Any] = {"corpus": row["corpus"] if corpus else None, "split": split}
        values |= {"loss": loss, "confidence": exp(-min(loss, 0.05))}
        rows.append(prediction(row["id"], row["reference"], heard, **values))
    write_rows(file, rows)
    write_evaluation(file, checkpoint=checkpoint, **{"rows_in_split": {split: len(rows)}} | about)
    return folder


def audited(dataset: Path, models: list[Path], out: Path) -> tuple[list[dict[str, str]], str]:
    """The table that an audit writes, and what it prints."""
    console = Console(record=True, width=300)
    audit(dataset, models, out, console=console)
    with out.with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file)), console.export_text()


def wrong_ids(dataset: Path) -> set[str]:
    return {*read_references(dataset, "train")["id"][:WRONG]}


def test_a_run_judges_all_splits_by_its_best_model_else_by_the_last(
    tmp_path: Path, dataset: Path
) -> None:
    run, page = tmp_path / "run", tmp_path / "audit.html"
    a_run(run, dataset, split="test", checkpoint="last", wrong_rows=0)
    rows, printed = audited(dataset, [run], page)
    of_test = len(read_references(dataset))
    assert not rows
    assert f"0 of {of_test} judged" in printed
    a_run(run, dataset)
    a_run(run, dataset, split="dev", wrong_rows=0)
    rows, printed = audited(dataset, [run], page)
    judged = sum(len(read_references(dataset, split)) for split in ("train", "dev"))
    assert {row["id"] for row in rows} == wrong_ids(dataset)
    assert f"{WRONG} of {judged} judged" in printed
    assert f" {of_test} rows of the dataset have no prediction" in printed
    (run / "eval" / "best" / "dev" / "evaluation.json").write_text("{")
    with pytest.raises(PredictionsError, match=r"dev.evaluation\.json"):
        audit(dataset, [run], page)


def test_a_row_whose_text_has_changed_is_not_judged_and_a_row_of_two_models_once(
    tmp_path: Path,
) -> None:
    rows = [utterance(number) for number in range(20)]
    write_shard(root := tmp_path / "data", rows)
    runs = [a_run(tmp_path / "a", root), a_run(tmp_path / "b", root, wrong_rows=0)]
    changed = wrong_ids(root)
    write_shard(root, [rows[0] | {"text": "en ny tekst"}, *rows[1:]])
    found, printed = audited(root, runs, tmp_path / "audit.html")
    assert {row["id"] for row in found} == changed - {rows[0]["id"]}
    assert f"{WRONG - 1} of {len(rows) - 1} judged" in printed
    assert "1 rows of the dataset have no prediction" in printed


def test_an_evaluation_or_files_with_parts_of_it_are_judged_with_or_without_a_corpus(
    tmp_path: Path, dataset: Path
) -> None:
    place = "eval/best/train"
    with_corpus = a_run(tmp_path / "run", dataset) / place
    without = a_run(tmp_path / "other", dataset, corpus=False) / place
    lines = (without / "predictions.jsonl").read_text("utf-8").splitlines(keepends=True)
    halves = [tmp_path / "even.jsonl", tmp_path / "odd.jsonl"]
    for number, file in enumerate(halves):
        file.write_text("".join(lines[number::2]), encoding="utf-8")
    for models in ([with_corpus], [without], halves):
        rows, printed = audited(dataset, models, tmp_path / "audit.html")
        assert {row["id"] for row in rows} == wrong_ids(dataset)
        assert {row["reason"] for row in rows} == {"another text"}
        assert f"{WRONG} of {len(lines)} judged" in printed
        assert [kind for kind in KINDS if kind in printed] == ["another text"]


def test_a_clip_that_cannot_be_heard_is_left_out_and_counted_and_all_without_audio(
    tmp_path: Path,
) -> None:
    rows = [utterance(number) for number in range(20)]
    rows[0]["audio_bytes"] = b"no audio"
    write_shard(root := tmp_path / "data", rows)
    run, out = a_run(tmp_path / "run", root), tmp_path / "audit.html"
    found, printed = audited(root, [run], out)
    assert {row["id"] for row in found} == wrong_ids(root)
    page = out.read_text(encoding="utf-8")
    assert page.count("data:audio/flac") == WRONG - 1
    assert re.search(rf"\b{WRONG - 1}; [^.]*--no-audio", page)
    (line,) = [line for line in printed.splitlines() if "out of the page" in line]
    assert line.split()[:2] == ["warning:", "1"]
    assert line.removeprefix("warning: ") in page
    audit(root, [run], out, audio=False)
    page = out.read_text(encoding="utf-8")
    assert "data:audio" not in page
    assert "--no-audio" not in page


@pytest.mark.parametrize(
    ("name", "out", "fault"),
    [
        ("empty", "audit.html", r"danish-asr evaluate .*evaluator\.split=train"),
        ("none", "audit.html", "none: no such"),
        ("other.jsonl", "audit.html", r"other\.jsonl: no row is one of .*data"),
        ("beam", "audit.html", "no evaluation"),
        ("run", "audit.csv", r"--out: expected a file that ends in \.html"),
        ("run", "folder.html", r"--out: expected a file .*folder\.html"),
        ("heard.csv", "heard.html", r"heard\.csv"),  # its table would be heard.csv
        ("heard.csv", "linked.html", r"heard\.csv"),
    ],
)
def test_what_is_no_evaluation_of_the_dataset_or_would_be_replaced_is_refused(
    tmp_path: Path, dataset: Path, name: str, out: str, fault: str
) -> None:
    """`audit ds --model heard.csv --out heard.html` replaced the predictions by its list."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder.html").mkdir()
    write_rows(tmp_path / "other.jsonl", [prediction("of another", "ja", "ja")])
    a_run(tmp_path / "run", dataset)
    a_run(tmp_path / "beam", dataset, decoder={"name": "beam"})
    (tmp_path / "heard.csv").write_text("id,corpus,split,hypothesis\n", encoding="utf-8")
    (tmp_path / "linked.html").symlink_to(tmp_path / "heard.csv")
    with pytest.raises((ConfigError, PredictionsError), match=fault):
        audit(dataset, [tmp_path / name], tmp_path / out)
    assert not (tmp_path / "audit.html").exists()
    assert (tmp_path / "heard.csv").read_text(encoding="utf-8").startswith("id,corpus")


def test_a_list_with_rows_of_test_is_none_to_leave_out(tmp_path: Path, dataset: Path) -> None:
    one_corpus = f"test_{read_references(dataset)['corpus'].iloc[0]}"
    for splits, is_ready in (
        (["train"], True),
        (["train", "test"], False),
        (["train", one_corpus], False),
    ):
        runs = [a_run(tmp_path / f"{splits}{own}", dataset, split=own) for own in splits]
        console = Console(width=500, record=True)
        assert audit(dataset, runs, tmp_path / "audit.html", console=console) is is_ready
        warned = "--without" in console.export_text()
        assert warned is not is_ready


def test_a_profile_in_an_evaluation_names_no_code(
    tmp_path: Path, dataset: Path, foreign_code: ForeignCode
) -> None:
    run, out = a_run(tmp_path / "run", dataset, score_profile=NAME), tmp_path / "audit.html"
    with pytest.raises(ConfigError, match=r"(?s)train/evaluation\.json.*--profile"):
        audit(dataset, [run], out)
    assert not foreign_code.ran
    assert audit(dataset, [run], out, profile="coral")


@needs_browser
def test_the_page_is_whole_on_a_phone(tmp_path: Path, dataset: Path) -> None:
    audited(dataset, [a_run(tmp_path / "run", dataset)], tmp_path / "audit.html")
    assert faults_of(tmp_path / "audit.html") == []
