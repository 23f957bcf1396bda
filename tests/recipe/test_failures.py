"""Failures while a run is running: a message with a hint, and status 1."""

import errno

import pytest
from fairseq2.error import OperationalError

from danish_asr.base.errors import RunFailedError
from danish_asr.recipe.train.ending import explained


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
    with pytest.raises(RunFailedError, match="disk or quota is full"), explained():
        raise error from cause


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(errno.EACCES, "Permission denied", "lm/3gram.arpa"),
        EOFError("Ran out of input"),
        RuntimeError("PytorchStreamReader failed reading zip archive: no central directory"),
    ],
)
def test_an_error_of_any_other_file_gives_no_advice(error: Exception) -> None:
    """A damaged download is not the newest checkpoint, nor a missing model a removed OUTDIR."""
    with pytest.raises(type(error)) as caught, explained():
        raise error
    assert caught.value is error


def test_a_second_ctrl_c_while_a_checkpoint_is_written_is_no_full_disk() -> None:
    error = RuntimeError("[enforce fail] . unexpected pos 162880 vs 162772")
    error.__context__ = KeyboardInterrupt()  # which came within torch's writer
    with pytest.raises(KeyboardInterrupt), explained():
        raise error
