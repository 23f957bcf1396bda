"""``torchrun`` whose exit status is that of the process that failed first.

::

    python -m danish_asr.base.cluster --standalone --nproc-per-node 2 -m danish_asr.recipe OUT ...

Takes the options of ``torchrun``, which itself ends with 1 whatever the processes ended with, so
that nobody sees whether a run was refused (2) or has stopped and can be continued (75).
"""

import os
import sys
from collections.abc import Sequence

from torch.distributed import run
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

from danish_asr.base.cluster.cpus import usable_cpus
from danish_asr.base.errors import EXIT_FAILED


def main(arguments: Sequence[str]) -> int:
    """Start the processes and wait; return the exit status.

    0 if all succeeded, 1 if a signal killed a process, 128 + N if signal N ended this launcher.
    """
    options = run.get_args_parser().parse_args(arguments)
    processes = run.determine_local_world_size(options.nproc_per_node)
    # torchrun would give each process one thread.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, usable_cpus() // processes)))
    try:
        run.main(list(arguments))
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        return failure.exitcode if failure.exitcode > 0 else EXIT_FAILED
    except SignalException as error:
        return 128 + error.sigval
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
