"""``danish-asr score`` and ``score``: from predictions to tables, files and pages."""

import io
import json
import os
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from danish_asr import __version__, compare, score
from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.base.files import sha256_of
from danish_asr.base.tables import Row
from danish_asr.corpus.combine import combine
from danish_asr.report.compare import compare_files, parse_runs
from danish_asr.report.request import Request
from danish_asr.report.score import default_outputs, parse_columns, score_files
from danish_asr.report.tables import bounds, say, warn
from danish_asr.scoring.predictions import read_predictions, read_references
from danish_asr.scoring.scores import Scores
from tests.documented import blocks
from tests.foreign_code import NAME, ForeignCode
from tests.parts import build_part
from tests.score_rows import (
    changed,
    compared,
    four_rows,
    prediction,
    random_rows,
    scored,
    write_evaluation,
    write_rows,
)
from tests.spoiled import change_manifest

GOLDEN = Path(__file__).parents[1] / "golden"


def _file(folder: Path, rows: Iterable[Row] = (), **about: Any) -> Path:
    """A file of predictions, `four_rows` or others, and what its evaluation says, if anything."""
    file = folder / "predictions.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_rows(file, [*rows] or four_rows())
    if about:
        write_evaluation(file, **about)
    return file


@pytest.fixture
def predictions(tmp_path: Path) -> Path:
    return _file(tmp_path)


def _shown(*paths: Path, **options: Any) -> tuple[Scores, str]:
    console = Console(record=True, width=120, file=io.StringIO())
    own = {key: options.pop(key) for key in ("outputs", "audio") if key in options}
    scores = score_files(paths, Request(**options), console=console, **own)
    return scores, console.export_text()


def test_a_name_is_printed_as_it_is(tmp_path: Path) -> None:
    """Rich takes words between colons for pictures, and those in brackets for colours."""
    name = "show:100:2 [red]x"
    file = _file(tmp_path, [changed(row, dialect=name) for row in random_rows(200)])
    _, shown = _shown(file, by=("dialect",))
    assert shown.count(name) >= 1
    console = Console(record=True, file=io.StringIO())
    warn(name, console)
    say(name, console)
    assert console.export_text().splitlines() == [f"warning: {name}", name]


def test_table_json_and_csv_are_unchanged(tmp_path: Path) -> None:
    # Two dialects and rows of six words, so that the files stay small.
    rows = [
        changed(row, duration=9.5, age_group=None)
        for row in random_rows(1500)
        if row["gender"] and row["dialect"] in {"Fynsk", "Østjysk"}
        if len(row["reference"].split()) == 6
    ]
    outputs = [tmp_path / "scores.json", tmp_path / "scores.csv"]
    _, shown = _shown(_file(tmp_path, rows), by=["dialect", "corpus,gender"], outputs=outputs)
    (tmp_path / "scores.txt").write_text(shown, encoding="utf-8")
    for name in ("scores.json", "scores.csv", "scores.txt"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        text = re.sub(r"\n {6,}", " ", text)  # a line per group of the JSON
        text = text.replace(f"{tmp_path}/", "").replace(__version__, "VERSION")
        # The last digits depend on the processor.
        text = re.sub(r"\d+\.\d{12,}", lambda number: f"{float(number[0]):.12g}", text)
        if "UPDATE_GOLDEN" in os.environ:
            (GOLDEN / name).write_text(text, encoding="utf-8")
        assert text == (GOLDEN / name).read_text(encoding="utf-8"), name


def test_a_file_rows_a_frame_dicts_and_a_run_have_the_same_scores(tmp_path: Path) -> None:
    run = tmp_path / "run"
    file = _file(run / "eval" / "best" / "test", rows_in_split={"test": 9})
    expected, shown = _shown(file, by=["dialect"])
    assert "4 rows scored of 9 in the split" in shown
    assert "partial: 4 of 9 rows" in shown
    assert score(str(run), by="dialect") == score(file.parent, by=["dialect"]) == expected
    dicts = four_rows()
    frame = pd.DataFrame(dicts).rename(columns={"hypothesis": "pred"})
    frame.loc[3, "duration"] = None
    for rows in (read_predictions(file), dicts, frame):
        assert score(rows, by=["dialect"]).groupings == expected.groupings
        assert {*compare(rows, file, by=None).table["wer"]} == {expected.overall.wer.value}
    assert score(dicts, by=None).groupings == {}


def test_a_dataset_gives_references_and_groups_and_says_which_corpora_share_people(
    tmp_path: Path,
) -> None:
    for corpus in "abc":
        build_part(tmp_path / corpus, rows={"test": 3}, people="012")
    combine([tmp_path / corpus for corpus in "abc"], data := tmp_path / "all", name="all")
    change_manifest(data, lambda manifest: manifest.update(share_people=[["a", "b"], ["c"]]))
    frame = read_references(data)[["id", "reference"]].rename(columns={"reference": "pred"})
    scores = score(frame, dataset=data)
    assert (scores.overall.wer.value, scores.overall.speakers, scores.rows.in_split) == (0, 6, 9)
    assert {group.label for group in scores.groupings["dialect"].groups} != {"unknown"}
    frame.to_csv(tmp_path / "p.csv", index=False)
    comparison = compare(tmp_path / "p.csv", frame, dataset=data, by=None)
    assert comparison.table[["rows", "speakers"]].to_numpy().tolist() == [[9, 6], [9, 6]]
    with pytest.raises(ConfigError, match="name that too"):
        score(frame, split="test")


def test_a_column_that_was_named_is_in_some_file_and_its_labels_are_used_with_a_warning(
    tmp_path: Path,
) -> None:
    build_part(data := tmp_path / "data", rows={"test": 3}, people="012")
    rows = read_references(data)[["id"]].assign(hypothesis="ja")
    has, lacks = tmp_path / "has.csv", tmp_path / "lacks.csv"
    rows.assign(sted="Fyn").to_csv(has, index=False)
    rows.to_csv(lacks, index=False)
    columns = {"dialect": "sted"}
    options: dict[str, Any] = {"dataset": data, "columns": columns, "by": ["dialect"]}
    scores, shown = _shown(has, **options)
    assert [group.label for group in scores.groupings["dialect"].groups] == ["Fyn"]
    assert (scores.rows.unlike_dataset, shown.count("'Fyn'")) == (3, 1)
    compare(lacks, has, **options)
    for refused in (lambda: score(lacks, **options), lambda: compare(lacks, lacks, **options)):
        with pytest.raises(PredictionsError, match=r"lacks\.csv:2: no column sted"):
            refused()


def test_our_own_trn_is_read_back_with_its_dataset(tmp_path: Path) -> None:
    build_part(tmp_path / "data", rows={"test": 3}, people="012")
    rows = read_references(tmp_path / "data")
    file = tmp_path / "p.jsonl"
    rows.assign(pred=rows["reference"]).to_json(file, orient="records", lines=True)
    _shown(file, outputs=[tmp_path / "x.trn"])
    again = score(tmp_path / "x.hyp.trn", dataset=tmp_path / "data")
    assert (again.overall.wer.value, again.rows.in_file, again.rows.in_split) == (0, 3, 3)


def test_every_output_names_the_dataset_in_which_rows_were_looked_up(tmp_path: Path) -> None:
    build_part(tmp_path / "data", rows={"test": 3}, name="mine", text="ja")
    rows = read_references(tmp_path / "data")[["id"]].assign(hypothesis="ja")
    files = [tmp_path / name for name in ("a.csv", "b.csv")]
    for file in files:
        rows.to_csv(file, index=False)
    outputs = [tmp_path / f"x{end}" for end in (".json", ".csv", ".tex", ".html", ".trn")]
    _shown(files[0], outputs=outputs, dataset=tmp_path / "data")
    runs = {file.name: [file] for file in files}
    compared_to = [tmp_path / f"y{end}" for end in (".json", ".csv", ".tex", ".svg")]
    compare_files(runs, Request(dataset=tmp_path / "data"), outputs=compared_to)
    for output in [*outputs[:4], tmp_path / "x.trn.json", *compared_to]:
        assert "mine" in output.read_text(encoding="utf-8"), output


def test_evaluations_say_which_corpora_share_people(tmp_path: Path) -> None:
    files = [
        _file(tmp_path / own, [prediction(own, "ja", "", corpus=name) for name in "abc"], **about)
        for own, about in (("a", {"share_people": [["a", "b"]]}), ("b", {}))
    ]
    assert [score(file).overall.speakers for file in files] == [2, 3]
    assert score(files).overall.speakers == 2
    assert compare(files[0], files[0], by=None).table["speakers"].tolist() == [2, 2]


def test_a_run_is_scored_under_its_own_profile(tmp_path: Path) -> None:
    """All were scored with CoRal's rules, which remove every Cyrillic letter."""
    rows = [prediction("a", "так", "так"), prediction("b", "ні", "ні ні")]
    plain, raw = (_file(tmp_path / name, rows, score_profile=name) for name in ("plain", "raw"))
    scores, shown = _shown(plain)
    assert (scores.settings.profile, scores.overall.wer.value) == ("plain", 0.5)
    assert "profile plain" in shown
    with pytest.raises(PredictionsError, match="no word in the references"):
        score(plain, profile="coral")
    with pytest.raises(ConfigError, match="plain and raw; name one"):
        compare(plain, raw)
    assert compare(plain, raw, profile="plain").settings.profile == "plain"


def test_a_profile_in_an_evaluation_is_code_only_if_the_user_names_it(
    tmp_path: Path, foreign_code: ForeignCode
) -> None:
    files = [_file(tmp_path / name, score_profile=NAME) for name in "ab"]
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
    whole = _file(tmp_path, rows, rows_in_split={"test": 400}, model="x")
    files = []
    for fold in range(3):
        own = [row for row in rows if int(str(row["speaker_id"])[-3:]) % 3 == fold]
        about = {"rows_in_split": {"test": len(own)}, "dataset": f"{fold}"}
        files.append(_file(tmp_path / f"{fold}", own, model="x", **about))
    page = tmp_path / "page.html"
    scores, _ = _shown(*files, outputs=[page])
    assert scores.to_dict() == score(whole).to_dict()
    assert scores.overall.speakers == 10
    assert page.is_file()
    with pytest.raises(PredictionsError, match=f"{files[0]}:1: duplicate id .* in {whole}:1"):
        score([whole, files[0]])
    again = files[0].parent / ".." / files[0].parent.name / files[0].name
    with pytest.raises(ConfigError, match=f"{again} has .* {files[0]}$"):
        score([files[0], again])
    (copy := tmp_path / "copy.jsonl").write_bytes(files[0].read_bytes())
    with pytest.raises(ConfigError, match=f"{copy} has .* {files[0]}$"):
        compare({"a": [files[0], copy], "b": [files[1]]})  # no two seeds
    one, other = compare({"a": [files[0]], "b": [copy]}, by=None).table["wer"]
    assert one == other
    common = score(files).about
    assert (common["model"], "dataset" in common) == ("x", False)
    files[0].with_name("evaluation.json").unlink()
    assert score(files).rows.in_split is None


def test_folds_of_one_dataset_are_scored_and_compared_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [*random_rows(300, speakers=10)]
    better = [
        changed(row, hypothesis=row["reference"]) if n % 3 else row for n, row in enumerate(rows)
    ]
    for system, of_system in (("fold", rows), ("new", better)):
        for fold in range(3):
            own = [row for row in of_system if int(row["speaker_id"][-3:]) % 3 == fold]
            folder = tmp_path / "outputs" / f"{system}-{fold}" / "eval" / "best" / "train"
            about = {"rows_in_split": {"train": 300}, "where": f"fold {fold}", "dataset": "d"}
            _file(folder / f"fold-{fold}", own, **about)
    (lines,) = [
        lines
        for _, lines in blocks("docs/howto/check-data.md")
        if "danish-asr compare" in lines[-1]
    ]
    score_line, compare_line = (shlex.split(line)[2:] for line in lines[-2:])
    files = sorted(tmp_path.glob(score_line[0]))
    scores, shown = _shown(*files, outputs=[Path(score_line[-1])])
    assert "300 rows scored of 300 in the split train" in shown
    assert scores.overall == scored(rows).overall
    text = Path(score_line[-1]).read_text("utf-8")
    assert all(f"fold-{fold}/predictions.jsonl" in text for fold in range(3))
    comparison = compare_files(
        parse_runs(compare_line), outputs=[tmp_path / "c.csv"], console=Console(file=io.StringIO())
    )
    expected = compared({"base": {"a": rows}, "new": {"b": better}})
    assert comparison.table.equals(expected.table)
    assert {used.partial for used in comparison.rows.values()} == {False}
    assert sha256_of(files[0]) in (tmp_path / "c.csv").read_text("utf-8")


def test_split_and_condition_of_an_evaluation_are_beside_the_numbers(predictions: Path) -> None:
    write_evaluation(predictions, rows_in_split={"test_coral": 9}, where="age < 20")
    page, table, document = (predictions.with_name(name) for name in ("p.html", "t.csv", "s.json"))
    _, shown = _shown(predictions, outputs=[page, table, document])
    assert "4 rows scored of 9 in the split test_coral, where age < 20" in shown
    assert "of 9 in the split test_coral, where age &lt; 20" in page.read_text("utf-8")
    assert ",9,test_coral,age < 20," in table.read_text("utf-8")
    assert json.loads(document.read_text("utf-8"))["rows"]["where"] == "age < 20"


@pytest.mark.parametrize("name", ["s.json", "s.csv", "s.tex", "x.trn", "utterances.csv"])
def test_every_file_says_what_its_numbers_are_of(
    tmp_path: Path, predictions: Path, name: str
) -> None:
    about = {"model": "300m", "checkpoint": "best", "dataset": "mine"}
    write_evaluation(predictions, rows_in_split={"test": 4}, **about)
    _shown(predictions, outputs=[tmp_path / name], denominator="coral")
    files = [path.read_text("utf-8") for path in tmp_path.glob(f"{name}*")]
    known = [*about.values(), "test", sha256_of(predictions), __version__, "coral", "all"]
    assert any(all(text in own for text in known) for own in files)


def test_a_table_for_latex_has_rates_with_intervals_and_escaped_labels(tmp_path: Path) -> None:
    rows = [changed(row, dialect=f'A&"{row["dialect"]}') for row in random_rows(600)]
    file = _file(tmp_path, rows)
    scores, _ = _shown(file, by=["dialect"], outputs=[tmp_path / "s.tex"])
    text = (tmp_path / "s.tex").read_text("utf-8")
    group = scores.groupings["dialect"].groups[0]
    assert group.wer.interval
    numbers = f"{100 * group.wer.value:.2f} & {bounds(group.wer.interval)}"
    assert rf"dialect: A\&\char34{{}}Bornholmsk & {numbers}" in text
    assert r"\toprule" in text
    assert "duration" not in text
    body = [line for line in text.splitlines() if not line.startswith("%")]
    assert '"' not in "".join(body)  # a command of babel's Danish


def test_a_grouping_without_a_value_has_no_table_and_is_named(tmp_path: Path) -> None:
    rows = [changed(row, age=None, sub_dialect="") for row in four_rows()]
    outputs = [tmp_path / f"s.{end}" for end in ("tex", "html")]
    by = ["age,sub_dialect", "dialect", "gender"]
    _, shown = _shown(_file(tmp_path, rows), by=by, outputs=outputs)
    for text in (shown, *(output.read_text("utf-8") for output in outputs)):
        assert text.count("age,sub_dialect, gender") == 1
    assert "by dialect" in shown
    assert not re.search("by (age|gender)", shown)
    assert shown.count("unknown") == 1


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


def test_an_option_for_a_page_is_refused_where_no_page_is_written(predictions: Path) -> None:
    for outputs in ([predictions.with_name("s.json")], []):
        with pytest.raises(ConfigError, match="--no-audio"):
            _shown(predictions, outputs=outputs, audio=False)
    assert [*predictions.parent.iterdir()] == [predictions]


def test_a_companion_is_no_other_output(predictions: Path) -> None:
    outputs = [predictions.with_name(name) for name in ("x.trn", "x.trn.json")]
    with pytest.raises(ConfigError, match=r"x\.trn\.json"):
        _shown(predictions, outputs=outputs)


def test_columns_are_named_in_one_argument_or_in_several_each_once() -> None:
    names = {"reference": "ord", "hypothesis": "w=1"}
    assert parse_columns(["reference=ord, hypothesis=w=1,"]) == names
    assert parse_columns(["reference = ord", "hypothesis=w=1"]) == names
    for wrong in ("reference", "reference=", "text=ord", "id=a,id=b"):
        with pytest.raises(ConfigError, match="columns: expected"):
            parse_columns([wrong])


@pytest.mark.parametrize(
    "names",
    [
        ["run.json/../evaluation.json"],
        ["of.trn"],  # beside which of.trn.json is written
        ["x.trn"],  # of which x.ref.trn, a link to the predictions, is written
        ["data/manifest.json"],
        ["data/cards/page.html"],
    ],
)
@pytest.mark.parametrize("known_by", ["option", "evaluation"])
def test_an_output_replaces_neither_what_is_read_nor_another_output(
    tmp_path: Path, predictions: Path, names: list[str], known_by: str
) -> None:
    """`score whisper.hyp.trn --out whisper.trn` replaced what it had read."""
    (tmp_path / "run.json").mkdir()
    (tmp_path / "x.ref.trn").symlink_to(predictions)
    (tmp_path / "of.trn.json").symlink_to(predictions)
    (data := tmp_path / "data").mkdir()
    (data / "manifest.json").write_text("{}")
    own = {"dataset_root": str(data)} if known_by == "evaluation" else {}
    write_evaluation(predictions, rows_in_split={"test": 4}, **own)
    before = {*tmp_path.rglob("*")}
    outputs = [tmp_path / name for name in names]
    last = outputs[-1]
    with pytest.raises(ConfigError, match=rf"{last.stem}(\.ref)?\{last.suffix}(\.json)?"):
        _shown(predictions, outputs=outputs, dataset=None if own else data)
    assert {*tmp_path.rglob("*")} == before


def test_an_output_may_be_beside_the_files_of_a_dataset_and_replace_itself(
    tmp_path: Path, predictions: Path
) -> None:
    (data := tmp_path / "data").mkdir()
    write_evaluation(predictions, rows_in_split={"test": 4}, dataset_root=str(data))
    for _ in range(2):
        _shown(predictions, outputs=[data / "report.html"])
    assert (data / "report.html").is_file()
