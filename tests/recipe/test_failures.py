"""Failures while a run is running: a message with a hint, and status 1."""

import errno
import shutil
from pathlib import Path

import pytest
from fairseq2.error import OperationalError
from torch.cuda import OutOfMemoryError

from danish_asr.base.errors import RunFailedError
from danish_asr.planning.memory import REMEDIES
from danish_asr.recipe.run.run_directory import FAILED
from danish_asr.recipe.train.ending import explained
from tests.recipe.running import evaluate, train


def fail(error: Exception, cause: Exception | None = None) -> str:
    """The message for an error in a run."""
    with pytest.raises(RunFailedError) as caught, explained():
        raise error from cause
    return str(caught.value)


def test_out_of_memory_names_the_keys_that_help_in_the_plans_order() -> None:
    message = fail(OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB."))
    assert "Tried to allocate 2.50 GiB" in message
    positions = [message.index(key) for key in dict.fromkeys(remedy.key for remedy in REMEDIES)]
    assert positions == sorted(positions)
    assert "dataset.valid_max_num_elements" in message


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), None),
        (OperationalError("A system error occurred."), OSError(errno.EDQUOT, "quota")),
        (RuntimeError("PytorchStreamWriter failed writing file data.pkl"), None),
        # fairseq2 takes a checkpoint that torch could not write for one that cannot be pickled.
        (OperationalError("not a pickleable object"), RuntimeError("unexpected pos 3 vs 2")),
    ],
)
def test_a_full_disk_is_named(error: Exception, cause: Exception | None) -> None:
    """TRAPS, training: a full quota ends the job without a message."""
    assert "disk or quota is full" in fail(error, cause)


def test_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(RuntimeError, match="a bug"), explained():
        raise RuntimeError("a bug")


def test_a_second_ctrl_c_while_a_checkpoint_is_written_is_no_full_disk() -> None:
    error = RuntimeError("[enforce fail] . unexpected pos 162880 vs 162772")
    error.__context__ = KeyboardInterrupt()  # which came within torch's writer
    with pytest.raises(KeyboardInterrupt), explained():
        raise error


def test_a_broken_checkpoint_is_reported_with_a_hint(
    tmp_path: Path, dataset: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished_run, run)
    (weights,) = (run / "checkpoints" / "step_4" / "model").rglob("*.pt")
    weights.write_bytes(weights.read_bytes()[:1000])
    assert evaluate(run, dataset, "evaluator.checkpoint=step_4") == 1
    assert "delete it, and the same command" in capsys.readouterr().err
    (file,) = (run / "checkpoints" / "step_4" / "optimizer").rglob("*.pt")
    file.write_bytes(b"")
    assert train(run, dataset, "regime.num_steps=6") == 1
    error = capsys.readouterr().err
    assert "Traceback" not in error
    assert "delete it, and the same command continues from the one before" in error
    assert error.endswith((run / FAILED).read_text(encoding="utf-8"))
    shutil.rmtree(run / "checkpoints" / "step_4")
    assert train(run, dataset, "regime.num_steps=6") == 0
    assert not (run / FAILED).exists()
