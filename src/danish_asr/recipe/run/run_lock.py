"""One run writes in an output directory at a time, on whichever host it runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from danish_asr.base.cluster import wait_for_first_rank
from danish_asr.base.errors import RunError
from danish_asr.base.lease import take

_ADVICE: Final = (
    "Wait for its end, or stop it there with kill and wait until it has saved; the same command "
    "then continues the run. Or name another OUTDIR."
)


@contextmanager
def locked(directory: Path, rank: int = 0) -> Iterator[None]:
    """Be the only run that writes in ``directory``; create it if it does not exist.

    The first rank takes the lock (`base.lease.take`); the other ranks continue when it has it.

    Raises:
        RunError: Another process is writing in the directory; nothing is changed.
    """
    if rank == 0:
        lease = take(directory, error=RunError, advice=_ADVICE, work="run")
    try:
        wait_for_first_rank(rank)
        yield
    finally:
        if rank == 0:
            lease.release()
