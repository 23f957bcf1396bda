"""How a run stops before it is complete, and how the same command continues it."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from danish_asr.errors import EXIT_STOPPED
from danish_asr.recipe.run_directory import checkpoint_scores, checkpoint_steps
from tests.recipe.running import RECIPE, arguments, finish, metrics, start, train, wait_for

SLOW_STEPS = ("regime.num_steps=400", "regime.validate_every_n_steps=400")

SLOW_VALIDATION = (
    # Every row of the dataset, one or two in a batch.
    "dataset.valid_split='train,dev,test'",
    "dataset.asr_task_config.max_audio_len=16000",
    "dataset.asr_task_config.max_num_elements=16000",
)


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT])
def test_a_stop_signal_saves_and_exits_with_its_own_status(
    tmp_path: Path, dataset: Path, number: signal.Signals
) -> None:
    """TRAPS, training: upstream ignores SIGUSR1 when num_steps is set."""
    run = tmp_path / "run"
    process = start(
        RECIPE, arguments(run, dataset, *SLOW_STEPS, "regime.checkpoint_every_n_steps=400")
    )
    wait_for((run / "metrics" / "train.jsonl").is_file, process)
    process.send_signal(number)
    finish(process, EXIT_STOPPED)
    (step,) = checkpoint_steps(run)
    assert metrics(run, "train")[-1]["Step"] <= step < 400
    assert not (run / "metrics" / "valid.jsonl").exists()


def test_a_validation_that_was_killed_runs_when_the_run_continues(
    tmp_path: Path, dataset: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """TRAPS, training: upstream goes on without it, and its checkpoint has no score."""
    run = tmp_path / "run"
    shutil.copytree(finished_run, run)
    file = run / "metrics" / "valid.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:1]))
    (run / "checkpoints" / "scores" / "step_4.txt").unlink()
    # A time limit that is too short for it would stop each continuation without progress.
    assert train(run, dataset, "trainer.max_wall_minutes=1e-6") == 1
    assert "takes longer than trainer.max_wall_minutes" in capsys.readouterr().err
    assert train(run, dataset) == 0
    assert checkpoint_scores(run) == checkpoint_scores(finished_run)
    wer = "Word Error Rate (WER)"
    expected = [(row["Step"], row[wer]) for row in metrics(finished_run, "valid")]
    assert [(row["Step"], row[wer]) for row in metrics(run, "valid")] == expected


def test_a_stop_interrupts_validation_and_the_same_command_begins_with_it(
    tmp_path: Path, dataset: Path
) -> None:
    """TRAPS, training: upstream validates before it leaves, and outlasts what time is left."""
    run = tmp_path / "run"
    process = start(RECIPE, arguments(run, dataset, *SLOW_VALIDATION))
    assert process.stdout is not None
    for line in process.stdout:
        if "Starting validation after step 2" in line:
            process.send_signal(signal.SIGTERM)
            break
    finish(process, EXIT_STOPPED)
    assert checkpoint_steps(run) == [2]
    assert metrics(run, "valid") == []
    assert train(run, dataset, *SLOW_VALIDATION) == 0
    assert [row["Step"] for row in metrics(run, "train")] == [1, 2, 3, 4]
    assert [row["Step"] for row in metrics(run, "valid")] == [2, 4]
    assert metrics(run, "valid")[0]["Number of Examples"] == 76


def test_a_time_limit_saves_a_run_that_continues_also_where_only_models_are_saved(
    tmp_path: Path, dataset: Path
) -> None:
    run = tmp_path / "run"
    only = ["regime.save_model_only=true", "regime.num_steps=3", "regime.validate_every_n_steps=1"]
    only.append("regime.checkpoint_every_n_steps=1")
    assert train(run, dataset, *only, "trainer.max_wall_minutes=1e-6") == EXIT_STOPPED
    assert checkpoint_steps(run) == [1]
    assert [row["Step"] for row in metrics(run, "train")] == [1]
    assert train(run, dataset, *only) == 0
    assert [row["Step"] for row in metrics(run, "train")] == [1, 2, 3]
