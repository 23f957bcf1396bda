"""What ``from danish_asr import ...`` gives."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import danish_asr
from danish_asr import compare, convert, read_predictions, score
from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.scoring.predictions import write_predictions
from tests.builders import tone
from tests.score_rows import four_rows

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
    (tmp_path / "evaluation.json").write_text(json.dumps({"rows_in_split": {"test": 9}}))
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
        corpus="own",
        split="train",
        name="own",
        columns={"text": "words"},
        split_by_speaker="50/25/25",
    )
    assert inventory.rows == 8
    assert {shard.partition("split") for shard in inventory.shards} == {"train", "dev", "test"}
