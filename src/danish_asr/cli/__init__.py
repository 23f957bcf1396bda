"""The ``danish-asr`` command.

Comes in: a command line. Goes out: a call of one function of another room, and an exit status.
Each file has the commands of one subject. Read first: ``app.py``, what all commands share.
Packages are imported inside the commands, so that help takes half a second.
"""

import errno
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final

from danish_asr.base.stops import exit_at_stops

if sys.argv[1:2] in (["train"], ["evaluate"], ["sweep"]):
    exit_at_stops()  # before the imports, which take seconds

import typer

from danish_asr.base.errors import EXIT_FAILED, DanishAsrError
from danish_asr.base.stops import discard_output
from danish_asr.cli.app import app

for _name in ("datasets", "runs", "scores", "models"):
    import_module(f"danish_asr.cli.{_name}")  # registers its commands, in the order of the help

INTERRUPTED: Final = 128 + signal.SIGINT  # the exit status after Ctrl-C, as in shells


def main(command: Callable[[], object] = app) -> None:
    """Run a command; a `DanishAsrError` ends it with a message and status 1, Ctrl-C with 130.

    So does a file that may not be read or written, and a full device.
    """
    try:
        _refuse_empty(sys.argv[1:])
        command()
    except DanishAsrError as error:
        typer.echo(f"danish-asr: {error}", err=True)
        sys.exit(EXIT_FAILED)
    except OSError as error:
        if error.errno not in {errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT}:
            raise
        if error.filename is None:  # a write to the standard output
            discard_output()
        typer.echo(f"danish-asr: {error.filename or 'the output'}: {error.strerror}", err=True)
        sys.exit(EXIT_FAILED)
    except (KeyboardInterrupt, SystemExit) as stop:
        # typer turns Ctrl-C into a SystemExit without a message.
        if isinstance(stop, SystemExit) and stop.code != INTERRUPTED:
            raise
        typer.echo("danish-asr: interrupted; any finished files are kept", err=True)
        sys.exit(INTERRUPTED)


def _refuse_empty(words: Sequence[str]) -> None:
    """Refuse an empty word, such as that of an empty variable of the shell.

    As a path it would be the current folder. Raises DanishAsrError.
    """
    if any(not word or (word.startswith("--") and word.endswith("=")) for word in words):
        line = shlex.join(["danish-asr", *words])
        raise DanishAsrError(f"{line}: an argument is empty; give it a value, or leave it out")
