"""The command line of upstream's recipes, which the modules in ``workflows`` take."""

import sys
from collections.abc import Sequence
from functools import partial

from danish_asr.cli import main
from danish_asr.cli.app import app


def run_as_upstream(command: str, arguments: Sequence[str] | None = None) -> None:
    """Run ``train`` or ``evaluate`` as upstream's recipe is run; None: as the process was.

    ``--config-file FILE`` is ``--config FILE`` here, and the values after ``--config`` need no
    option.
    """
    words = [command]
    for argument in sys.argv[1:] if arguments is None else arguments:
        if argument.startswith("--config-file"):
            words.append(argument.replace("--config-file", "--config", 1))
        elif argument != "--config":
            words.append(argument.removeprefix("--config="))
    main(partial(app, words, prog_name="danish-asr"))
