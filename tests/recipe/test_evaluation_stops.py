"""How an evaluation stops before every row is scored; the same command begins it anew."""

import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from danish_asr.base.errors import EXIT_STOPPED
from danish_asr.recipe.run.advice import LOSS
from danish_asr.recipe.run.run_directory import PREDICTIONS
from tests.recipe.running import after_each_batch, evaluate, metrics

FILE = Path("eval", "best", "dev,test", PREDICTIONS)
FEW_ROWS = (
    *("evaluator.split='dev,test'", "dataset.asr_task_config.max_audio_len=16000"),
    "dataset.asr_task_config.max_num_elements=32000",
)


def scores(run: Path) -> list[Any]:
    """The loss and the error rates of each evaluation."""
    titles = (LOSS, "Word Error Rate (WER)", "Character Error Rate (CER)")
    return [tuple(row[title] for title in titles) for row in metrics(run / FILE.parent, "eval")]


@pytest.fixture
def run(tmp_path: Path, finished_run: Path) -> Path:
    shutil.copytree(finished_run, tmp_path / "run")
    return tmp_path / "run"


def test_a_stopped_evaluation_ends_with_the_predictions_and_scores_of_an_undisturbed_one(
    run: Path, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TRAPS, validation: upstream ends with 0 at SIGUSR1, without predictions."""
    undisturbed = shutil.copytree(run, tmp_path / "undisturbed")
    assert evaluate(undisturbed, dataset, *FEW_ROWS) == 0

    def stop(count: int) -> None:
        if count == 5:
            signal.raise_signal(signal.SIGUSR1)

    with monkeypatch.context() as patch:
        after_each_batch(patch, stop)
        assert evaluate(run, dataset, *FEW_ROWS) == EXIT_STOPPED
    assert not (run / FILE).exists()
    again: list[int] = []
    after_each_batch(monkeypatch, again.append)
    assert evaluate(run, dataset, *FEW_ROWS) == 0
    assert (run / FILE).read_bytes() == (undisturbed / FILE).read_bytes()
    assert scores(run) == scores(undisturbed)
    assert len(again) == 12


def test_a_time_limit_stops_an_evaluation(run: Path, dataset: Path) -> None:
    assert evaluate(run, dataset, *FEW_ROWS, "trainer.max_wall_minutes=1e-6") == EXIT_STOPPED
    assert not (run / FILE).exists()
