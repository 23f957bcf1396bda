"""``danish-asr score`` and ``score``: from predictions to tables, files and pages."""

import csv
import io
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pandas as pd
import pytest
from rich.console import Console

from danish_asr import compare, score
from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.corpus.combine import combine
from danish_asr.report.score import (
    default_outputs,
    parse_columns,
    score_files,
    utterance_table,
)
from danish_asr.scoring.predictions import (
    Prediction,
    read_predictions,
    read_references,
    to_row,
    write_predictions,
)
from danish_asr.scoring.scores import Scores
from tests.builders import build_dataset
from tests.foreign_code import NAME, ForeignCode
from tests.parts import build_part
from tests.score_rows import four_rows, prediction, random_rows, write_evaluation
from tests.shards import utterance, write_shard
from tests.spoiled import change_manifest

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def predictions(tmp_path: Path) -> Path:
    path = tmp_path / "predictions.jsonl"
    write_predictions(path, four_rows())
    return path


def _shown(*paths: Path, **options: Any) -> tuple[Scores, str]:
    console = Console(record=True, width=120, file=io.StringIO())
    return score_files(paths, console=console, **options), console.export_text()


def test_table_json_and_csv_are_unchanged(tmp_path: Path) -> None:
    # Two dialects and rows of six words, so that the files stay small.
    rows = [
        prediction(row.id, row.reference, row.hypothesis, speaker_id=row.speaker_id,
                   dialect=row.dialect, gender=row.gender, duration=9.5)
        for row in random_rows(1500)
        if row.gender and row.dialect in {"Fynsk", "Østjysk"} and len(row.reference.split()) == 6
    ]  # fmt: skip
    path = tmp_path / "predictions.jsonl"
    write_predictions(path, rows)
    outputs = [tmp_path / "scores.json", tmp_path / "scores.csv"]
    _, shown = _shown(path, by=["dialect", "corpus,gender"], outputs=outputs)
    (tmp_path / "scores.txt").write_text(shown, encoding="utf-8")
    for name in ("scores.json", "scores.csv", "scores.txt"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        text = re.sub(r"\n {6,}", " ", text)  # a line per group of the JSON
        text = text.replace(f"{tmp_path}/", "")
        if "UPDATE_GOLDEN" in os.environ:
            (GOLDEN / name).write_text(text, encoding="utf-8")
        assert text == (GOLDEN / name).read_text(encoding="utf-8"), name


def test_a_file_rows_a_frame_dicts_and_a_run_have_the_same_scores(tmp_path: Path) -> None:
    run = tmp_path / "run"
    file = run / "eval" / "best" / "test" / "predictions.jsonl"
    file.parent.mkdir(parents=True)
    write_predictions(file, four_rows())
    write_evaluation(file, rows_in_split={"test": 9})
    expected, shown = _shown(file, by=["dialect"])
    assert "4 rows scored of 9 in the split" in shown
    assert "partial: 4 of 9 rows" in shown
    assert score(str(run), by="dialect") == score(file.parent, by=["dialect"]) == expected
    dicts = [to_row(row) for row in four_rows()]
    frame = pd.DataFrame(dicts).rename(columns={"hypothesis": "pred"})
    frame.loc[3, "duration"] = None
    for rows in (read_predictions(file), dicts, frame):
        assert score(rows, by=["dialect"]).groupings == expected.groupings
        assert {*compare(rows, file, by=None).table["wer"]} == {expected.overall.wer.value}
    assert score(dicts, by=None).groupings == {}


def test_a_frame_of_hypotheses_is_scored_with_a_dataset(tmp_path: Path) -> None:
    """The dataset of a DataFrame, and of a comparison with one, was ignored."""
    build_dataset(data := tmp_path / "data")
    rows = [{"id": row["id"], "pred": row["reference"]} for row in read_references(data)]
    frame = pd.DataFrame(rows)
    scores = score(frame, dataset=data)
    assert (scores.overall.wer.value, scores.rows.in_split) == (0, len(rows))
    assert {group.label for group in scores.groupings["dialect"].groups} != {"unknown"}
    frame.to_csv(tmp_path / "p.csv", index=False)
    comparison = compare(tmp_path / "p.csv", frame, dataset=data)
    assert comparison.table["rows"].max() == len(rows)
    with pytest.raises(ConfigError, match="name that too"):
        score(frame, split="test")


def test_ids_of_two_corpora_are_scored_however_they_are_typed(tmp_path: Path) -> None:
    """Each corpus has an "å", typed in another form; so has the file."""
    forms = {"radio": "å", "read": "a\u030a"}
    lines = ["id,corpus,hypothesis"]
    for number, (corpus, name) in enumerate(forms.items()):
        row = utterance(number, split="test", id=name, text=f"det er {corpus}")
        write_shard(tmp_path / "data", [row], split="test", corpus=corpus)
        lines += [f"{forms[other]},{corpus},det er radio" for other in forms if other != corpus]
    (tmp_path / "p.csv").write_text("\n".join(lines), encoding="utf-8")
    scores, shown = _shown(tmp_path / "p.csv", by=["corpus"], dataset=tmp_path / "data")
    assert "2 rows scored of 2 in the split" in shown
    rates = {group.label: group.wer.value for group in scores.groupings["corpus"].groups}
    assert rates == {"radio": 0, "read": pytest.approx(1 / 3)}


def _of_corpora(corpora: str, *, distinct: bool = False) -> list[Prediction]:
    """Eight speakers of each corpus; their ids are the same in all, or distinct."""
    rows = []
    for row in random_rows(30 * 8 * len(corpora), speakers=8 * len(corpora)):
        place, speaker = divmod(int(str(row.speaker_id)[-3:]), 8)
        name = f"{corpora[place] if distinct else ''}{speaker}"
        rows.append(replace(row, corpus=corpora[place], speaker_id=name))
    return rows


def test_speakers_of_one_id_in_two_corpora_count_as_distinct_names_do() -> None:
    same, distinct = (score(_of_corpora("ab", distinct=own), by="corpus") for own in (False, True))
    assert same.overall == distinct.overall
    assert same.overall.speakers == 16
    gap = same.groupings["corpus"].gap
    assert gap is not None
    assert gap == distinct.groupings["corpus"].gap


def test_a_comparison_counts_speakers_of_one_id_in_two_corpora_as_distinct_names() -> None:
    tables = []
    for has_names in (False, True):
        rows = _of_corpora("ab", distinct=has_names)
        words = [replace(row, hypothesis=f"{row.hypothesis} ja") for row in rows[::3]]
        changed = {row.id: row for row in words}
        other = [changed.get(row.id, row) for row in rows]
        tables.append(compare(rows, other, by=None).table)
    same, distinct = tables
    pd.testing.assert_frame_equal(same, distinct)
    assert {*same["speakers"]} == {16}


@pytest.mark.parametrize(
    ("lists", "speakers"),
    [
        ([["a", "b"]], 24),
        ([["a", "b"], ["c"], ["d"]], 24),
        ([["b", "a"], ["d", "c"]], 16),
        ([["a", "b"], ["c", "d"], ["e", "b", "d"]], 8),
        ([["d", "c"], ["b", "c"]], 16),
    ],
)
def test_an_evaluation_says_which_corpora_share_people(
    tmp_path: Path, lists: list[list[str]], speakers: int
) -> None:
    write_predictions(file := tmp_path / "predictions.jsonl", _of_corpora("abcd"))
    assert score(file).overall.speakers == 32
    write_evaluation(file, share_people=lists)
    assert score(file).overall.speakers == speakers
    assert compare(file, file, by=None).table["speakers"].tolist() == [speakers] * 2


def test_a_dataset_says_which_corpora_share_people(tmp_path: Path) -> None:
    for corpus in "abc":
        build_part(tmp_path / corpus, rows={"test": 3}, people="012")
    combine([tmp_path / corpus for corpus in "abc"], data := tmp_path / "all", name="all")
    change_manifest(data, lambda manifest: manifest.update(share_people=[["a", "b"], ["c"]]))
    rows = [{"id": row["id"], "pred": "ja"} for row in read_references(data)]
    assert score(rows, dataset=data).overall.speakers == 6
    assert compare(rows, rows, dataset=data, by=None).table["speakers"].tolist() == [6, 6]


def test_rows_without_a_speaker_are_no_named_speaker_of_their_corpus() -> None:
    rows = [
        replace(row, speaker_id=None) if number % 5 == 0 else row
        for number, row in enumerate(_of_corpora("ab"))
    ]
    assert score(rows).overall.speakers == 16


def test_persons_are_a_column_of_the_table_and_neither_groups_nor_in_utterances() -> None:
    scores = score(_of_corpora("ab"))
    assert scores.table["_person"].nunique() == 16
    assert "_person" not in utterance_table(scores)
    with pytest.raises(ConfigError, match="unknown column '_person'"):
        score(_of_corpora("ab"), by="_person")


def test_rows_without_a_corpus_are_of_another_one_than_all_that_have_a_name() -> None:
    rows = _of_corpora("a")
    nameless = [replace(row, id=f"x{row.id}", corpus=None) for row in rows]
    assert score([*rows, *nameless]).overall.speakers == 16


def test_a_run_is_scored_under_its_own_profile(tmp_path: Path) -> None:
    """All were scored with CoRal's rules, which remove every Cyrillic letter."""
    rows = [prediction("a", "так", "так"), prediction("b", "ні", "ні ні")]
    files = {}
    for profile in ("plain", "raw"):
        files[profile] = tmp_path / profile / "predictions.jsonl"
        files[profile].parent.mkdir()
        write_predictions(files[profile], rows)
        write_evaluation(files[profile], score_profile=profile)
    scores, shown = _shown(files["plain"])
    assert (scores.settings.profile, scores.overall.wer.value) == ("plain", 0.5)
    assert "profile plain" in shown
    with pytest.raises(PredictionsError, match="no word in the references"):
        score(files["plain"], profile="coral")
    with pytest.raises(ConfigError, match="plain and raw; name one"):
        compare(*files.values())
    assert compare(*files.values(), profile="plain").settings.profile == "plain"


def test_a_profile_in_an_evaluation_is_code_only_if_the_user_names_it(
    tmp_path: Path, foreign_code: ForeignCode
) -> None:
    rows = [prediction("a", "ja", "nej")]
    files = [tmp_path / name / "predictions.jsonl" for name in "ab"]
    for file in files:
        file.parent.mkdir()
        write_predictions(file, rows)
        write_evaluation(file, score_profile=NAME)
    for command in (score, lambda _: compare(*files)):
        with pytest.raises(ConfigError) as refused:
            command(files[0])
        said = str(refused.value)
        assert all(text in said for text in (str(files[0].parent / "evaluation.json"), NAME))
        assert "--profile" in said
    assert not foreign_code.ran
    assert score(files[0], profile=NAME).settings.profile == NAME
    assert foreign_code.ran


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
    scores, _ = _shown(*files, outputs=[page])
    assert scores.to_dict() == score(whole).to_dict()
    assert scores.overall.speakers == 10
    assert page.is_file()
    with pytest.raises(PredictionsError, match=f"{files[0]}:1: duplicate id .* in {whole}:1"):
        score([whole, files[0]])
    again = files[0].parent / ".." / files[0].parent.name / files[0].name
    with pytest.raises(ConfigError, match=f"{again} is given twice|{files[0]} is given twice"):
        score([files[0], again])
    about = score(files).about
    assert (about["model"], "dataset" in about) == ("x", False)
    files[0].with_name("evaluation.json").unlink()
    assert score(files).rows.in_split is None


def test_split_and_condition_of_an_evaluation_are_beside_the_numbers(predictions: Path) -> None:
    write_evaluation(predictions, rows_in_split={"test_coral": 9}, where="age < 20")
    page, table, document = (predictions.with_name(name) for name in ("p.html", "t.csv", "s.json"))
    _, shown = _shown(predictions, outputs=[page, table, document])
    assert "4 rows scored of 9 in the split test_coral, where age < 20" in shown
    assert "of 9 in the split test_coral, where age &lt; 20" in page.read_text("utf-8")
    assert ",9,test_coral,age < 20," in table.read_text("utf-8")
    assert json.loads(document.read_text("utf-8"))["rows"]["where"] == "age < 20"


def test_predictions_that_were_changed_after_their_evaluation_are_refused(
    predictions: Path,
) -> None:
    write_evaluation(predictions, model="ours")
    write_predictions(predictions, [replace(row, hypothesis="ja") for row in four_rows()])
    for use in (score, lambda file: compare(file, file)):
        with pytest.raises(PredictionsError, match="predictions_sha256 is not that of pred"):
            use(predictions)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "predictions_sha256"),
    ],
)
def test_a_broken_evaluation_is_refused_by_name(
    predictions: Path, content: str, message: str
) -> None:
    predictions.with_name("evaluation.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(PredictionsError, match=f"evaluation.json: {message}"):
        score(predictions)


def test_another_file_beside_an_evaluation_is_scored_without_it(
    tmp_path: Path, predictions: Path
) -> None:
    write_evaluation(predictions, model="ours", rows_in_split={"test": 9})
    write_predictions(other := tmp_path / "whisper.jsonl", four_rows())
    assert score(other).about == {}
    assert score(predictions).about["model"] == "ours"


def test_files_are_written_before_anything_is_printed(tmp_path: Path, predictions: Path) -> None:
    class Closed(io.StringIO):
        def write(self, text: str, /) -> int:
            if text:
                raise BrokenPipeError
            return 0

    outputs = [tmp_path / name for name in ("scores.json", "utterances.csv")]
    with pytest.raises(SystemExit):
        score_files([predictions], outputs=outputs, console=Console(file=Closed()))
    assert all(path.exists() for path in outputs)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("predictions.jsonl", ["scores.json", "report.html"]),
        ("predictions.jsonl.gz", ["scores.json", "report.html"]),
        ("whisper.v3.csv", ["whisper.v3.csv.scores.json", "whisper.v3.csv.report.html"]),
    ],
)
def test_outputs_of_several_systems_in_a_folder_have_names_of_their_own(
    tmp_path: Path, name: str, expected: list[str]
) -> None:
    assert default_outputs([tmp_path / name]) == [tmp_path / file for file in expected]
    assert default_outputs([tmp_path / name, tmp_path / "b.csv"]) == []


def test_columns_are_named_in_one_argument_or_in_several_each_once() -> None:
    names = {"reference": "ord", "hypothesis": "w=1"}
    assert parse_columns(["reference=ord, hypothesis=w=1,"]) == names
    assert parse_columns(["reference = ord", "hypothesis=w=1"]) == names
    for wrong in ("reference", "reference=", "text=ord", "id=a,id=b"):
        with pytest.raises(ConfigError, match="columns: expected"):
            parse_columns([wrong])


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
            _shown(predictions, outputs=outputs)
    assert sorted(file.suffix for file in tmp_path.iterdir()) == [".json", ".json", ".jsonl"]


def test_a_file_written_in_place_of_the_trn_that_is_named_does_not_replace_an_input(
    tmp_path: Path,
) -> None:
    """`score whisper.hyp.trn --out whisper.trn` replaced what it had read."""
    build_dataset(data := tmp_path / "data")
    heard = tmp_path / "whisper.hyp.trn"
    names = [row["id"] for row in read_references(data)]
    heard.write_text("".join(f"ja ({name})\n" for name in names), encoding="utf-8")
    before = heard.read_bytes()
    with pytest.raises(ConfigError, match=r"whisper\.hyp\.trn"):
        _shown(heard, dataset=data, outputs=[tmp_path / "whisper.trn"])
    assert heard.read_bytes() == before
    assert not (tmp_path / "whisper.ref.trn").exists()


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_an_output_is_no_other_name_of_an_input(
    tmp_path: Path, predictions: Path, link: Callable[[Path, Path], None]
) -> None:
    """A hard link is found as another case is, where the file system ignores it."""
    link(tmp_path / "x.ref.trn", predictions)
    with pytest.raises(ConfigError, match=r"x\.ref\.trn .*predictions\.jsonl"):
        _shown(predictions, outputs=[tmp_path / "x.trn"])


@pytest.mark.parametrize("known_by", ["option", "evaluation"])
def test_an_output_does_not_replace_a_file_of_the_dataset(
    tmp_path: Path, predictions: Path, known_by: str
) -> None:
    build_dataset(data := tmp_path / "data")
    manifest, page = data / "manifest.json", data / "cards" / "page.html"
    before = manifest.read_bytes()
    by_evaluation = known_by == "evaluation"
    if by_evaluation:
        write_evaluation(predictions, rows_in_split={"test": 4}, dataset_root=str(data))
        for _ in range(2):  # beside its files, also in place of its own earlier output
            _shown(predictions, outputs=[data / "report.html"])
    for output in (manifest, page):
        with pytest.raises(ConfigError, match=str(output)):
            _shown(predictions, outputs=[output], dataset=None if by_evaluation else data)
    assert manifest.read_bytes() == before
    assert not page.exists()


def test_control_characters_of_a_split_and_a_label_do_not_reach_the_terminal(
    tmp_path: Path,
) -> None:
    path = tmp_path / "predictions.jsonl"
    labels = {"dialect": "\x1b[2Jø\n\u202e[red]", "split": "dev\x1b[2J"}
    write_predictions(path, [prediction("a", "ja", "ja", **labels)])
    console = Console(record=True, width=120, file=(shown := io.StringIO()))
    score_files([path], by=["dialect"], outputs=[], console=console)
    assert "\x1b" not in shown.getvalue()
    for text in ("ø\\n\\u202e[red]", "dev\\x1b[2J"):
        assert text in shown.getvalue()


def _export(folder: Path, rows: list[Prediction], name: str, **options: Any) -> None:
    write_predictions(folder / "predictions.jsonl", rows)
    _shown(folder / "predictions.jsonl", by=[], outputs=[folder / name], **options)


def test_each_scored_utterance_is_a_row_with_counts_texts_and_alignment(tmp_path: Path) -> None:
    rows = [
        *four_rows(),
        prediction("empty", "!", "ja"),
        prediction("long", "ja", "ja", duration=11.0),
        prediction("e", "A, b c", "a x c d", extra={"age": "41"}),
    ]
    options: dict[str, Any] = {"row_filter": "coral", "denominator": "coral"}
    _export(tmp_path, rows, "utterances.csv", **options)
    text = (tmp_path / "utterances.csv").read_text(encoding="utf-8")
    lines = list(csv.DictReader(io.StringIO(text)))
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


def test_trn_files_can_be_read_back(tmp_path: Path) -> None:
    rows = [
        prediction("u_1 (a)", "Det (er) {a / b}", "", speaker_id="s-1_æ"),
        prediction("u-1", "ja\tnej; nu\nda", "ja", speaker_id=None),
    ]
    _export(tmp_path, rows, "x.trn", profile="raw")
    reference, hypothesis = (
        (tmp_path / name).read_text(encoding="utf-8").splitlines()
        for name in ("x.ref.trn", "x.hyp.trn")
    )
    assert reference[0].startswith("Det （er） ｛a / b｝ (s%2D1%5F")
    assert reference[1] == "ja_nej； nu_da (unknown-u%2D1)"
    ids = [[line.split(" ")[-1] for line in side] for side in (reference, hypothesis)]
    assert ids[0] == ids[1]
    assert unquote(ids[0][0].strip("()").split("-")[1]) == "u_1 (a)"
    texts = (tmp_path / "x.ref.trn").read_text("utf-8")
    (tmp_path / "back.trn").write_text(texts, encoding="utf-8")
    with pytest.raises(PredictionsError, match="missing reference"):
        read_predictions(tmp_path / "back.trn")
