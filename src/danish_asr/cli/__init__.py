"""The ``danish-asr`` command.

Comes in: a command line. Goes out: a call of one function of another room, and an exit status.
Each file has the commands of one subject. Read first: ``app.py``, what all commands share.
Packages are imported inside the commands, so that ``danish-asr plan`` starts in an installation
in which others, such as torch or pyarrow, cannot be imported.
"""

import errno
import signal
import sys
from collections.abc import Callable
from typing import Final

from danish_asr.base.stops import exit_at_stops

if sys.argv[1:2] in (["train"], ["evaluate"], ["sweep"]):
    exit_at_stops()  # before the imports, which take seconds

import typer

from danish_asr.base.errors import EXIT_FAILED, DanishAsrError
from danish_asr.base.stops import discard_output
from danish_asr.cli import (  # noqa: F401 # they register their commands
    datasets,
    language_model,
    models,
    planning,
    recipes,
    scores,
)
from danish_asr.cli.app import app

_ORDER: Final = (
    *("demo", "convert", "combine", "verify", "harvest"),
    *("fetch", "plan", "train", "evaluate", "sweep"),
    *("average", "score", "compare", "report", "audit", "transcribe", "serve", "export"),
)
app.registered_commands.sort(
    key=lambda command: _ORDER.index(getattr(command.callback, "__name__", ""))
)

INTERRUPTED: Final = 128 + signal.SIGINT  # the exit status after Ctrl-C, as in shells


def main(command: Callable[[], object] = app) -> None:
    """Run a command; a `DanishAsrError` ends it with a message and status 1, Ctrl-C with 130.

    So does a file that may not be read or written, and a full device.
    """
    try:
        command()
    except DanishAsrError as error:
        typer.echo(f"danish-asr: {error}", err=True)
        sys.exit(EXIT_FAILED)
    except OSError as error:
        if error.errno not in {errno.EACCES, errno.EPERM, errno.ENOSPC}:
            raise
        if error.filename is None:  # a write to the standard output
            discard_output()
        typer.echo(f"danish-asr: {error.filename or 'the output'}: {error.strerror}", err=True)
        sys.exit(EXIT_FAILED)
    except (KeyboardInterrupt, SystemExit) as stop:
        # typer turns Ctrl-C into a SystemExit without a message.
        if isinstance(stop, SystemExit) and stop.code != INTERRUPTED:
            raise
        kept = "" if sys.argv[1:2] == ["plan"] else "; any finished files are kept"
        typer.echo(f"danish-asr: interrupted{kept}", err=True)
        sys.exit(INTERRUPTED)
