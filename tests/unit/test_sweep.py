"""Sweeps: what is refused, and the names of the runs."""

import json
from pathlib import Path

import pytest

from danish_asr.base.errors import ConfigError, RunError
from danish_asr.base.files import take, to_yaml
from danish_asr.planning.sweep import BASE, Sweep, open_sweep, run_sweep
from danish_asr.recipe.entry import Request
from danish_asr.recipe.run.run_directory import SWEEP

ROOT = Path(__file__).parents[2]
DEMO = [ROOT / "configs" / "demo.yaml"]
RATES = "optimizer.config.lr=1e-3,2e-3"


def open_(out: Path, files: list[Path], values: list[str], over: list[str]) -> Sweep:
    return open_sweep(Request(output_dir=out, config_files=files, overrides=values), over)


@pytest.mark.parametrize(
    ("over", "keys"),
    [
        (["optimizer.config.lrr=1,2"], ["optimizer.config.lrr"]),
        ([RATES, RATES, "common.seed="], ["optimizer.config.lr", "common.seed="]),
        ([], ["--over"]),
        (["optimizer.config.lr=1e-3,abc,-1"], ["'abc'", "-1"]),
        (["dataset.speed_factors=[0.9"], ["bracket"]),
    ],
)
def test_all_faults_of_the_values_are_found_before_a_run_starts(
    tmp_path: Path, over: list[str], keys: list[str]
) -> None:
    with pytest.raises(ConfigError) as refused:
        run_sweep(Request(output_dir=tmp_path / "out", config_files=DEMO), over)
    assert all(key in fault for key, fault in zip(keys, refused.value.faults, strict=True))
    assert not (tmp_path / "out").exists()


def test_a_run_is_named_by_its_values(tmp_path: Path) -> None:
    speeds = "dataset.speed_factors=[],[0.9, 1.1]"
    values = ["trainer.max_wall_minutes=9", "dataset.transforms=[]"]
    sweep = open_(tmp_path / "out", DEMO, values, [RATES, speeds])
    assert [*sweep.runs] == [
        *("lr_0.001__speed_factors_", "lr_0.001__speed_factors_0.9-1.1"),
        *("lr_0.002__speed_factors_", "lr_0.002__speed_factors_0.9-1.1"),
    ]
    assert sweep.runs["lr_0.001__speed_factors_"] == [
        "optimizer.config.lr=0.001",
        "dataset.speed_factors=[]",
    ]
    assert sweep.minutes == 9


def test_a_sweep_continues_with_another_time_limit_and_refuses_to_become_another(
    tmp_path: Path,
) -> None:
    sweep = open_(tmp_path, DEMO, ["trainer.max_wall_minutes=9"], [RATES])
    (tmp_path / BASE).write_text(to_yaml(sweep.base))
    (tmp_path / SWEEP).write_text(json.dumps(sweep.grid))
    assert open_(tmp_path, [], ["trainer.max_wall_minutes=8"], []) == sweep._replace(minutes=8)
    for values, over in (
        [["common.seed=3"], []],
        [[], ["common.seed=1,2"]],
        [[], ["optimizer.config.lr=8e-3,9e-3"]],
    ):
        key = (values + over)[0].partition("=")[0]
        with pytest.raises(RunError, match=key):
            open_(tmp_path, DEMO, values, over)
    with pytest.raises(ConfigError, match="1 to 2"):
        run_sweep(Request(output_dir=tmp_path), [], only=3)


def test_a_second_sweep_beside_a_running_one_leaves_its_record(tmp_path: Path) -> None:
    """It has other values, and there is no record yet that would refuse them."""
    lease = take(tmp_path, error=RunError, advice="", work="sweep")
    with pytest.raises(RunError, match=str(tmp_path)):
        run_sweep(Request(output_dir=tmp_path, config_files=DEMO), [RATES])
    lease.release()
    assert not (tmp_path / SWEEP).exists()
