"""Failures while a run is running: a message with a hint, and status 1."""

import errno

import pytest
from fairseq2.error import OperationalError

from danish_asr.base.errors import RunFailedError
from danish_asr.recipe.train.ending import explained


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


def test_a_directory_that_was_removed_is_named() -> None:
    error = FileNotFoundError(errno.ENOENT, "No such file", "run/tb")
    message = fail(OperationalError("A system error occurred."), error)
    assert "run/tb" in message
    assert "was removed" in message


def test_a_second_ctrl_c_while_a_checkpoint_is_written_is_no_full_disk() -> None:
    error = RuntimeError("[enforce fail] . unexpected pos 162880 vs 162772")
    error.__context__ = KeyboardInterrupt()  # which came within torch's writer
    with pytest.raises(KeyboardInterrupt), explained():
        raise error
