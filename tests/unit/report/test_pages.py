"""The pages of scores and of a run, in a real browser, and the table of runs."""

import csv
import io
import json
import re
import shutil
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner

from danish_asr.base.errors import ConfigError, RunError
from danish_asr.base.files import to_yaml
from danish_asr.cli.app import app
from danish_asr.recipe.run.advice import CHANCE, LOSS
from danish_asr.recipe.run.run_directory import FAILED
from danish_asr.report.components import Panel, curves_chart
from danish_asr.report.run_page import panels, report_run
from danish_asr.report.runs import COMPLETE, STOPPED, Run, report_runs
from danish_asr.report.score import score_files
from danish_asr.report.score_page import score_page
from danish_asr.scoring.predictions import Prediction, read_references, write_predictions
from danish_asr.scoring.scores import score_predictions
from tests.browser import WIDTH, in_browser, needs_browser
from tests.builders import build_dataset
from tests.foreign_code import NAME, ForeignCode
from tests.score_rows import evaluated, prediction, random_rows, write_evaluation
from tests.shards import utterance, write_shard

WER = "Word Error Rate (WER)"
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"
ROWS = [
    *random_rows(400),
    prediction("worst-of-all", f"{HOSTILE} {'ord ' * 30}", HOSTILE, dialect=HOSTILE),
]


def _score_page(rows: list[Prediction], dataset: Path | None = None) -> str:
    by = ["dialect", "age_group,gender", "duration"]
    scores = score_predictions(rows, by=by, rows_in_split=500)
    return score_page(scores, Path("p.jsonl"), dataset).html


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of scores with hostile texts."""
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(_score_page(ROWS), encoding="utf-8")
    return file


def test_the_page_is_one_file_without_external_links_and_always_the_same(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = re.findall(r'(?:href|src)="([^"]*)"', text)
    assert all(link.startswith(("#", "data:")) for link in links)
    assert "default-src 'none'" in text
    assert _score_page(ROWS) == text


FOUND = """
const all = (selector) => [...document.querySelectorAll(selector)];
const column = (n) => all("table.worst tbody tr").map((row) => Number(row.cells[n].textContent));
all("table.worst thead button")[1].click();
return {
  groups: all(".groups tbody th").map((cell) => cell.textContent),
  foreign: all("img").length + all("script").length - 1,
  charts: all("svg:not([role=img], [aria-hidden])").length,
  danish: all(".alignment:not([lang=da][dir=auto])").length,
  unnamed: all("table").filter(
    (table) => !document.getElementById(table.getAttribute("aria-labelledby"))).length,
  wer: column(1),
};
"""


@needs_browser
def test_hostile_texts_are_shown_as_text_and_everything_has_a_name(page: Path) -> None:
    found = in_browser(page, FOUND)
    assert HOSTILE in found["groups"]
    assert found["foreign"] == found["charts"] == found["danish"] == found["unnamed"] == 0
    assert found["wer"] == sorted(found["wer"], reverse=True)
    assert in_browser(page, WIDTH, width=390) <= 390


def test_the_worst_utterances_have_their_audio(tmp_path: Path) -> None:
    build_dataset(data := tmp_path / "data")
    row, *_ = read_references(data)
    values = {key: row[key] for key in ("corpus", "split", "dialect")}
    text = _score_page([prediction(row["id"], row["reference"], "nej", **values)], data)
    assert text.count("data:audio/flac") == 1


SPEECH = [utterance(number, split="test") for number in range(6)]


@pytest.fixture
def predicted(tmp_path: Path) -> Path:
    """Predictions of a test split, all of them wrong, as an evaluation leaves them."""
    write_shard(data := tmp_path / "data", SPEECH, split="test")
    write_shard(data, [utterance(0)])
    file = tmp_path / "run" / "predictions.jsonl"
    file.parent.mkdir()
    rows = [prediction(row["id"], row["text"], "nej", corpus="a") for row in SPEECH]
    write_predictions(file, rows)
    write_evaluation(file, dataset_root=str(data))
    return file


@pytest.mark.parametrize("command", ["score", "evaluate"])
def test_a_page_of_scores_has_its_clips_counted_or_none_with_no_audio(
    predicted: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    (predicted.parent / "config.yaml").touch()
    monkeypatch.setattr("danish_asr.recipe.entry.run", lambda *_: predicted.parent)
    arguments = [command, str(predicted if command == "score" else predicted.parent)]
    page = predicted.with_name("report.html")
    CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert page.read_text("utf-8").count("data:audio/flac") == 6
    assert re.search(r"\b6; [^.]*--no-audio", page.read_text("utf-8"))
    shared = CliRunner().invoke(app, [*arguments, "--no-audio"], catch_exceptions=False)
    assert "data:audio" not in page.read_text("utf-8")
    assert "--no-audio" not in page.read_text("utf-8")
    assert "warning" not in shared.output


def _rebuilt(**values: Any) -> Callable[[Path], object]:
    """Build the test split again, its first two rows with other values."""
    rows = [row | values if number < 2 else row for number, row in enumerate(SPEECH)]
    return lambda data: write_shard(data, rows, split="test")


def _moved(data: Path, root: str) -> None:
    write_evaluation(data.parent / "run" / "predictions.jsonl", dataset_root=root)


@pytest.mark.parametrize(
    ("spoil", "left_out"),
    [
        (shutil.rmtree, 6),
        (lambda data: shutil.rmtree(next(data.rglob("split=test"))), 6),
        (lambda data: next(data.rglob("split=test/**/*.parquet")).write_bytes(b"PAR1"), 6),
        (lambda data: _moved(data, "x" * 300), 6),
        (_rebuilt(id="another"), 2),
        (_rebuilt(text="en helt anden tekst"), 2),
        (_rebuilt(audio_bytes=b"no audio"), 2),
    ],
    ids=[
        *("no dataset", "no split", "damaged shard", "a name that is no path", "other ids"),
        *("other texts", "no FLAC"),
    ],
)
def test_audio_that_fails_or_has_another_text_is_left_out_and_counted_and_changes_no_score(
    predicted: Path, spoil: Callable[[Path], object], left_out: int
) -> None:
    before = score_files([predicted], console=Console(file=io.StringIO()))
    spoil(predicted.parents[1] / "data")
    console = Console(record=True, width=500, file=io.StringIO())
    assert score_files([predicted], console=console).to_dict() == before.to_dict()
    page = predicted.with_name("report.html").read_text("utf-8")
    assert page.count("data:audio/flac") == 6 - left_out
    lines = [line for line in console.export_text().splitlines() if "out of the page" in line]
    assert [line.split()[1] for line in lines] == [str(left_out)]
    assert lines[0].removeprefix("warning: ") in unescape(page)


def test_a_dataset_that_is_gone_is_named_with_the_option_for_its_new_place(predicted: Path) -> None:
    shutil.rmtree(data := predicted.parents[1] / "data")
    console = Console(record=True, width=500, file=io.StringIO())
    score_files([predicted], console=console)
    (line,) = [line for line in console.export_text().splitlines() if str(data) in line]
    assert "--dataset" in line


def test_an_utterance_of_hours_does_not_make_the_page_large() -> None:
    reference, hypothesis = (" ".join(f"{name}{n}" for n in range(5000)) for name in ("ord", "tal"))
    letters = prediction("letters", "a" * 50_000, "b" * 50_000)
    assert len(_score_page([prediction("long", reference, hypothesis), letters])) < 200_000


def _lines(file: Path, rows: list[dict[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def make_run(folder: Path, config: dict[str, Any], rates: list[float], loss: float = 1.0) -> Path:
    """A run of four steps that is validated at each; complete if it got so far."""
    folder.mkdir(parents=True)
    regime = {"num_steps": 4, "publish_metrics_every_n_steps": 10} | config.pop("regime", {})
    (folder / "config.yaml").write_text(to_yaml(config | {"regime": regime}))
    (folder / "environment.json").write_text("[]")
    dialect = f"wer/dialect/{HOSTILE}"
    rows = [{"Step": n, WER: wer, dialect: wer, LOSS: loss} for n, wer in enumerate(rates, 1)]
    _lines(folder / "metrics" / "valid.jsonl", rows)
    if len(rates) == 4:
        (folder / "cards").mkdir()
        (folder / "cards" / f"{folder.name}.yaml").touch()
    return folder


def _report(run: Path) -> None:
    report = {CHANCE: 9.0, "Learning Rate": 1e-3, "Gradient Norm": 2.0, "Data Time": 1.0}
    report |= {"Lapse Time": 900.0, "Number of Source Elements": 5.76e8}
    report["Peak Reserved Device Memory"] = 2**31
    _lines(run / "metrics" / "train.jsonl", [{"Step": n, LOSS: 1.0, **report} for n in range(1, 5)])


def _evaluation(run: Path, name: str, hypothesis: str, **about: Any) -> None:
    folder = run / "eval" / "best" / name
    folder.mkdir(parents=True)
    split = name.partition("@")[0].partition("/")[0]
    write_predictions(
        folder / "predictions.jsonl", [prediction("x", "ja nej", hypothesis, split=split)]
    )
    usual = {"model": "m", "checkpoint": "best", "step": 4, "rows_in_split": {split: 1}}
    own = {key: value for key, value in (usual | about).items() if value is not None}
    write_evaluation(folder / "predictions.jsonl", **own)


@needs_browser
def test_the_page_of_a_run_has_everything_and_fits_a_phone(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {}, [90, 80, 50, 49])
    _report(run)
    _evaluation(run, "test", f"ja {HOSTILE}")
    _evaluation(run, "dev", "ja", rows_in_split=None)  # which was a KeyError
    (run / "eval" / "best" / "test" / "report.html").touch()
    report_run(run, Console(file=io.StringIO()))
    text = (run / "report.html").read_text(encoding="utf-8")
    assert "Training run: finished." in text
    assert 'href="eval/best/test/report.html"' in text
    assert "split unknown" in text
    assert "best, step 4" in text
    assert f"tensorboard --logdir {run}/tb" in text
    assert "<script>alert" not in text
    charts = dict(re.findall(r"<title>(.*?)</title><desc>(.*?)</desc>", text))
    assert charts["Audio per step"].startswith("audio: 600 at step 1")
    assert charts["Time per step"].startswith("all: 900 at step 1")
    assert "chance: 9 at step 1" in charts["Loss"]
    assert "reserved: 2 at step 1" in charts["GPU memory, peak"]
    assert charts["WER of the worst dialects"].startswith("&lt;script")
    assert in_browser(run / "report.html", WIDTH, width=390) <= 390


def test_a_run_that_has_just_begun_has_a_page_and_another_directory_is_refused(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path / "run", {}, [])
    report_run(run, Console(file=io.StringIO()))
    assert "the first one comes at step 10" in (run / "report.html").read_text(encoding="utf-8")
    with pytest.raises(RunError, match=r"no config\.yaml and no environment\.json"):
        report_run(tmp_path)
    (tmp_path / FAILED).write_text("lr must be above 0")
    with pytest.raises(RunError, match="refused before it began: lr must be above 0"):
        report_run(tmp_path)


def test_curves_are_sorted_by_step_and_the_last_whole_line_of_a_step_counts(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {}, [])
    losses = [(10, 5.0), (5, 9.0), (10, 4.0), (7, float("nan")), (8, None)]
    file = run / "metrics" / "train.jsonl"
    _lines(file, [{"Step": step, LOSS: value} for step, value in losses])
    with file.open("a", encoding="utf-8") as stream:
        stream.write('{"Step": 12')
    _lines(run / "metrics" / "valid.jsonl", [{"Step": 1, WER: 0.0}])
    loss, rates, *_ = panels(Run(run))
    assert {name: dict(curve) for name, curve in loss.curves.items()} == {
        "training": {5: 9.0, 10: 4.0}
    }
    assert {name: dict(curve) for name, curve in rates.curves.items()} == {"WER": {1: 0.0}}


def test_a_run_with_a_patience_is_finished_only_after_so_many_validations(tmp_path: Path) -> None:
    states = []
    for patience in (2, 3):
        regime = {"num_steps": 9, "early_stopping_patience": patience}
        folder = make_run(tmp_path / str(patience), {"regime": regime}, [90, 80, 85, 86])
        states.append(Run(folder).state)
    assert states == [COMPLETE, STOPPED]


@pytest.mark.parametrize(("points", "smoothed"), [(60, 1), (9, 0)])
def test_a_long_noisy_curve_is_smoothed(points: int, smoothed: int) -> None:
    curve = pd.Series(1.0 + np.arange(points) % 2, index=np.arange(points))
    chart = curves_chart(Panel("Loss", "", {"training": curve}, noisy=True))
    assert chart.count("training, smoothed") == smoothed


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Five runs; the first has evaluations, of which only one is its own test split."""

    def run(name: str, rate: float, rates: list[float], **options: Any) -> Path:
        return make_run(tmp_path / name, {"optimizer": {"config": {"lr": rate}}}, rates, **options)

    a = run("a", 1e-3, [90, 80, 50, 49])
    _report(run("b", 2e-3, [90, 70, 50, 48]))
    (run("c", 0.5, [100, 100], loss=3.0) / FAILED).write_text("the disk is full")
    (run("d", 100, []) / FAILED).write_text("the loss is NaN")
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / FAILED).write_text("lr must be above 0")
    _evaluation(a, "test", "ja")
    _evaluation(a, "test/part", "ja nej", where="age > 20")
    _evaluation(a, "test/beam", "ja nej", decoder={"name": "beam", "config": {}})
    return tmp_path


def test_runs_are_listed_with_state_scores_and_the_keys_in_which_they_differ(sweep: Path) -> None:
    output = io.StringIO()
    report_runs(sweep, csv=sweep / "runs.csv", console=Console(file=output))
    lines = output.getvalue().splitlines()
    assert [line.split() for line in lines[4:9]] == [
        ["b", "finished", "4/4", "48.00", "4", "1.00", "40", "0.002"],
        ["a", "finished", "4/4", "49.00", "4", "50.00", "0.001"],
        ["c", "failed", "2/4", "100.00", "2", "0.5"],
        ["d", "failed", "0/4", "100"],
        ["e", "failed"],
    ]
    assert "e: failed: lr must be above 0" in lines
    with (sweep / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    speeds = (rows[0]["hours"], rows[0]["audio_hours_per_hour"], rows[1]["hours"])
    assert speeds == ("1.0", "40.0", "")
    assert (rows[1]["test_wer"], rows[2]["reason"]) == ("0.5", "the disk is full")


def test_a_run_with_edited_predictions_is_listed_and_hides_no_other(sweep: Path) -> None:
    predictions = sweep / "a" / "eval" / "best" / "test" / "predictions.jsonl"
    predictions.write_text(predictions.read_text().replace("ja", "nej", 1))
    output = io.StringIO()
    report_runs(sweep, csv=sweep / "runs.csv", console=Console(file=output, width=500))
    with (sweep / "runs.csv").open() as file:
        rates = {row["run"]: row["test_wer"] for row in csv.DictReader(file)}
    assert rates["a"] == ""
    assert {*rates} == {*"abcde"}
    assert "a/eval/best/test/evaluation.json" in output.getvalue()


@pytest.mark.parametrize("name", ["test@fleurs", "contest"])
def test_only_the_runs_own_test_split_is_its_test_score(tmp_path: Path, name: str) -> None:
    """Another dataset's test split, and a split whose name contains "test", were shown."""
    run = make_run(tmp_path / "run", {}, [90, 80, 50, 49])
    _evaluation(run, name, "ja")
    assert Run(run).test is None


def test_runs_are_scored_under_their_own_profile_and_say_so(tmp_path: Path) -> None:
    """All were scored with CoRal's rules, which remove every Cyrillic letter."""
    run = make_run(tmp_path / "run", {"regime": {"score_profile": "plain"}}, [90, 80, 50, 49])
    _evaluation(run, "test", "так")
    output = io.StringIO()
    report_runs(tmp_path, console=Console(file=output))
    assert "test WER under profile plain" in output.getvalue()
    report_run(run, Console(file=output))
    assert "text profile plain" in (run / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["config.yaml", "metrics/valid.jsonl", "cards/a.yaml"])
def test_the_list_of_runs_replaces_no_file_of_a_run(sweep: Path, name: str) -> None:
    before = (sweep / "a" / name).read_bytes()
    with pytest.raises(ConfigError, match=f"a/{name} (.|\n)*--csv"):
        report_runs(sweep, csv=sweep / "a" / name, console=Console(file=io.StringIO()))
    assert (sweep / "a" / name).read_bytes() == before


def test_the_page_of_a_run_replaces_no_file_of_the_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {}, [90, 80, 50, 49])
    before = (run / "config.yaml").read_bytes()
    (run / "report.html").symlink_to("config.yaml")
    with pytest.raises(ConfigError, match=r"report\.html"):
        report_run(run, Console(file=io.StringIO()))
    assert (run / "config.yaml").read_bytes() == before


def test_an_option_for_a_list_of_runs_is_refused_for_one_run(tmp_path: Path) -> None:
    """The option wrote nothing, in silence."""
    run, table = make_run(tmp_path / "run", {}, []), tmp_path / "runs.csv"
    result = CliRunner().invoke(app, ["report", str(run), "--csv", str(table)])
    assert (result.exit_code, "--csv" in result.stderr) == (2, True)
    assert not (run / "report.html").exists()
    assert CliRunner().invoke(app, ["report", str(tmp_path), "--csv", str(table)]).exit_code == 0
    assert table.is_file()


@pytest.mark.parametrize(("decoder", "taken"), [("beam", "test/beam"), ("greedy", "test")])
def test_the_test_score_of_a_run_is_by_its_own_decoder_and_the_list_says_which(
    tmp_path: Path, decoder: str, taken: str
) -> None:
    run = make_run(tmp_path / "run", {"decoder": {"name": decoder, "config": {}}}, [9, 8, 7, 6])
    evaluated(run, "best/dev")
    evaluated(run, "best/test")
    evaluated(run, "best/test/beam", decoder={"name": "beam", "config": {}})
    output, table = io.StringIO(), tmp_path / "runs.csv"
    report_runs(tmp_path, csv=table, console=Console(file=output, width=500))
    file = str(run / "eval" / "best" / taken / "predictions.jsonl")
    (line,) = [line for line in output.getvalue().splitlines() if f"evaluation of {run}: " in line]
    assert f": {file} (" in line
    (row,) = csv.DictReader(table.read_text("utf-8").splitlines())
    assert row["test_evaluation"] == file


def test_a_run_that_was_evaluated_on_other_rows_only_has_no_test_score_and_says_so(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path / "run", {}, [9, 8, 7, 6])
    evaluated(run, "best/dev")
    evaluated(run, "none/test")  # another model
    output, table = io.StringIO(), tmp_path / "runs.csv"
    report_runs(tmp_path, csv=table, console=Console(file=output, width=500))
    (row,) = csv.DictReader(table.read_text("utf-8").splitlines())
    assert row["test_wer"] == ""
    assert f"run: test score not computed: {run}" in output.getvalue()
    assert "best/dev/predictions.jsonl (dev, " in output.getvalue()


def test_a_broken_evaluation_hides_neither_runs_nor_other_evaluations(sweep: Path) -> None:
    """An empty evaluation.json ended the list and the page."""
    _evaluation(sweep / "a", "dev", "ja nej")
    _evaluation(sweep / "a", "dev/edited", "ja nej")
    broken = sweep / "a" / "eval" / "best" / "dev" / "evaluation.json"
    broken.write_text("")
    (broken.parent / "edited" / "predictions.jsonl").write_text("")
    output = io.StringIO()
    report_runs(sweep, csv=sweep / "runs.csv", console=Console(file=output, width=500))
    with (sweep / "runs.csv").open() as file:
        rates = {row["run"]: row["test_wer"] for row in csv.DictReader(file)}
    assert (rates["a"], {*rates}) == ("0.5", {*"abcde"})
    assert str(broken) in output.getvalue()
    report_run(sweep / "a", Console(file=output, width=500))
    page = (sweep / "a" / "report.html").read_text(encoding="utf-8")
    assert "<td>50.00</td>" in page
    for fault in (broken, broken.parent / "edited" / "evaluation.json"):
        assert str(fault) in page
        assert f"not scored: {fault}" in output.getvalue()


def test_a_run_whose_profile_is_code_is_shown_without_its_scores(
    tmp_path: Path, foreign_code: ForeignCode
) -> None:
    run = make_run(tmp_path / "run", {"regime": {"score_profile": NAME}}, [90, 80, 50, 49])
    _evaluation(run, "test", "ja")
    output = io.StringIO()
    report_runs(tmp_path, csv=tmp_path / "runs.csv", console=Console(file=output, width=1_000))
    report_run(run, Console(file=output))
    page = (run / "report.html").read_text(encoding="utf-8")
    for said in (output.getvalue(), page):
        assert all(text in said for text in ("config.yaml", NAME, "not computed"))
    assert "--profile" in output.getvalue()
    assert "49.00" in page, "the validations are shown"
    with (tmp_path / "runs.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["dev"], row["test_wer"]) == ("49", "")
    assert not foreign_code.ran
