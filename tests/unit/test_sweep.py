"""Sweeps: what is refused, and the names of the runs."""

from pathlib import Path

import pytest

from danish_asr.base.errors import ConfigError
from danish_asr.planning.sweep import combinations, run_sweep
from danish_asr.recipe.entry import Request

ROOT = Path(__file__).parents[2]
DEMO = [ROOT / "configs" / "demo.yaml"]
RATES = "optimizer.config.lr=1e-3,2e-3"


@pytest.mark.parametrize(
    ("over", "key"),
    [
        ("optimizer.config.lrr=1,2", "optimizer.config.lrr"),
        ("common.seed=", "common.seed="),
        ("optimizer.config.lr=1e-3,abc", "abc"),
        ("dataset.speed_factors=[0.9", "bracket"),
    ],
)
def test_a_fault_of_the_values_is_found_before_a_run_starts(
    tmp_path: Path, over: str, key: str
) -> None:
    request = Request(output_dir=tmp_path / "out", config_files=DEMO)
    with pytest.raises(ConfigError, match=key.replace("[", r"\[")):
        run_sweep(request, [over])
    with pytest.raises(ConfigError, match="1 to 2"):
        run_sweep(request, [RATES], only=3)
    assert not (tmp_path / "out").exists()


def test_a_run_is_named_by_its_values() -> None:
    speeds = "dataset.speed_factors=[],[0.9, 1.1]"
    runs = combinations([RATES, speeds, "dataset.train_where=age > 5,age < 5"])
    assert [*runs][:3] == [
        "lr_0.001__speed_factors___train_where_age-5",
        "lr_0.001__speed_factors___train_where_age-5-2",
        "lr_0.001__speed_factors_0.9-1.1__train_where_age-5",
    ]
    assert len(runs) == 8
