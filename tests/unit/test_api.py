"""What ``from danish_asr import ...`` gives."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

import danish_asr
from danish_asr import compare, convert, read_predictions, score
from danish_asr.base.errors import ConfigError, DanishAsrError, PredictionsError
from danish_asr.corpus import ConvertOptions
from danish_asr.report import ReportOptions, score_file
from danish_asr.scoring.predictions import to_row, write_predictions
from tests.builders import tone
from tests.score_rows import four_rows, write_evaluation

LIGHT = """
import sys, danish_asr
assert set(danish_asr.__all__) <= set(dir(danish_asr))
heavy = {'torch', 'numpy', 'pandas', 'pyarrow', 'rich'} & sys.modules.keys()
assert not heavy, heavy
for name in danish_asr.__all__:
    if name != 'load_model':
        assert getattr(danish_asr, name).__doc__
assert 'torch' not in sys.modules
"""


def test_the_package_is_light_and_only_models_need_torch() -> None:
    subprocess.run([sys.executable, "-c", LIGHT], check=True)
    assert danish_asr.load_model.__doc__


def test_scores_of_a_file_and_of_rows_are_those_of_the_command(tmp_path: Path) -> None:
    file = tmp_path / "predictions.jsonl"
    write_predictions(file, four_rows())
    write_evaluation(file, rows_in_split={"test": 9})
    write_predictions(other := tmp_path / "other" / "predictions.jsonl", four_rows())
    of_file = score(file, by=["dialect"], profile="raw")
    of_rows = score(read_predictions(str(file)), by=["dialect"], profile="raw")
    assert of_file.rows.in_split == 9
    assert list(of_file.groupings) == ["dialect"]
    assert replace(of_file, rows=of_rows.rows) == of_rows
    assert "4 rows scored of 9 in the split" in repr(of_file)
    for shown in (repr(of_file), of_file._repr_html_(), repr(compare(file, other))):
        assert "partial: 4 of 9 rows" in shown
    with pytest.raises(ConfigError, match="coral"):
        score(file, profile="corl")


def test_runs_are_compared_by_file_or_by_row(tmp_path: Path) -> None:
    a, b = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    better = [replace(row, hypothesis=row.reference) for row in four_rows()]
    write_predictions(a, four_rows())
    write_predictions(b, better)
    by_file = compare(a, str(b), by=[])
    assert [run.wer for run in by_file.overall.runs] == [score(a).overall.wer.value, 0]
    assert by_file.overall == compare(four_rows(), b, by=[]).overall
    assert [run.run for run in compare(a, iter(better), b, by=[]).overall.runs] == ["A", "B", "C"]
    with pytest.raises(PredictionsError, match="different rows"):
        compare(a, better[1:])


def test_rows_are_paired_by_id_in_any_order_and_a_duplicate_id_is_refused() -> None:
    rows = four_rows()
    better = [replace(row, hypothesis=row.reference) for row in rows]
    assert compare(rows, better[::-1]).overall == compare(rows, better).overall
    twice = [*rows, replace(better[1], hypothesis="")]
    for runs in ([rows, twice], [rows, twice[::-1]], [twice, rows], [twice, twice]):
        with pytest.raises(PredictionsError, match="duplicate id 'b'"):
            compare(*runs)
    with pytest.raises(PredictionsError, match="duplicate id 'b'"):
        score(twice, row_filter="coral")


def test_rows_may_be_a_dataframe_or_dicts_and_groups_may_be_none() -> None:
    dicts = [to_row(row) for row in four_rows()]
    frame = pd.DataFrame(dicts).rename(columns={"hypothesis": "pred"})
    frame.loc[3, "duration"] = None
    expected = score(four_rows(), by=["dialect"])
    wer = expected.overall.wer.value
    for rows in (dicts, frame):
        found = score(rows, by=["dialect"])
        assert (found.groupings, found.rows.digests) == (expected.groupings, expected.rows.digests)
        assert {run.wer for run in compare(rows, four_rows()).overall.runs} == {wer}
    assert score(dicts, by=None).groupings == {}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": "a"}], "row 1: missing reference, hypothesis"),
        ([*four_rows(), 5], "row 5: expected a dict .*, found int"),
        ({"id": ["a"]}, "found dict"),
        (None, "found NoneType"),
    ],
)
def test_rows_that_are_none_are_refused(rows: Any, message: str) -> None:
    with pytest.raises(PredictionsError, match=message):
        score(rows)
    with pytest.raises(PredictionsError, match=message):
        compare(four_rows(), rows)


def test_columns_and_references_have_names_of_their_own(tmp_path: Path) -> None:
    rows = [{"clip": row.id, "sentence": row.reference, "w": row.hypothesis} for row in four_rows()]
    columns = {"id": "clip", "reference": "sentence", "hypothesis": "w"}
    expected = score(four_rows(), by=None).overall.words
    assert score(rows, by=None, columns=columns).overall.words == expected
    assert score(pd.DataFrame(rows), by=None, columns=columns).overall.words == expected
    pd.DataFrame(rows).drop(columns="sentence").to_csv(tmp_path / "p.csv", index=False)
    pd.DataFrame(rows)[["clip", "sentence"]].to_csv(tmp_path / "refs.csv", index=False)
    references = tmp_path / "refs.csv"
    scores = score(tmp_path / "p.csv", by=None, columns=columns, references=references)
    assert scores.overall.words == expected
    assert scores.rows.in_split is None
    with pytest.raises(ConfigError, match="--references is in place of --dataset"):
        score(tmp_path / "p.csv", references=references, dataset=tmp_path)


def test_a_column_is_read_as_one() -> None:
    columns = {"reference": "reference", "hypothesis": "reference"}
    with pytest.raises(PredictionsError, match="column reference is named for two"):
        score([to_row(row) for row in four_rows()], columns=columns)


@pytest.mark.parametrize("by", [5, [None], [["dialect"]]])
def test_a_grouping_is_a_text(by: Any) -> None:
    with pytest.raises(ConfigError, match="by: expected the names of columns"):
        score(four_rows(), by=by)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read as JSON"),
        ("\xe6", "cannot be read as JSON"),
        ("[" * 100_000, "cannot be read as JSON"),
        ("[]", "expected a JSON object, found list"),
    ],
)
def test_a_broken_evaluation_is_refused_by_name(tmp_path: Path, content: str, message: str) -> None:
    write_predictions(file := tmp_path / "predictions.jsonl", four_rows())
    (tmp_path / "evaluation.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(PredictionsError, match=f"evaluation.json: {message}"):
        score(file)


def test_an_output_on_a_full_device_is_one_error(tmp_path: Path) -> None:
    write_predictions(file := tmp_path / "predictions.jsonl", four_rows())
    (full := tmp_path / "scores.json").symlink_to("/dev/full")
    with pytest.raises(DanishAsrError, match=r"/dev/full: cannot be written .*space"):
        score_file(file, ReportOptions(outputs=[full]), console=Console(quiet=True))


def test_a_table_is_converted_with_the_options_of_the_command(tmp_path: Path) -> None:
    lines = ["audio,words,speaker"]
    for number in range(8):
        (tmp_path / f"{number}.wav").write_bytes(tone(0.5 + number / 10))
        lines.append(f"{number}.wav,ja tak,s{number % 4}")
    table = tmp_path / "own.csv"
    table.write_text("\n".join(lines))
    inventory = convert(
        table,
        tmp_path / "own",
        ConvertOptions(
            name="own", split="train", columns={"text": "words"}, split_by_speaker="50/25/25"
        ),
    )
    assert inventory.rows == 8
    assert {shard.partition("split") for shard in inventory.shards} == {"train", "dev", "test"}
