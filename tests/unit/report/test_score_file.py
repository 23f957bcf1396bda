"""``score_file``: from a predictions file to the table and the reports."""

import io
import json
import os
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.report import ReportOptions, compare_files, score_file
from danish_asr.report.outputs import default_outputs
from danish_asr.scoring.predictions import write_predictions
from danish_asr.scoring.references import read_references
from tests.builders import build_dataset
from tests.score_rows import four_rows, prediction, random_rows, write_evaluation

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture
def predictions(tmp_path: Path) -> Path:
    path = tmp_path / "predictions.jsonl"
    write_predictions(path, four_rows())
    return path


def _console() -> Console:
    return Console(record=True, width=120, file=io.StringIO())


def test_table_json_csv_and_markdown_are_unchanged(tmp_path: Path) -> None:
    # Two dialects and rows of six words, so that the files stay small.
    rows = [
        prediction(row.id, row.reference, row.hypothesis, speaker_id=row.speaker_id,
                   dialect=row.dialect, gender=row.gender, duration=9.5)
        for row in random_rows(1500)
        if row.gender and row.dialect in {"Fynsk", "Østjysk"} and len(row.reference.split()) == 6
    ]  # fmt: skip
    path = tmp_path / "predictions.jsonl"
    write_predictions(path, rows)
    console = _console()
    names = ["scores.json", "scores.csv", "scores.md"]
    outputs = [tmp_path / name for name in names]
    options = ReportOptions(by=["dialect", "corpus,gender"], outputs=outputs)
    score_file(path, options, console=console)
    shown = console.export_text().replace(f"{tmp_path}/", "")
    (tmp_path / "scores.txt").write_text(shown, encoding="utf-8")
    for name in [*names, "scores.txt"]:
        text = (tmp_path / name).read_text(encoding="utf-8")
        text = re.sub(r"\n {6,}", " ", text)  # a line per group of the JSON
        text = text.replace(f"{tmp_path}/", "")
        if "UPDATE_GOLDEN" in os.environ:
            (GOLDEN / name).write_text(text, encoding="utf-8")
        assert text == (GOLDEN / name).read_text(encoding="utf-8"), name


def test_files_of_folds_are_scored_as_one(tmp_path: Path) -> None:
    rows = list(random_rows(400, speakers=10))
    files = [tmp_path / f"{number}" / "predictions.jsonl" for number in range(3)]
    whole = tmp_path / "predictions.jsonl"
    write_predictions(whole, rows)
    write_evaluation(whole, rows_in_split={"test": 400}, model="x")
    for number, file in enumerate(files):
        file.parent.mkdir()
        own = [row for row in rows if int(str(row.speaker_id)[-3:]) % 3 == number]
        write_predictions(file, own)
        write_evaluation(file, rows_in_split={"test": len(own)}, model="x", dataset=f"{number}")
    page = tmp_path / "page.html"
    scores = score_file(files, ReportOptions(outputs=[page]), console=_console())
    assert scores.to_dict() == score_file(whole, console=_console()).to_dict()
    assert scores.overall.speakers == 10
    assert page.is_file()
    with pytest.raises(PredictionsError, match=f"{files[0]}: id .* is in {whole} too"):
        score_file([whole, files[0]], console=_console())
    again = files[0].parent / ".." / files[0].parent.name / files[0].name
    with pytest.raises(ConfigError, match=f"{files[0]} is given twice"):
        score_file([files[0], again], console=_console())
    references, console = tmp_path / "r.jsonl", _console()
    write_predictions(references, rows)
    score_file(files, ReportOptions(references=references), console=console)
    assert "have no row in" not in console.export_text()


def test_where_speakers_are_in_several_groups_the_groups_compared_have_eight(
    tmp_path: Path,
) -> None:
    rows = [
        replace(row, extra={"noise": "cafe" if number < 200 else "none"})
        for number, row in enumerate(random_rows(400, speakers=10))
    ]
    write_predictions(path := tmp_path / "p.jsonl", rows)
    for by, said in ((["noise"], True), (["dialect"], False)):
        console = _console()
        score_file(path, ReportOptions(by=by), console=console)
        shown = console.export_text()
        assert ("8 where speakers are in several groups" in shown) is said


def test_an_evaluation_of_some_rows_says_which_everywhere(predictions: Path) -> None:
    write_evaluation(predictions, rows_in_split={"test": 9}, where="age < 20")
    console = _console()
    files = [predictions.with_name(name) for name in ("page.html", "block.md", "t.csv", "s.json")]
    page, block, table, document = files
    score_file(predictions, ReportOptions(outputs=files), console=console)
    assert "4 rows scored of 9 in the split, where age < 20" in console.export_text()
    assert "of 9 in the split, where age &lt; 20" in page.read_text("utf-8")
    assert "of 9 in the split, where age < 20" in block.read_text("utf-8")
    assert ",9,age < 20," in table.read_text("utf-8")
    assert json.loads(document.read_text("utf-8"))["rows"]["where"] == "age < 20"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "predictions_sha256 are not those of predictions.jsonl: the file is not the one"),
        ({"predictions_sha256": None}, "it has no hashes"),
    ],
)
def test_predictions_that_were_changed_after_their_evaluation_are_refused(
    predictions: Path, changes: dict[str, Any], message: str
) -> None:
    file = write_evaluation(predictions, model="ours")
    about = {
        key: value for key, value in json.loads(file.read_text()).items() if key not in changes
    }
    file.write_text(json.dumps(about))
    write_predictions(predictions, [replace(row, hypothesis="ja") for row in four_rows()])
    with pytest.raises(PredictionsError, match=message):
        score_file(predictions, console=_console())
    with pytest.raises(PredictionsError, match=message):
        compare_files({"A": [predictions], "B": [predictions]}, console=_console())


def test_another_system_beside_an_evaluation_is_not_published_under_its_name(
    tmp_path: Path, predictions: Path
) -> None:
    write_evaluation(predictions, model="ours", rows_in_split={"test": 4})
    write_predictions(
        whisper := tmp_path / "whisper.jsonl",
        [replace(row, hypothesis="ja") for row in four_rows()],
    )
    write_predictions(copy := tmp_path / "copy.jsonl", reversed(four_rows()))
    index, console = tmp_path / "index.yaml", _console()
    with pytest.raises(ConfigError, match="--model-name"):
        score_file(whisper, ReportOptions(outputs=[index]), console=console)
    assert not index.exists()
    assert "evaluation.json is of other predictions" in console.export_text()
    scores = score_file(copy, ReportOptions(outputs=[index]), console=_console())
    assert "name: ours" in index.read_text("utf-8")
    assert scores.rows.predictions_sha256 in index.read_text("utf-8")
    assert (
        scores.rows.references_sha256 == score_file(whisper, console=console).rows.references_sha256
    )


def test_references_of_a_file_are_not_known_to_be_the_split(
    tmp_path: Path, predictions: Path
) -> None:
    references = tmp_path / "references.csv"
    lines = [f'{row.id},"{row.reference}"' for row in four_rows()]
    references.write_text("\n".join(["id,reference", *lines, "e,hun"]))
    console, options = _console(), ReportOptions(references=references)
    assert score_file(predictions, options, console=console).rows.in_split is None
    shown = console.export_text()
    assert "1 of 5 references have no row in" in shown
    assert "in the split" not in shown


@pytest.mark.parametrize(
    ("runs", "steps", "warned"),
    [
        (("r", "r"), (10, 20), True),
        (("r", "r"), (10, 10), False),
        (("r", "other"), (10, 20), False),
        (("", ""), (None, None), False),
    ],
)
def test_two_evaluations_of_one_run_are_of_one_model(
    tmp_path: Path, runs: tuple[str, str], steps: tuple[int | None, ...], warned: bool
) -> None:
    files: dict[str, list[Path]] = {}
    for name, run, step in zip("AB", runs, steps, strict=True):
        file = tmp_path / name / "predictions.jsonl"
        file.parent.mkdir()
        write_predictions(file, four_rows())
        about = {"run": f"{run}/checkpoints" if run else "", "step": step, "model": name}
        write_evaluation(file, **about)
        files[name] = [file]
    console = _console()
    compare_files(files, console=console)
    assert ("evaluate the older one again" in console.export_text()) is warned


def test_files_are_written_before_anything_is_printed(tmp_path: Path, predictions: Path) -> None:
    class Closed(io.StringIO):
        def write(self, text: str, /) -> int:
            if text:
                raise BrokenPipeError
            return 0

    outputs = [tmp_path / name for name in ("scores.json", "utterances.csv")]
    with pytest.raises(SystemExit):
        score_file(predictions, ReportOptions(outputs=outputs), console=Console(file=Closed()))
    with pytest.raises(SystemExit):
        compare_files(
            {"A": [predictions], "B": [predictions]},
            ReportOptions(outputs=[tmp_path / "c.md"]),
            console=Console(file=Closed()),
        )
    assert all(path.exists() for path in [*outputs, tmp_path / "c.md"])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("predictions.jsonl", ["scores.json", "report.html"]),
        ("predictions.jsonl.gz", ["scores.json", "report.html"]),
        ("whisper.v3.csv", ["whisper.v3.csv.scores.json", "whisper.v3.csv.report.html"]),
        ("whisper.csv.gz", ["whisper.csv.gz.scores.json", "whisper.csv.gz.report.html"]),
    ],
)
def test_outputs_of_several_systems_in_a_folder_have_names_of_their_own(
    tmp_path: Path, name: str, expected: list[str]
) -> None:
    assert default_outputs([tmp_path / name]) == [tmp_path / file for file in expected]
    assert default_outputs([tmp_path / name], html=False) == [tmp_path / expected[0]]


@pytest.mark.parametrize(("factor", "warned"), [(1, False), (1000, True)])
def test_durations_in_milliseconds_are_warned_of(tmp_path: Path, factor: int, warned: bool) -> None:
    rows = [replace(row, duration=factor * (row.duration or 1)) for row in four_rows()]
    write_predictions(path := tmp_path / "p.jsonl", rows)
    console = _console()
    score_file(path, console=console)
    assert ("milliseconds" in console.export_text()) is warned


def test_empty_hypotheses_and_labels_that_look_alike_are_reported(tmp_path: Path) -> None:
    labels = {"a": "Århus", "b": "århus", "c": "Fyn"}
    lines = [f"{key},det er koldt,{'' if key == 'c' else 'det'},{labels[key]}" for key in labels]
    (tmp_path / "p.csv").write_text("\n".join(["id,reference,pred,dialect", *lines]))
    console, page = _console(), tmp_path / "p.html"
    score_file(tmp_path / "p.csv", ReportOptions(outputs=[page]), console=console)
    for text in (console.export_text(), unescape(page.read_text("utf-8"))):
        assert "1 of 3 hypotheses are empty" in text
        assert "dialect 'Århus' and 'århus'" in text


def test_markup_in_a_label_is_shown_as_text_everywhere(tmp_path: Path) -> None:
    label = "<script>alert(1)</script>[red]|*"
    path = tmp_path / "predictions.jsonl"
    write_predictions(path, [prediction("a", "ja", "ja", dialect=label)])
    console = _console()
    page, block = tmp_path / "report.html", tmp_path / "block.md"
    score_file(path, ReportOptions(outputs=[page, block]), console=console)
    assert label in console.export_text()
    assert "<script>alert" not in page.read_text(encoding="utf-8")
    assert "\\<script\\>alert(1)\\</script\\>\\[red\\]\\|\\*" in block.read_text(encoding="utf-8")


def test_control_characters_of_a_label_do_not_reach_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    write_predictions(path, [prediction("a", "ja", "ja", dialect="\x1b[2Jø\n\u202e")])
    console = Console(record=True, width=120, file=(shown := io.StringIO()))
    score_file(path, ReportOptions(by=["dialect"]), console=console)
    assert "\x1b" not in shown.getvalue()
    assert "ø\\n\\u202e" in shown.getvalue()


def test_an_output_does_not_replace_an_input_or_another_output(
    tmp_path: Path, predictions: Path
) -> None:
    write_evaluation(predictions, rows_in_split={"test": 4})
    (tmp_path / "run.json").mkdir()
    over_input = [tmp_path / "run.json" / ".." / "evaluation.json"]
    same_end = [tmp_path / "a.html", tmp_path / "b.html"]
    other_end, folder = [tmp_path / "rows.txt"], [tmp_path / "run.json"]
    for outputs in (over_input, same_end, other_end, folder):
        with pytest.raises(ConfigError, match=outputs[-1].name):
            score_file(predictions, ReportOptions(outputs=outputs), console=_console())
    assert sorted(file.suffix for file in tmp_path.iterdir()) == [".json", ".json", ".jsonl"]


def test_hypotheses_of_another_system_are_scored_with_a_dataset(tmp_path: Path) -> None:
    build_dataset(tmp_path / "data")
    references = read_references(tmp_path / "data")
    lines = [f"{key}\t{row['reference']}\n" for key, row in references.items()]
    write_predictions(ours := tmp_path / "predictions.jsonl", four_rows())
    write_evaluation(ours, model="ours", rows_in_split={"test": 1})
    (tmp_path / "whisper.tsv").write_text(f"id\tpred\n{''.join(lines[:-2])}", encoding="utf-8")
    console, page = _console(), tmp_path / "r.html"
    options = ReportOptions(
        by=["age", "dialect"],
        dataset=f"{tmp_path}/data",
        outputs=[str(page), tmp_path / "utterances.csv", tmp_path / "x.trn"],
    )
    scores = score_file(f"{tmp_path}/whisper.tsv", options, console=console)
    assert scores.overall.wer.value == 0
    assert "the predictions are partial: 10 of 12 rows" in console.export_text()
    assert f"<h1>whisper on {tmp_path}/data" in page.read_text("utf-8")
    assert len((tmp_path / "utterances.csv").read_text("utf-8").splitlines()) == 11


def test_files_without_an_evaluation_have_the_rows_of_the_dataset_together(tmp_path: Path) -> None:
    build_dataset(tmp_path / "data")
    references = read_references(tmp_path / "data")
    lines = [f"{key}\t{row['reference']}\n" for key, row in references.items()]
    files = [tmp_path / f"{number}.tsv" for number in (0, 1)]
    for number, file in enumerate(files):
        file.write_text(f"id\tpred\n{''.join(lines[number::2])}", encoding="utf-8")
    options = ReportOptions(dataset=tmp_path / "data")
    for some, partial in ((files, False), (files[:1], True)):
        scores = score_file(some, options, console=_console())
        assert scores.rows.in_split == len(lines)
        assert scores.rows.partial == partial


def test_references_in_the_file_are_those_of_the_dataset(tmp_path: Path) -> None:
    build_dataset(data := tmp_path / "data")
    path = tmp_path / "p.jsonl"
    references = read_references(data)
    rows = [
        {"id": key, "reference": row["reference"], "hypothesis": "", "dialect": None}
        for key, row in references.items()
    ]
    del rows[0]["reference"]

    def score(**options: Any) -> Any:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return score_file(path, ReportOptions(dataset=data, **options), console=_console())

    scores = score(by=["dialect", "split"], outputs=[tmp_path / "utterances.csv"])
    assert scores.rows.in_split == scores.rows.in_file == len(rows)
    assert {group.label for group in scores.groupings["dialect"].groups} == {
        row["dialect"] for row in references.values()
    }
    rows[1]["reference"] += " x"
    with pytest.raises(PredictionsError, match=r"1 references differ .*\n.*2: id .* x', expected "):
        score()
    rows[1] |= {"reference": None, "split": "dev"}
    with pytest.raises(PredictionsError, match=r"rows of split dev, and --split is test"):
        score(split="test")
