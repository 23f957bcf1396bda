"""The command line of both recipes: parse, load, look up, check, then hand over to fairseq2."""

from __future__ import annotations

import os
import sys
from argparse import OPTIONAL, ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from fairseq2.logging import log
from fairseq2.recipe.base import EvalRecipe, TrainRecipe
from fairseq2.recipe.cli import _handle_errors, _register_cli_errors, register_cli_error
from fairseq2.recipe.run import evaluate, train
from fairseq2.recipe.task import TaskStopException
from fairseq2.runtime.dependency import DependencyContainer
from fairseq2.utils.argparse import ConfigAction
from fairseq2.utils.rich import set_error_console
from rich.console import Console

from danish_asr.cluster.hosts import ClusterError
from danish_asr.cluster.lsf import standing
from danish_asr.data.dataset import NO_EFFECT
from danish_asr.errors import (
    EXIT_FAILED,
    EXIT_REFUSED,
    EXIT_STOPPED,
    ConfigError,
    DanishAsrError,
    RunFailedError,
)
from danish_asr.recipe.assets import resolve, tokenizer_card
from danish_asr.recipe.checkpoints import fit_to_world
from danish_asr.recipe.config import AsrConfig
from danish_asr.recipe.early_stopping import out_of_patience
from danish_asr.recipe.environment import write_environment
from danish_asr.recipe.failures import in_plain_words
from danish_asr.recipe.finished_model import write_model_card
from danish_asr.recipe.loading import (
    Tree,
    defaults,
    flatten,
    inspect,
    merge,
    read_yaml,
    structure,
    unstructure,
)
from danish_asr.recipe.run_directory import check_continuation, check_output_dir, tidy
from danish_asr.recipe.selection import select
from danish_asr.yaml_text import to_yaml

_WIDTH = 160
"""Columns of a log that is no terminal."""


def train_main(recipe: TrainRecipe, arguments: Sequence[str] | None = None) -> None:
    """Train as the command line says.

    Exits with status 0 when training is complete, 75 when the run stopped early at a signal or its
    time limit and the same command continues it, 2 when the configuration is refused, 1 otherwise.
    """
    args = _parse(arguments, "asr", "Train a CTC model on Danish speech.")
    _show_whole_lines()
    with _errors_as_messages():
        tree = _tree(args)
        _name_ineffective(tree)
        if args.dump_config:
            _dump(structure(AsrConfig, tree, where=_where(args)))
            return
        config, faults = inspect(AsrConfig, tree)
        config = resolve(config, where=_where(args), faults=faults)
        rank, world_size = standing(config.common.cluster)
        if rank == 0:
            check_output_dir(args.output_dir)
            check_continuation(args.output_dir, unstructure(config), defaults(AsrConfig))
            tidy(args.output_dir)
            fit_to_world(args.output_dir, world_size)
            write_environment(args.output_dir)
        try:
            if not out_of_patience(args.output_dir, config.regime):
                with in_plain_words():
                    train(recipe, config, args.output_dir)
        except TaskStopException:
            log.info("The run is saved but not done; the same command continues it.")
            sys.exit(EXIT_STOPPED)
        if rank == 0:
            write_model_card(args.output_dir, tokenizer_card(config))


def eval_main(
    recipe: Callable[[int | None], EvalRecipe], arguments: Sequence[str] | None = None
) -> None:
    """Score a split with a run's checkpoint or a named model; a training configuration will do.

    Args:
        recipe: Makes the recipe, given the training step of the checkpoint that is scored.
        arguments: The command line; None: that of the process.

    Exits with status 0 when every row is scored, 2 when the configuration is refused, 1 otherwise.
    """
    args = _parse(arguments, "asr.eval.recipe", "Score a split and write predictions.jsonl.")
    _show_whole_lines()
    with _errors_as_messages():
        tree = _tree(args)
        selection = select(args.output_dir or Path(), tree)
        _name_ineffective(tree)
        if args.dump_config:
            if selection.faults:
                raise ConfigError(selection.faults, where=_where(args))
            _dump(selection.config)
            return
        config = resolve(selection.config, where=_where(args), faults=selection.faults)
        with in_plain_words():
            evaluate(recipe(selection.step), config, selection.output_dir)


def _show_whole_lines() -> None:
    """Where there is no terminal, as in a job's log, rich would break every line at 80 columns."""
    if not sys.stderr.isatty():
        set_error_console(Console(stderr=True, highlight=False, width=_WIDTH))


def _parse(arguments: Sequence[str] | None, module: str, description: str) -> Namespace:
    parser = ArgumentParser(
        prog=f"python -m workflows.recipes.wav2vec2.{module}",
        description=description,
        allow_abbrev=False,
    )
    parser.add_argument(
        "output_dir",
        type=Path,
        nargs=OPTIONAL,
        metavar="OUTDIR",
        help="directory of the run; an unfinished run in it is continued",
    )
    parser.add_argument(
        "--config-file",
        dest="config_files",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="YAML file that holds what differs; may be repeated, each over the ones before",
    )
    parser.add_argument(
        "--config",
        dest="overrides",
        action=ConfigAction,
        help="values over the file's, e.g. --config regime.num_steps=100 optimizer.config.lr=1e-5",
    )
    parser.add_argument(
        "--dump-config",
        action="store_true",
        help="print the whole configuration as it would be used, and stop",
    )
    args = parser.parse_args(arguments)
    if args.output_dir is None and not args.dump_config:
        parser.error("OUTDIR is missing")
    return args


def _where(args: Namespace) -> str:
    return " with ".join(map(str, args.config_files)) or "the configuration"


def _tree(args: Namespace) -> Tree:
    return merge(*map(read_yaml, args.config_files), *(args.overrides or []))


def _name_ineffective(tree: Tree) -> None:
    """Say once which keys were given that mean nothing here; upstream's files have some."""
    section = tree.get("dataset")
    given = [key for key, _ in flatten(section)] if isinstance(section, Mapping) else []
    idle = [f"dataset.{key}" for key in given if key.startswith(NO_EFFECT)]
    # A run's own config.yaml has every key there is, and means nothing by these.
    whole = {key for key, _ in flatten(defaults(AsrConfig)["dataset"])} <= set(given)
    if idle and not whole and _is_first(tree):
        print(f"note: no effect here: {', '.join(idle)}", file=sys.stderr)  # noqa: T201


def _is_first(tree: Tree) -> bool:
    """Whether this is the first process of its job, asked before the configuration is checked."""
    try:
        return standing(str(dict(flatten(tree)).get("common.cluster", "auto"))).rank == 0
    except ClusterError:  # told where it stands in the way
        return True


def _dump(config: object) -> None:
    sys.stdout.write(to_yaml(unstructure(config)))


def _errors_as_messages() -> AbstractContextManager[None]:
    """Turn errors, fairseq2's and ours, into a message and an exit status."""
    handlers = DependencyContainer()
    _register_cli_errors(handlers)
    for kls in _with_subclasses(DanishAsrError):
        register_cli_error(handlers, kls, _refuse)
    return _handle_errors(handlers, exit_on_error=True)


def _with_subclasses(kls: type[DanishAsrError]) -> Iterator[type[DanishAsrError]]:
    yield kls
    for below in kls.__subclasses__():
        yield from _with_subclasses(below)


def _refuse(ex: DanishAsrError) -> int:
    """Tell an error; returns the exit status."""
    if isinstance(ex, ConfigError) and os.environ.get("LOCAL_RANK", "0") != "0":
        return EXIT_REFUSED  # every process finds the same faults
    # Not through the log, which wraps lines and would break the paths that a mend names.
    print(f"error: {ex}", file=sys.stderr)  # noqa: T201
    return EXIT_FAILED if isinstance(ex, RunFailedError) else EXIT_REFUSED
