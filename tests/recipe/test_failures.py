"""Failures while a run is running: a message with a hint, and status 1."""

import errno
import shutil
from pathlib import Path
from typing import Any

import pytest
from fairseq2.error import OperationalError

from danish_asr.base.errors import EXIT_FAILED, RunFailedError
from danish_asr.recipe.train.console import RunReport
from danish_asr.recipe.train.ending import explained
from tests.recipe.running import train


def fail(error: Exception, cause: Exception | None = None) -> str:
    """The message for an error in a run."""
    with pytest.raises(RunFailedError) as caught, explained():
        raise error from cause
    return str(caught.value)


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


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "No such file", "run/tb"),
        RuntimeError("Parent directory run/tb does not exist."),  # torch.save
    ],
)
def test_a_directory_that_was_removed_is_named(error: Exception) -> None:
    message = fail(OperationalError("A system error occurred."), error)
    assert "run/tb" in message
    assert "was removed" in message


@pytest.mark.parametrize("part", [".", "metrics"])
def test_a_directory_removed_in_mid_run_ends_it_with_a_message(
    tmp_path: Path,
    dataset: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    part: str,
) -> None:
    report = RunReport._report

    def then(self: Any, values: Any, step: int) -> None:
        report(self, values, step)
        if step == 3:
            shutil.rmtree(tmp_path / "run" / part)

    monkeypatch.setattr(RunReport, "_report", then)
    assert train(tmp_path / "run", dataset) == EXIT_FAILED
    printed = capfd.readouterr().err
    assert "was removed" in printed
    assert "Traceback" not in printed


def test_a_second_ctrl_c_while_a_checkpoint_is_written_is_no_full_disk() -> None:
    error = RuntimeError("[enforce fail] . unexpected pos 162880 vs 162772")
    error.__context__ = KeyboardInterrupt()  # which came within torch's writer
    with pytest.raises(KeyboardInterrupt), explained():
        raise error
