"""The start of both recipes, up to the import of torch and fairseq2.

That takes seconds, so files and keys are checked before.
"""

import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final, NoReturn

from danish_asr.base import stops
from danish_asr.base.cluster import check_gpus, rank_info, stop_with_launcher
from danish_asr.base.config_tree import Tree, merge, parse_override, read_yaml, value_of
from danish_asr.base.errors import (
    EXIT_FAILED,
    EXIT_REFUSED,
    ConfigError,
    DanishAsrError,
    DatasetError,
    note,
)
from danish_asr.recipe.config.load import ineffective_keys, load, named_code

TRAIN: Final = "recipe.train.training"
EVALUATE: Final = "recipe.evaluate.recipe"

_ALLOCATOR: Final = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
"""Batches differ in shape, and with segments that grow, less of the GPU's memory is lost to gaps.
What a user sets stays."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a command line asks for."""

    output_dir: Path | None
    run_config: Path | None = None
    """The configuration of the run in ``output_dir``, below the others; it may name no code."""
    config_files: Sequence[Path] = ()
    dataset: Path | None = None
    """The root of a built dataset, over the one that the files name."""
    overrides: Sequence[str] = ()
    dump_config: bool = False

    @property
    def files(self) -> list[Path]:
        """All files of the configuration, the last one wins."""
        own = [] if self.run_config is None else [self.run_config]
        return [*own, *self.config_files]

    @property
    def where(self) -> str:
        """What the configuration comes from, for messages."""
        sources = [*map(str, self.files)]
        if self.dataset or self.overrides or not sources:
            sources.append("the command line")
        return " with ".join(sources)


def run(recipe: str, request: Request) -> Path | None:
    """Check the configuration's keys, then run the module ``recipe`` with it.

    Returns where an evaluation has written its results. Exits with status 75 when it stopped early
    and the same command continues it, 2 when the configuration is refused, 1 when it failed.
    """
    with stops.handlers_kept():
        stops.exit_at_stops()
        stop_with_launcher()
        if not {*_ALLOCATOR} & os.environ.keys():  # read when PyTorch is imported
            os.environ[_ALLOCATOR[0]] = "expandable_segments:True"
        try:
            tree = read_configuration(request, evaluates=recipe == EVALUATE)
            load(_checked_early(recipe, tree), where=request.where)
            if not request.dump_config:
                check_gpus()
        except ConfigError as error:
            refuse(error)
        with _unused_hidden(wandb=value_of(tree, "common.metric_recorders.wandb.enabled") is True):
            module = import_module(f"danish_asr.{recipe}")
            import_module("fairseq2.recipe.composition")
        try:
            results: Path | None = module.run(request, tree)
        except SystemExit as end:
            stops.exit_if_held(end.code if isinstance(end.code, int) else EXIT_FAILED)
            raise
        if results is None:  # else the caller scores them first
            stops.exit_if_held(0)
    return results


@contextmanager
def _unused_hidden(*, wandb: bool) -> Iterator[None]:
    """Hide what fairseq2 imports where it is installed, and no recipe of this package uses.

    Importing both takes about a quarter of a start.
    """
    hidden = {"transformers"} if wandb else {"transformers", "wandb"}
    hidden -= sys.modules.keys()
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type] # Python's mark for absent
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def _checked_early(recipe: str, tree: Tree) -> Tree:
    """What is checked before PyTorch is imported: an evaluation takes the model from elsewhere."""
    if recipe == TRAIN:
        return tree
    return merge({"dataset": {"name": ""}}, {key: tree[key] for key in tree if key != "model"})


def refuse(error: DanishAsrError) -> NoReturn:
    """Print the faults, which every process finds, once; exit with status 2."""
    if os.environ.get("LOCAL_RANK", "0") == "0":
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
    sys.exit(EXIT_REFUSED)


def read_configuration(request: Request, *, evaluates: bool = False) -> Tree:
    """Merge the files and overrides; name, once, the keys whose values have no effect here.

    What ``evaluates`` takes none of the transforms of a training, which may be code.

    Raises:
        ConfigError: As `read_trees`; or the run's own configuration names code.
    """
    files, overrides = read_trees(request)
    tree = merge(*files, *overrides)
    if evaluates:
        tree = merge(tree, {"dataset": {"_del_": ["transforms"]}})
    if request.run_config is not None:
        _check_code(tree, merge(*overrides), request.run_config)
    keys = ineffective_keys(tree)
    if keys and rank_info().rank == 0:
        note(f"no effect here: {', '.join(keys)}")
    return tree


def _check_code(tree: Tree, own: Tree, file: Path) -> None:
    """Refuse code that the user has not named.

    A run's directory may come from somebody else. ``own`` are the values of the command line.
    """
    faults = []
    for key, value in named_code(tree).items():
        if value_of(own, key) != value:
            again = shlex.quote(f"{key}={json.dumps(value, ensure_ascii=False, default=str)}")
            rule = "names code, which a run's own configuration may not; if you trust it, add"
            faults.append(f"{key} {rule} {again}")
    if faults:
        raise ConfigError(faults, where=str(file))


def read_trees(request: Request) -> tuple[list[Tree], list[Tree]]:
    """Return the files, with the dataset over them, and the overrides.

    Raises:
        ConfigError: A file or an override cannot be read, or ``dataset`` is no built dataset.
    """
    files = [read_yaml(file) for file in request.files]
    if request.dataset is not None:
        files.append(_dataset_tree(request.dataset, merge(*files)))
    try:
        overrides = [parse_override(text) for text in request.overrides]
    except ValueError as error:
        raise ConfigError([str(error)], where="the command line") from None
    return files, overrides


def _dataset_tree(root: Path, below: Tree) -> Tree:
    """The values that name a built dataset, over the configuration ``below``."""
    # They import pyarrow, which the help need not wait for.
    from danish_asr.base.schema import CARDS_DIR, VERSION_DIR  # noqa: PLC0415
    from danish_asr.corpus.inventory import read_inventory  # noqa: PLC0415

    root = root.resolve()
    try:
        name = read_inventory(root).name
    except DatasetError as error:
        raise ConfigError([f"--dataset: {error}"], where="the command line") from None
    paths = value_of(below, "common.assets.extra_paths")
    paths = paths if isinstance(paths, list) else []
    # A copy has a card of the same name, and names the place of the original.
    others = [path for path in paths if not Path(str(path), f"{name}.yaml").is_file()]
    return {
        "common": {"assets": {"extra_paths": [*others, str(root / CARDS_DIR)]}},
        "dataset": {"name": name, "config_overrides": {"data": str(root / VERSION_DIR)}},
    }
