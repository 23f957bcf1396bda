"""The command line of both recipes, and the signals that stop training."""

import signal
import sys
from argparse import OPTIONAL, ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

from fairseq2.logging import log
from fairseq2.utils.argparse import ConfigAction
from fairseq2.utils.rich import set_error_console
from rich.console import Console

from danish_asr.cluster import rank_info
from danish_asr.data.settings import NO_EFFECT
from danish_asr.recipe.config import AsrConfig
from danish_asr.recipe.loading import Tree, flatten, merge, read_yaml, unstructure

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


def parse(arguments: Sequence[str] | None, module: str, description: str) -> Namespace:
    """Parse the arguments; None: those of the process."""
    prog = f"python -m workflows.recipes.wav2vec2.{module}"
    parser = ArgumentParser(prog=prog, description=description, allow_abbrev=False)
    text = "directory of the run; an unfinished run in it is continued"
    parser.add_argument("output_dir", type=Path, nargs=OPTIONAL, metavar="OUTDIR", help=text)
    text = "YAML file with what differs from the defaults; may be repeated, the last one wins"
    option: Any = {"dest": "config_files", "type": Path, "action": "append", "default": []}
    parser.add_argument("--config-file", metavar="FILE", help=text, **option)
    text = "values over the file's, e.g. --config regime.num_steps=100 optimizer.config.lr=1e-5"
    parser.add_argument("--config", dest="overrides", action=ConfigAction, help=text)
    text = "print the whole configuration and stop"
    parser.add_argument("--dump-config", action="store_true", help=text)
    args = parser.parse_args(arguments)
    if args.output_dir is None and not args.dump_config:
        parser.error("OUTDIR is missing")
    if not sys.stderr.isatty():
        # In a job's log rich would break every line at 80 columns.
        set_error_console(Console(stderr=True, highlight=False, width=160))
    return args


def where(args: Namespace) -> str:
    """Return what the configuration came from, for messages."""
    return " with ".join(map(str, args.config_files)) or "the configuration"


def read_configuration(args: Namespace) -> Tree:
    """Merge the files and overrides; name, once, the keys that have no effect here."""
    tree = merge(*map(read_yaml, args.config_files), *(args.overrides or []))
    section = tree.get("dataset")
    given = [key for key, _ in flatten(section)] if isinstance(section, Mapping) else []
    ineffective = [f"dataset.{key}" for key in given if key.startswith(NO_EFFECT)]
    # A run's own config.yaml has every key.
    complete = {key for key, _ in flatten(unstructure(AsrConfig())["dataset"])} <= set(given)
    cluster = str(dict(flatten(tree)).get("common.cluster", "auto"))
    if ineffective and not complete and rank_info(cluster).rank == 0:
        note(f"no effect here: {', '.join(ineffective)}")
    return tree


def note(text: str) -> None:
    """Print a note; fairseq2 configures its log only when the recipe runs."""
    print(f"note: {text}", file=sys.stderr)  # noqa: T201


@contextmanager
def on_stop_signals(request_stop: Callable[[], None]) -> Iterator[None]:
    """Request a stop at the first signal; a second Ctrl-C interrupts at once."""

    def handle(number: int, _frame: FrameType | None) -> None:
        log.info("{} received; saving after this step.", signal.Signals(number).name)
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        request_stop()

    previous: dict[int, Any] = {number: signal.signal(number, handle) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
