"""A probe measures a run and leaves nothing but its report."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from danish_asr.planning.probes import _largest
from danish_asr.recipe.config.config import AsrConfig
from danish_asr.recipe.train.probe import probed
from tests.recipe.running import train


def files(run: Path) -> dict[Path, float]:
    return {path: path.stat().st_mtime for path in run.rglob("*") if path.is_file()}


def test_a_probe_in_the_directory_of_a_run_leaves_only_its_report(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    run = Path(shutil.copytree(finished_run, tmp_path / "run"))
    before = files(run)
    own = ("trainer.probe_steps=4", "regime.num_steps=3", "regime.early_stopping_patience=2")
    assert train(run, dataset, *own, "trainer.ema=0.9") == 0
    after = files(run)
    report = json.loads((run / "probe.json").read_text())
    assert {path: after[path] for path in before} == before
    assert after.keys() - before.keys() == {run / "probe.json"}
    assert (report["steps"], report["num_steps"], report["fits"]) == (4, 3, True)
    assert report["hours"] == pytest.approx(3 * report["seconds_per_step"] / 3600)
    assert report["epochs"] == 3 / report["steps_per_epoch"]
    assert 0.1 * 2**30 < report["peak_bytes"] < 8 * 2**30
    assert "3 steps take" in "".join(report["lines"])


def test_all_that_will_ever_learn_learns_in_a_probe() -> None:
    config = AsrConfig()
    config.trainer.probe_steps = 10
    config.trainer.unfreeze = {0: "head", 1000: "top 2"}
    assert probed(config).trainer.unfreeze == {0: "top 2"}
    config.trainer.unfreeze, config.trainer.freeze_encoder_for_n_steps = {}, 500
    trainer = probed(config).trainer
    assert (trainer.unfreeze, trainer.freeze_encoder_for_n_steps) == ({0: "all"}, 0)


@pytest.mark.parametrize(("room", "start"), [(100, 30), (100, 500), (31, 30), (1000, 30)])
def test_the_search_ends_just_below_what_does_not_fit(room: int, start: int) -> None:
    unit, tried = 16_000, []

    def probe(size: int) -> dict[str, Any]:
        tried.append(size)
        return {"fits": size <= room * unit, "largest_batch": min(size, 600 * unit)}

    found = _largest(probe, start * unit, 20 * unit)
    assert len(tried) == len(set(tried)) < 12
    if room == 1000:  # a batch holds the whole dataset before
        assert found >= 600 * unit
    else:
        assert 0.94 * room <= found / unit <= room
