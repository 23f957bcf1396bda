"""Which evaluation a run's directory stands for, when it is scored and compared."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from danish_asr import compare, score
from danish_asr.base.errors import PredictionsError
from danish_asr.report.compare import compare_files
from danish_asr.report.score import score_files
from tests.score_rows import evaluated, run_with_decoder

BEAM = {"name": "beam", "config": {"lm": "lm"}}


def printed(run: Path, *outputs: Path) -> str:
    """What the command prints that scores a run."""
    console = Console(record=True, width=120, file=io.StringIO())
    score_files([run], outputs=outputs, console=console)
    return console.export_text()


@pytest.mark.parametrize(
    ("decoder", "taken"),
    [
        ({}, "best/test"),
        (BEAM, "best/test/beam"),
        (BEAM | {"config": {}}, "best/test/plain"),
        ({"name": "mine:Decoder"}, "best/test"),
    ],
)
def test_a_run_stands_for_the_test_split_by_its_own_decoder_and_says_so(
    tmp_path: Path, decoder: dict[str, Any], taken: str
) -> None:
    run = run_with_decoder(tmp_path / "run", **decoder)
    evaluated(run, "best/dev")
    evaluated(run, "step_2/test", step=2)
    evaluated(run, "best/test")
    evaluated(run, "best/test/again")
    evaluated(run, "best/test/beam", decoder=BEAM)
    evaluated(run, "best/test/plain", decoder=BEAM | {"config": {}})
    shown = printed(run, tmp_path / "scores.json")
    first, *_ = shown.splitlines()
    choice = json.loads((tmp_path / "scores.json").read_text("utf-8"))["choices"]
    chosen = str(run / "eval" / taken / "predictions.jsonl")
    others = choice[0].pop("others")
    assert choice == [{"run": str(run), "taken": chosen}]
    assert (len(others), chosen in others) == (4, False)
    assert first.index(chosen) < min(map(first.index, others))
    assert "in the split test" in shown


def test_a_run_stands_for_its_best_checkpoint_then_its_last_then_others(tmp_path: Path) -> None:
    run = run_with_decoder(tmp_path / "run")
    evaluated(run, "a/test", checkpoint="step_1")
    for better in ("last", "best"):
        evaluated(run, f"{better}/test")
        assert score(run).about["checkpoint"] == better


def test_a_run_without_a_greedy_evaluation_of_test_is_scored_on_test(tmp_path: Path) -> None:
    """It was scored on dev, which sorts before a beam search, in silence."""
    run = run_with_decoder(tmp_path / "run")
    evaluated(run, "best/dev")
    evaluated(run, "best/test/beam", decoder=BEAM)
    assert score(run).rows.splits == ["test"]
    assert compare(run, run / "eval" / "best" / "test" / "beam").rows


@pytest.mark.parametrize(
    ("place", "about"),
    [
        ("best/dev", {}),
        ("best/test", {"where": "age < 20"}),
        ("best/test@fleurs", {}),
        ("best/test", {"rows_in_split": {"test": 4, "dev": 4}}),
        ("best/test", {"rows_in_split": None}),
    ],
)
def test_other_rows_never_stand_in_for_the_test_split_of_a_run(
    tmp_path: Path, place: str, about: dict[str, Any]
) -> None:
    run = run_with_decoder(tmp_path / "run")
    file = evaluated(run, place, **about)
    for use in (score, lambda one: compare(one, file)):
        with pytest.raises(PredictionsError, match=f"danish-asr evaluate {run}(.|\n)*{file}"):
            use(run)
    assert score(file).rows.scored == 4


def test_another_model_stands_for_a_directory_unless_a_run_was_trained_there(
    tmp_path: Path,
) -> None:
    evaluated(tmp_path, "omniASR/test", checkpoint="none")
    assert score(tmp_path).rows.scored == 4
    run_with_decoder(tmp_path)
    with pytest.raises(PredictionsError, match="omniASR"):
        score(tmp_path)


def test_a_broken_evaluation_of_a_run_hides_no_other_and_is_named(tmp_path: Path) -> None:
    run = run_with_decoder(tmp_path / "run")
    evaluated(run, "best/test")
    broken = evaluated(run, "last/test").with_name("evaluation.json")
    broken.write_text("")
    assert score(run).rows.scored == 4
    assert str(broken) in printed(run).splitlines()[0]


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
    for line, choice, run in zip(lines, choices, runs.values(), strict=False):
        taken, other = (
            str(run / "eval" / name / "test" / "predictions.jsonl") for name in ("best", "last")
        )
        assert choice == {"run": str(run), "taken": taken, "others": [other]}
        assert line.index(taken) < line.index(other)
    assert len(choices) == 2
    assert {*comparison.rows} == {choice["taken"] for choice in choices}
