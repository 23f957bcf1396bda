"""The runs whose probabilities are averaged with those of the run that is evaluated.

A mean needs the same symbols, the same rows and the same frames in all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from danish_asr.base.cluster import rank_info
from danish_asr.base.config_tree import Tree, merge, value_of
from danish_asr.base.errors import RunError
from danish_asr.decoding.beam import symbols
from danish_asr.recipe import entry as cli
from danish_asr.recipe.config.config import AsrEvalConfig
from danish_asr.recipe.evaluate.selection import Selection, select
from danish_asr.recipe.models.assets import open_tokenizer
from danish_asr.recipe.run.run_directory import CONFIG_FILE, check_named_once
from danish_asr.recipe.train.preflight import resolve


def select_others(request: cli.Request, first: Tree) -> list[Selection]:
    """Decide what is scored of each further run: its own configuration with the same values.

    Its dataset is that of the ``first`` run's configuration, which knows where that is.

    Raises:
        RunError: A directory holds no run, or is named twice.
        ConfigError: A configuration is faulty, or a run lacks the checkpoint.
    """
    check_named_once([request.output_dir or Path(), *request.others])
    selections = []
    for run in request.others:
        file = run / CONFIG_FILE
        if not file.is_file():
            raise RunError(f"--with {run}: no {CONFIG_FILE} there; expected the OUTDIR of a run")
        of_run = replace(request, output_dir=run, config_files=[file], others=())
        tree = _with_dataset_of(first, cli.read_configuration(of_run))
        selection = select(run, _greedy(tree))
        selections.append(resolved(selection, f"--with {run}"))
    return selections


def _with_dataset_of(first: Tree, tree: Tree) -> Tree:
    """Values of a wrong type are left as they are, to be reported with the other faults."""
    name = value_of(first, "dataset.name")
    if not name or name == value_of(tree, "dataset.name"):
        return tree
    folders = [value_of(each, "common.assets.extra_paths") for each in (tree, first)]
    known = [str(path) for paths in folders if isinstance(paths, list) for path in paths]
    assets = {"extra_paths": list(dict.fromkeys(known))}
    return merge(tree, {"dataset": {"name": name}, "common": {"assets": assets}})


def _greedy(tree: Tree) -> Tree:
    """The configuration without what is for the average: a decoder, a label and a part."""
    tree = {key: value for key, value in tree.items() if key != "decoder"}
    return merge(tree, {"evaluator": {"label": None, "where": None, "keep_log_probs": True}})


def resolved(selection: Selection, where: str) -> Selection:
    """Check a selection, and complete its configuration; raises ConfigError."""
    config = resolve(selection.config, where=where, faults=selection.faults)
    return selection._replace(config=cast(AsrEvalConfig, config))


def check_tokenizers(selection: Selection) -> None:
    """Raise RunError if a further run has other symbols, or the same in another order."""
    if selection.others:
        expected = _symbols(selection)
        for other in selection.others:
            if _symbols(other) != expected:
                raise RunError(
                    f"--with {other.run}: its tokenizer has other symbols than that of "
                    f"{selection.run}, so their probabilities cannot be averaged; fine-tune both "
                    "from models with one tokenizer"
                )


def _symbols(selection: Selection) -> list[str | None]:
    config = selection.config
    tokenizer = str(config.tokenizer.path or config.tokenizer.name)
    return symbols(open_tokenizer(tokenizer, config.common.assets.extra_paths))


def check_rows(
    members: Sequence[Selection], contents: Sequence[Mapping[str, str]]
) -> Sequence[Mapping[str, str]]:
    """Return the digests of each run's rows; raises RunError if they differ."""
    for member, content in zip(members, contents, strict=True):
        if content != contents[0]:
            raise RunError(
                f"--with {member.run}: it evaluates other rows than {members[0].run}; name one "
                "dataset and split for all runs: dataset.name=NAME evaluator.split=SPLIT"
            )
    return contents


def check_processes(to_run: Sequence[Selection]) -> None:
    """Raise RunError if several models would have to run in several processes.

    PyTorch's process group cannot be opened twice: its store has the addresses of the first one.
    """
    if len(to_run) > 1 and rank_info().world_size > 1:
        raise RunError(
            "in several processes one command runs one model; first run, for each of "
            f"{', '.join(str(member.run) for member in to_run)}: "
            "danish-asr evaluate RUN evaluator.keep_log_probs=true"
        )
