"""The lock of a run's directory: one run writes there at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from danish_asr.base.errors import RunError
from danish_asr.base.files import take

_ADVICE: Final = (
    "Wait for its end, or stop it there with kill and wait until it has saved; the same command "
    "then continues the run. Or name another OUTDIR."
)


@contextmanager
def locked(directory: Path, rank: int = 0) -> Iterator[None]:
    """Be the only run that writes in ``directory``, which is created, or raise RunError.

    The first rank takes the lock (`base.files.take`). The others `wait_for_first_rank` before they
    read what it prepares there.
    """
    if rank == 0:
        lease = take(directory, error=RunError, advice=_ADVICE, work="run")
    try:
        yield
    finally:
        if rank == 0:
            lease.release()
