"""Sweeps: what is refused, the names of the runs, and which of them a rung keeps."""

import json
from pathlib import Path

import pytest

from danish_asr.base.errors import ConfigError, RunError
from danish_asr.planning.sweep.grid import open_sweep
from danish_asr.planning.sweep.run import Runner
from danish_asr.recipe.run.advice import LOSS
from danish_asr.recipe.run.outcome import PRUNED

ROOT = Path(__file__).parents[2]
DEMO = [ROOT / "configs" / "demo.yaml"]
RATES = "optimizer.config.lr=1e-3,2e-3"


@pytest.mark.parametrize(
    ("over", "values", "faults"),
    [
        (["optimizer.config.lrr=1,2"], [], ["mean lr?"]),
        (["optimizer.config.lr=1e-3"], [], ["two values or more"]),
        ([RATES, RATES, "common.seed=1,1"], [], ["given twice", "two values or more"]),
        ([], [], ["--over is missing"]),
        (["regime.num_steps=300,600"], [], ["take --rungs 0"]),
        ([RATES], ["regime.num_steps=150"], ["leaves no rung"]),
        (["trainer.max_wall_minutes=1,2"], [], ["set by the sweep"]),
        ([RATES], ["optimizer.config.lr=1"], ["lr=1 has no effect"]),
    ],
)
def test_all_faults_of_the_values_are_found_before_a_run_starts(
    tmp_path: Path, over: list[str], values: list[str], faults: list[str]
) -> None:
    with pytest.raises(ConfigError) as found:
        open_sweep(tmp_path / "out", DEMO, values, over)
    assert len(found.value.faults) == len(faults)
    assert all(text in fault for text, fault in zip(faults, found.value.faults, strict=True))
    assert not (tmp_path / "out").exists()


def test_a_run_is_named_by_its_values_and_the_rungs_are_at_validations(tmp_path: Path) -> None:
    transforms = "dataset.speed_factors=[],[0.9, 1.1]"
    sweep = open_sweep(tmp_path / "out", DEMO, ["trainer.max_wall_minutes=9"], [RATES, transforms])
    assert [*sweep.runs] == [
        *("lr_0.001__speed_factors_", "lr_0.001__speed_factors_0.9-1.1"),
        *("lr_0.002__speed_factors_", "lr_0.002__speed_factors_0.9-1.1"),
    ]
    assert sweep.rungs == [300, 450]
    assert sweep.minutes == 9


def test_a_sweep_takes_more_values_and_refuses_to_become_another(tmp_path: Path) -> None:
    names = [*open_sweep(tmp_path, DEMO, [], [RATES]).runs]
    more = open_sweep(tmp_path, [], [], [f"{RATES},4e-3"], rungs=0)
    assert [*more.runs] == [*names, "lr_0.004"]
    assert open_sweep(tmp_path, DEMO, [], []) == more
    for values, over in (
        [["common.seed=3"], []],
        [[], ["common.seed=1,2"]],
        [[], ["optimizer.config.lr=8e-3"]],
    ):
        key = (values + over)[0].partition("=")[0]
        with pytest.raises(RunError, match=rf"(?s)another sweep.*{key}.*has to repeat"):
            open_sweep(tmp_path, DEMO, values, over)


def _at_first_rung(run: Path, wer: float, loss: float) -> None:
    (run / "checkpoints" / "step_300" / "trainer").mkdir(parents=True)
    (run / "metrics").mkdir()
    row = {"Step": 300, "Word Error Rate (WER)": wer, LOSS: loss}
    (run / "metrics" / "valid.jsonl").write_text(json.dumps(row) + "\n")


def test_an_element_of_an_array_is_compared_with_those_that_have_been_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = open_sweep(tmp_path, DEMO, [], [f"{RATES},4e-3"])
    for name, loss in {"lr_0.001": 1.5, "lr_0.004": 2.5}.items():
        _at_first_rung(tmp_path / name, 100.0, loss)
    Runner(sweep).run_one("lr_0.004")  # of equal error rates, the loss decides
    assert "the best 1 of 2 runs" in (tmp_path / "lr_0.004" / PRUNED).read_text()
    assert "lr_0.004" in capsys.readouterr().out
