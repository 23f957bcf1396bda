"""A table with a line for each utterance, and NIST's trn."""

import csv
import io
from pathlib import Path
from typing import Any

from rich.console import Console

from danish_asr import score
from danish_asr.base.tables import Row
from danish_asr.report.request import Request
from danish_asr.report.score import score_files
from tests.score_rows import four_rows, prediction, write_rows


def _export(folder: Path, rows: list[Row], name: str, **options: Any) -> None:
    write_rows(folder / "p.jsonl", rows)
    quiet = Console(file=io.StringIO())
    request = Request(by=[], **options)
    score_files([folder / "p.jsonl"], request, outputs=[folder / name], console=quiet)


def test_each_scored_utterance_is_a_row_with_counts_texts_and_alignment(tmp_path: Path) -> None:
    rows = [
        *four_rows(),
        prediction("empty", "!", "ja"),
        prediction("long", "ja", "ja", duration=11.0),
        prediction("e", "A, b c", "a x c d", age="41"),
    ]
    options: dict[str, Any] = {"row_filter": "coral", "denominator": "coral"}
    _export(tmp_path, rows, "utterances.csv", **options)
    text = (tmp_path / "utterances.csv").read_text(encoding="utf-8")
    lines = list(csv.DictReader(io.StringIO(text)))
    assert not {"_person", "left_out", "words_per_second"} & {*lines[0]}
    assert [line["id"] for line in lines] == ["a", "b", "c", "d", "empty", "e"]
    assert (lines[4]["wer"], lines[4]["alignment"]) == ("", "{+ja+}")
    last = lines[-1]
    assert (last["reference"], last["reference_normalised"]) == ("A, b c", "a b c")
    assert (last["age"], last["alignment"], last["wer"]) == ("41", "a [-b-]{+x+} c {+d+}", "0.5")
    kinds = ("hits", "substitutions", "deletions", "insertions")
    assert [last[f"word_{kind}"] for kind in kinds] == ["2", "1", "0", "1"]
    assert lines[2]["alignment"] == "[-det-] [-er-] [-enogtyve-] [-grader-]"
    again = score(tmp_path / "utterances.csv", by=None, **options)
    assert again.overall == score(rows, by=None, **options).overall


def test_trn_has_ids_that_can_be_read_back_and_no_markup_of_sclite(tmp_path: Path) -> None:
    rows = [
        prediction("u_1 (a)", "Det (er) {a / b}", "", speaker_id="s-1_æ"),
        prediction("u-1", "ja\tnej; nu\nda", "ja", speaker_id=None),
    ]
    _export(tmp_path, rows, "x.trn", profile="raw")
    reference, hypothesis = (
        (tmp_path / name).read_text(encoding="utf-8").splitlines()
        for name in ("x.ref.trn", "x.hyp.trn")
    )
    name = "(s%2D1%5F%C3%A6-u%5F1%20%28a%29)"
    assert reference == [f"Det （er） ｛a / b｝ {name}", "ja_nej； nu_da (unknown-u%2D1)"]
    assert hypothesis == [f" {name}", "ja (unknown-u%2D1)"]
