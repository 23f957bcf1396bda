"""Which evaluation a run's directory stands for, when it is scored and compared."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.recipe.run.evaluations import evaluation_of
from danish_asr.recipe.run.run import Run, predictions_of
from danish_asr.report.compare import compare_files
from danish_asr.report.score import score_files
from tests.score_rows import evaluated, run_with_decoder, write_evaluation

BEAM = {"name": "beam", "config": {"lm": "lm"}}
PLAIN = {"name": "beam", "config": {}}


def place_of(run: Path, predictions: Path) -> str:
    return predictions.parent.relative_to(run / "eval").as_posix()


BEAMS = ["best/test/beam", "last/test/beam", "step_2/test/beam"]
GREEDY = ["best/test", "best/test/again"]


@pytest.mark.parametrize(
    ("decoder", "order"),
    [
        ({}, [*GREEDY, "best/test/plain", *BEAMS]),
        (BEAM, [*BEAMS, "best/test/plain", *GREEDY]),
        (PLAIN, ["best/test/plain", *BEAMS, *GREEDY]),
        ({"name": "mine:Decoder"}, [*GREEDY, "best/test/plain", *BEAMS]),
    ],
)
def test_a_run_stands_for_the_test_split_by_its_own_decoder_then_by_its_best_checkpoint(
    tmp_path: Path, decoder: dict[str, Any], order: list[str]
) -> None:
    run = run_with_decoder(tmp_path / "run@home", **decoder)
    for place in (*GREEDY, "best/dev"):
        evaluated(run, place)
    evaluated(run, "best/dev/a", where="age > 20", decoder=decoder)
    for place in BEAMS:
        evaluated(run, place, decoder=BEAM)
    evaluated(run, "best/test/plain", decoder=PLAIN)
    places = [place_of(run, one.predictions) for one in Run(run).evaluations()]
    assert places == [*order, "best/dev", "best/dev/a"]
    choice = Run(run).test()
    files = [str(one.predictions) for one in (choice.taken, *choice.others)]
    assert [place_of(run, Path(file)) for file in files] == order
    assert choice.to_dict() == {"run": str(run), "taken": files[0], "others": files[1:]}
    named = [*map(choice.in_words().index, files)]
    assert named == sorted(named)


def test_an_evaluation_is_named_by_its_rows_decoder_checkpoint_and_step(tmp_path: Path) -> None:
    evaluated(tmp_path, "best/dev", where="age > 20", decoder=BEAM)
    evaluated(tmp_path, "none/test", step=None, model="300m", rows_in_split={})
    words = [one.in_words() for one in Run(tmp_path).evaluations()]
    assert words == [
        "split unknown, decoder greedy, model 300m",
        "dev, where age > 20, decoder beam, checkpoint best, step 4",
    ]


@pytest.mark.parametrize(
    ("place", "about"),
    [
        ("best/dev", {}),
        ("best/test", {"where": "age < 20"}),
        ("best/test@fleurs", {}),
        ("best/test@fleurs/beam", {}),
        ("best/test", {"rows_in_split": {"test": 4, "dev": 4}}),
        ("best/test", {"rows_in_split": None}),
    ],
)
def test_other_rows_never_stand_in_for_the_test_split_of_a_run(
    tmp_path: Path, place: str, about: dict[str, Any]
) -> None:
    run = run_with_decoder(tmp_path / "run")
    file = evaluated(run, place, **about)
    with pytest.raises(PredictionsError, match=f"danish-asr evaluate {run}(.|\n)*{file}"):
        predictions_of(run)
    assert predictions_of(file) == file


def test_another_model_stands_for_a_directory_unless_a_run_was_trained_there(
    tmp_path: Path,
) -> None:
    file = evaluated(tmp_path, "omniASR/test", checkpoint="none")
    assert predictions_of(tmp_path) == file
    run_with_decoder(tmp_path)
    with pytest.raises(PredictionsError, match="omniASR"):
        predictions_of(tmp_path)


def test_a_broken_evaluation_of_a_run_hides_no_other_and_is_named(tmp_path: Path) -> None:
    run = run_with_decoder(tmp_path / "run")
    evaluated(run, "best/test")
    broken = evaluated(run, "last/test").with_name("evaluation.json")
    broken.write_text("")
    evaluated(run, "step_2/test").unlink()
    choice = Run(run).test()
    assert place_of(run, choice.taken.predictions) == "best/test"
    assert (len(choice.others), len(choice.broken)) == (0, 1)
    assert str(broken) in choice.in_words()
    assert str(broken) in choice.broken[0].in_words()
    assert "step_2" not in choice.in_words()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rows_in_split", "test"),
        ("rows_in_split", {"test": "all"}),
        ("share_people", 3),
        ("run", 7),
        ("dataset_root", 7),
        ("model", "\ud800"),
    ],
)
def test_an_evaluation_with_a_value_that_nothing_writes_is_refused(
    tmp_path: Path, key: str, value: object
) -> None:
    file = evaluated(tmp_path, "best/test")
    write_evaluation(file, **{key: value})
    with pytest.raises(PredictionsError, match=r"evaluation\.json: .*evaluate again"):
        evaluation_of(file)


def test_what_was_evaluated_is_of_the_unchanged_file_that_it_names(tmp_path: Path) -> None:
    file = evaluated(tmp_path, "best/test")
    about = file.with_name("evaluation.json")
    assert evaluation_of(file)["checkpoint"] == "best"
    assert evaluation_of(file.with_name("mine.jsonl")) == {}
    file.write_text("")
    with pytest.raises(PredictionsError, match=str(about)):
        evaluation_of(file)
    about.unlink()
    assert evaluation_of(file) == {}


def test_a_comparison_names_the_evaluations_of_its_runs_first(tmp_path: Path) -> None:
    runs = {name: run_with_decoder(tmp_path / name) for name in ("a", "b")}
    for run in runs.values():
        evaluated(run, "best/test")
        evaluated(run, "last/test")
    console = Console(record=True, width=120, file=io.StringIO())
    document = tmp_path / "c.json"
    seeds = {name: [run] for name, run in runs.items()}
    comparison = compare_files(seeds, outputs=[document], console=console)
    lines = console.export_text().splitlines()
    choices = json.loads(document.read_text("utf-8"))["choices"]
    assert choices == [Run(run).test().to_dict() for run in runs.values()]
    assert all(choice["taken"] in line for line, choice in zip(lines, choices, strict=False))
    assert {*comparison.rows} == {choice["taken"] for choice in choices}


def test_an_evaluation_of_an_earlier_best_checkpoint_is_said_to_be_old(tmp_path: Path) -> None:
    run = run_with_decoder(tmp_path / "run")
    evaluated(run, "best/test")  # of step 4
    for step, rate in ((4, -50.0), (6, -40.0)):
        (run / "checkpoints" / f"step_{step}").mkdir(parents=True)
        scores = run / "checkpoints" / "scores"
        scores.mkdir(exist_ok=True)
        (scores / f"step_{step}.txt").write_text(str(rate))
        newer = None if step == 4 else step
        choice = Run(run).test()
        assert choice.newer_best == newer
        assert ("evaluate again" in choice.in_words()) == (newer is not None)
        assert choice.in_words().endswith("step 4)") == (newer is None)


def test_neither_scores_nor_a_comparison_replace_a_file_of_a_run(tmp_path: Path) -> None:
    run = run_with_decoder(tmp_path / "run")
    evaluated(run, "best/test")
    record = run / "environment.json"
    record.write_text("[]")
    console = Console(file=io.StringIO())
    for write in (
        lambda: score_files([run], outputs=[record], console=console),
        lambda: compare_files({"a": [run], "b": [run]}, outputs=[record], console=console),
    ):
        with pytest.raises(ConfigError, match=r"environment\.json"):
            write()
    assert record.read_text() == "[]"
