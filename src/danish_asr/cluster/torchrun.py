"""``torchrun`` that leaves it to a process that failed to say why.

torch's own ends every failure with a traceback of itself and a banner, and the reason stands far
above them.
"""

from __future__ import annotations

import sys

from torch.distributed import run
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError


def main() -> None:
    """Run it; exits with 1 if one of the processes failed, and as shells do after a signal."""
    try:
        run.main(sys.argv[1:])
    except ChildFailedError:
        sys.exit(1)
    except SignalException as end:
        sys.exit(128 + end.sigval)


if __name__ == "__main__":
    main()
