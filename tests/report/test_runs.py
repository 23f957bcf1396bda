"""The list of runs: state, scores, and what differs between them."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from danish_asr.base.errors import ConfigError
from danish_asr.recipe.run.run import FAILED
from danish_asr.report.run_page import report_run
from danish_asr.report.runs import COMPLETE, STOPPED, ListedRun, find_runs, report_runs
from tests.foreign_code import NAME, ForeignCode
from tests.report_runs import _evaluation, _report, make_run
from tests.score_rows import evaluated


def test_a_run_with_a_patience_is_finished_only_after_so_many_validations(tmp_path: Path) -> None:
    states = []
    for patience in (2, 3):
        regime = {"num_steps": 9, "early_stopping_patience": patience}
        folder = make_run(tmp_path / str(patience), {"regime": regime}, [90, 80, 85, 86])
        states.append(ListedRun(folder).state)
    assert states == [COMPLETE, STOPPED]
    saved = tmp_path / "3" / "checkpoints"
    (saved / "step_4").rename(saved / "step_3")  # from which it can continue
    assert [ListedRun(tmp_path / name).reached for name in "23"] == [4, 3]


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
    why = ["c: failed: the disk is full", "d: failed: the loss is NaN"]
    assert lines[11:14] == [*why, "e: failed: lr must be above 0"]
    with (sweep / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    speeds = (rows[0]["hours"], rows[0]["audio_hours_per_hour"], rows[1]["hours"])
    assert speeds == ("1.0", "40.0", "")
    assert (rows[1]["test_wer"], rows[2]["reason"]) == ("0.5", "the disk is full")
    assert [row["dev_step"] for row in rows] == ["4", "4", "2", "", ""]


def test_runs_with_other_dev_rows_are_not_ranked_and_fit_a_log(tmp_path: Path) -> None:
    for number, rates in enumerate(([90.0, 80.0], [50.0, 40.0], [70.0, 60.0])):
        names = ", ".join(f"'speaker {number}-{n}'" for n in range(30))
        rows = {"valid_where": f"speaker_id in ({names})", "train_where": f"not in ({names})"}
        make_run(tmp_path / f"fold-{number}", {"dataset": rows}, rates)
    assert [run.name for run in find_runs(tmp_path)] == ["fold-0", "fold-1", "fold-2"]
    output = io.StringIO()
    report_runs(tmp_path, console=Console(file=output))
    first, *table = output.getvalue().splitlines()
    assert "not ranked" in first
    assert max(map(len, table)) <= 100


def test_a_run_is_found_as_the_directory_itself_and_not_below_a_hidden_one(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {}, [90, 80])
    make_run(tmp_path / ".old" / "hidden", {}, [90])
    _report(run)
    (found,) = find_runs(tmp_path)
    (itself,) = find_runs(run)
    assert found.name == itself.name == "run"
    assert itself.step == 4, "the reports have more steps than the validations"


def test_runs_are_scored_under_their_own_profile_and_say_so(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"regime": {"score_profile": "raw"}}, [90, 80, 50, 49])
    _evaluation(run, "test", "JA nej")  # no error under the default profile
    output = io.StringIO()
    report_runs(tmp_path, console=Console(file=output))
    assert "under profile raw" in output.getvalue()
    assert "50.00" in output.getvalue()
    report_run(run, Console(file=output))
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "text profile raw" in page
    assert "<td>50.00</td>" in page


def test_the_list_of_runs_replaces_no_file_of_a_run(sweep: Path) -> None:
    file = sweep / "a" / "cards" / "a.yaml"
    before = file.read_bytes()
    with pytest.raises(ConfigError, match=r"a/cards/a\.yaml (.|\n)*--csv"):
        report_runs(sweep, csv=file, console=Console(file=io.StringIO()))
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("decoder", "places", "named"),
    [
        ("greedy", ["best/test"], False),
        ("beam", ["best/test/beam"], False),
        ("beam", ["best/test"], True),
        ("greedy", ["last/test"], True),
        ("greedy", ["best/test", "best/test/beam"], True),
        ("beam", ["best/test/beam", "best/test"], True),
    ],
)
def test_the_evaluation_of_a_test_score_is_named_unless_it_is_the_only_one_and_as_expected(
    tmp_path: Path, decoder: str, places: list[str], named: bool
) -> None:
    run = make_run(tmp_path / "run", {"decoder": {"name": decoder, "config": {}}}, [9, 8, 7, 6])
    evaluated(run, "best/dev")
    beam = {"decoder": {"name": "beam", "config": {}}}
    taken, *_ = [str(evaluated(run, place, **beam if "beam" in place else {})) for place in places]
    output, table = io.StringIO(), tmp_path / "runs.csv"
    report_runs(tmp_path, csv=table, console=Console(file=output, width=500))
    said = [line for line in output.getvalue().splitlines() if f"evaluation of {run}: " in line]
    assert [f": {taken} (" in line for line in said] == [True] * named
    (row,) = csv.DictReader(table.read_text("utf-8").splitlines())
    assert row["test_evaluation"] == taken


@pytest.mark.parametrize("broken_text", ["", "{}", '{"rows_in_split": 5}'])
def test_a_broken_evaluation_hides_neither_runs_nor_other_evaluations(
    sweep: Path, broken_text: str
) -> None:
    """An empty evaluation.json ended the list and the page."""
    _evaluation(sweep / "a", "dev", "ja nej")
    _evaluation(sweep / "a", "dev/edited", "ja nej")
    broken = sweep / "a" / "eval" / "best" / "dev" / "evaluation.json"
    broken.write_text(broken_text)
    (broken.parent / "edited" / "predictions.jsonl").write_text("")
    output = io.StringIO()
    report_runs(sweep, csv=sweep / "runs.csv", console=Console(file=output, width=500))
    with (sweep / "runs.csv").open() as file:
        rates = {row["run"]: row["test_wer"] for row in csv.DictReader(file)}
    assert (rates["a"], {*rates}) == ("0.5", {*"abcde"})
    assert (str(broken) in output.getvalue()) is (broken_text != "{}")
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


def test_a_test_score_of_an_earlier_best_checkpoint_is_said_to_be_old(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {}, [9, 8, 7, 6])
    evaluated(run, "best/test")  # of step 4
    scores = run / "checkpoints" / "scores"
    scores.mkdir(parents=True, exist_ok=True)
    said = []
    for step in (4, 6):
        (run / "checkpoints" / f"step_{step}").mkdir(exist_ok=True)
        (scores / f"step_{step}.txt").write_text(str(step - 100.0))
        output = io.StringIO()
        report_runs(tmp_path, console=Console(file=output, width=500))
        said.append("best checkpoint is now step 6" in output.getvalue())
    assert said == [False, True]
