"""The command line of both recipes."""

import sys
from argparse import OPTIONAL, ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from fairseq2.utils.argparse import ConfigAction
from typing_extensions import override

from danish_asr.cluster import rank_info, stop_with_launcher
from danish_asr.data.settings import NO_EFFECT
from danish_asr.recipe.config import AsrConfig
from danish_asr.recipe.console import hide_progress_bar
from danish_asr.recipe.loading import Tree, flatten, merge, read_yaml, unstructure


class _OneByOne(ConfigAction):  # type: ignore[misc] # final, but it only parses
    """Applies each override after the one before it; fairseq2 sets whole sections last."""

    @override
    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: Any, *option: Any
    ) -> None:
        for value in values:
            super().__call__(parser, namespace, [value], *option)


class _Parser(ArgumentParser):
    @override
    def error(self, message: str) -> NoReturn:
        if "key-value pair" in message:
            message += "; quote a value that has spaces: 'optimizer={name: adafactor}'"
        super().error(message)


def parse(
    arguments: Sequence[str] | None, module: str, description: str, *, continues: bool = False
) -> Namespace:
    """Parse the arguments; None: those of the process. It then ends with its launcher.

    ``continues``: with the option ``--trust``.
    """
    prog = f"python -m workflows.recipes.wav2vec2.{module}"
    parser = _Parser(prog=prog, description=description, allow_abbrev=False)
    text = "directory of the run; an unfinished run in it is continued"
    parser.add_argument("output_dir", type=Path, nargs=OPTIONAL, metavar="OUTDIR", help=text)
    text = "YAML file with what differs from the defaults; may be repeated, the last one wins"
    option: Any = {"dest": "config_files", "type": Path, "action": "append", "default": []}
    parser.add_argument("--config-file", metavar="FILE", help=text, **option)
    text = "values over the file's, e.g. --config regime.num_steps=100 optimizer.config.lr=1e-5"
    parser.add_argument("--config", dest="overrides", action=_OneByOne, help=text)
    text = "print the whole configuration, check it, and stop"
    parser.add_argument("--dump-config", action="store_true", help=text)
    if continues:
        text = "continue a run that another user saved: what is unpickled can run any code"
        parser.add_argument("--trust", action="store_true", help=text)
    args = parser.parse_args(arguments)
    if args.output_dir is None and not args.dump_config:
        parser.error("OUTDIR is missing")
    stop_with_launcher()
    hide_progress_bar()
    return args


def where(args: Namespace) -> str:
    """Return what the configuration came from, for messages."""
    sources = [*map(str, args.config_files), *["--config"] * bool(args.overrides)]
    return " with ".join(sources) or "the configuration"


def read_configuration(args: Namespace) -> Tree:
    """Merge the files and overrides; name, once, the keys whose values have no effect here."""
    tree = merge(*map(read_yaml, args.config_files), *(args.overrides or []))
    section = tree.get("dataset")
    values = flatten(section) if isinstance(section, Mapping) else ()
    given = {key: value for key, value in values if key.startswith(NO_EFFECT)}
    usual = dict(flatten(unstructure(AsrConfig())["dataset"]))
    ineffective = [f"dataset.{key}" for key, value in given.items() if value != usual.get(key)]
    # A run's own config.yaml has every key.
    complete = {key for key in usual if key.startswith(NO_EFFECT)} <= given.keys()
    cluster = str(dict(flatten(tree)).get("common.cluster", "auto"))
    if ineffective and not complete and rank_info(cluster).rank == 0:
        note(f"no effect here: {', '.join(ineffective)}")
    return tree


def note(text: str) -> None:
    """Print a note; fairseq2 configures its log only when the recipe runs."""
    print(f"note: {text}", file=sys.stderr)  # noqa: T201
