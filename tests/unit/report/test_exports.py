"""Exports of ``danish-asr score``: rows per utterance and per error, and files for sclite."""

import csv
import io
import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from rich.console import Console

from danish_asr.report import ReportOptions, score_file
from danish_asr.scoring.predictions import Prediction, write_predictions
from danish_asr.scoring.settings import Settings
from tests.score_rows import four_rows, prediction


def _export(
    folder: Path, rows: list[Prediction], *names: str, settings: Settings | None = None
) -> None:
    write_predictions(folder / "predictions.jsonl", rows)
    options = ReportOptions(
        by=[], settings=settings or Settings(), outputs=[folder / name for name in names]
    )
    score_file(folder / "predictions.jsonl", options, console=Console(file=io.StringIO()))


def _read(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".csv":
        return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("name", ["utterances.csv", "my-utterances.jsonl"])
def test_each_scored_utterance_is_a_row_with_counts_texts_and_alignment(
    tmp_path: Path, name: str
) -> None:
    rows = [
        *four_rows(),
        prediction("empty", "!", "ja"),
        prediction("long", "ja", "ja", duration=11.0),
        prediction("e", "A, b c", "a x c d", extra={"age": "41"}),
    ]
    settings = Settings(row_filter="coral", denominator="coral")
    _export(tmp_path, rows, name, settings=settings)
    found = _read(tmp_path / name)
    assert [row["id"] for row in found] == ["a", "b", "c", "d", "empty", "e"]
    assert (found[4]["wer"] or None, found[4]["alignment"]) == (None, "{+ja+}")
    last = found[-1]
    assert last["alignment"] == "a [-b-]{+x+} c {+d+}"
    assert (last["reference"], last["reference_normalised"], last["age"]) == (
        "A, b c",
        "a b c",
        "41",
    )
    counts = [last[f"word_{kind}"] for kind in ("hits", "substitutions", "deletions", "insertions")]
    assert [int(count) for count in counts] == [2, 1, 0, 1]
    assert float(last["wer"]) == 0.5
    assert found[2]["alignment"] == "[-det-] [-er-] [-enogtyve-] [-grader-]"


def test_no_cell_of_an_export_is_a_formula(tmp_path: Path) -> None:
    rows = [prediction("=1+1", "@ja -x", "+nej", dialect="-1.5")]
    raw = Settings(profile="raw")
    _export(tmp_path, rows, "utterances.csv", "errors.csv", settings=raw)
    (row,) = _read(tmp_path / "utterances.csv")
    assert (row["id"], row["reference"], row["dialect"]) == ("'=1+1", "'@ja -x", "-1.5")
    for file in ("utterances.csv", "errors.csv"):
        cells = [cell for row in _read(tmp_path / file) for cell in row.values()]
        assert not [cell for cell in cells if cell[:1] in {"=", "+", "@"}]


def test_trn_files_have_one_line_per_utterance_and_ids_that_can_be_read_back(
    tmp_path: Path,
) -> None:
    rows = [
        prediction("u_1 (a)", "Det (er) {a / b}", "", speaker_id="s-1_æ"),
        prediction("u-1", "ja\tnej; nu\nda", "ja", speaker_id=None),
    ]
    _export(tmp_path, rows, "x.trn", settings=Settings(profile="raw"))
    reference, hypothesis = (
        (tmp_path / name).read_text(encoding="utf-8").splitlines()
        for name in ("x.ref.trn", "x.hyp.trn")
    )
    assert reference[0].startswith("Det （er） ｛a / b｝ (s%2D1%5F")
    assert reference[1] == "ja_nej； nu_da (unknown-u%2D1)"
    assert [line.split(" ")[-1] for line in hypothesis] == [
        line.split(" ")[-1] for line in reference
    ]
    assert unquote(hypothesis[0].strip(" ()").split("-")[1]) == "u_1 (a)"
