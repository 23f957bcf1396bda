"""Everything that reaches behind fairseq2's public names, in one file.

Each entry gives the version it was written for, the symptom without it, and what to try when the
version moves. What says 0.6 alone holds for 0.8 too. The extension imports this file into every
program that uses fairseq2, so what is slow to import is imported inside the functions.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from hashlib import sha1
from importlib import import_module
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.request import url2pathname

import fairseq2
from fairseq2.assets import LocalAssetDownloadManager
from fairseq2.composition import _register_library
from fairseq2.data_type import DataType
from fairseq2.gang import Gang, Gangs
from fairseq2.models import ModelFamily
from fairseq2.runtime import dependency
from fairseq2.runtime.dependency import DependencyContainer
from fairseq2.typing import Stateful
from fairseq2.utils.device_stat import NOOP_DEVICE_STAT_TRACKER, DeviceStatTracker
from fairseq2.utils.uri import Uri
from torch.nn import Module

if TYPE_CHECKING:
    from fairseq2.checkpoint import CheckpointManager
    from fairseq2.recipe.base import Recipe
    from fairseq2.recipe.trainer import Trainer

T = TypeVar("T")


def supported(function: Callable[..., T], *args: Any, **options: Any) -> T:
    """Call a function of fairseq2 with those ``options`` that its version has.

    Version: 0.6 has ``progress`` where models and tokenizers are loaded; 0.8 has none, requires
    ``gangs``, ``init_rank0_only`` and ``load_rank0_only``, and builds models only where the process
    has a container, which ``init_fairseq2`` or a recipe sets: "`init_fairseq2()` must be called".
    When it moves: once 0.6 is dropped, call the functions themselves, inside a container.
    """
    names = inspect.signature(function).parameters
    accepted = {name: value for name, value in options.items() if name in names}
    former = dependency._resolver  # noqa: SLF001
    dependency._resolver = former or library_container()  # noqa: SLF001
    try:
        return function(*args, **accepted)
    finally:
        dependency._resolver = former  # noqa: SLF001


def new_model(
    family: ModelFamily, config: object, gangs: Gangs, dtype: DataType, *, meta: bool = False
) -> Module:
    """Return a model with new weights; ``meta``: without memory. As :func:`supported`."""
    options = {"meta": meta, "init_rank0_only": False}
    return supported(family.create_new_model, config, gangs, dtype, **options)


def run_recipe(
    recipe: Recipe, config: object, output_dir: Path, write_config: Callable[[], None]
) -> None:
    """Run a recipe of training or evaluation; ``write_config`` writes OUTDIR/config.yaml.

    Version: 0.6 has ``train`` and ``evaluate``, 0.8 has ``run`` for both, and prints a warning for
    each name of 0.6 that is used here; it keeps them until 0.14. Both would write fairseq2's
    sections to config.yaml, and not what the user set.
    When it moves: once 0.6 is dropped, call ``fairseq2.recipe.run.run`` and follow the warnings;
    look for the class that writes config.yaml there.
    """
    from fairseq2.recipe.base import TrainRecipe  # noqa: PLC0415 - slow

    module: Any = import_module("fairseq2.recipe.run")  # in 0.8 the package has a function ``run``
    module.enable_deprecation_warnings = lambda: None
    module._RecipeConfigDumper.dump = lambda _: write_config()  # noqa: SLF001
    former = module.train if isinstance(recipe, TrainRecipe) else module.evaluate
    getattr(module, "run", former)(recipe, config, output_dir)


def register_cpu_tracker(container: DependencyContainer) -> None:
    """Register device statistics for CPUs.

    Version: 0.6 has them for GPUs only, and no recipe runs without; 0.8 has them.
    """
    if fairseq2.__version__ == "0.6":
        container.register_instance(DeviceStatTracker, NOOP_DEVICE_STAT_TRACKER, key="cpu")


def configure_logging() -> None:
    """Let fairseq2's log print to the console, as its recipes begin.

    Version: 0.6 has ``fairseq2.utils.rich.configure_rich_logging``, 0.8 ``fairseq2.logging``'s
    ``configure_logging``, which gives the handler to the root logger.
    """
    for module, name in (
        ("fairseq2.logging", "configure_logging"),
        ("fairseq2.utils.rich", "configure_rich_logging"),
    ):
        if configure := getattr(import_module(module), name, None):
            configure()
            return


def library_container() -> DependencyContainer:
    """Return a container with everything that fairseq2 and its extensions register.

    Version: 0.6. Symptom: the public ``init_fairseq2`` works once per process, but the assets
    depend on the configuration and are looked up before the recipe starts.
    When it moves: see the steps of ``fairseq2.init_fairseq2``.
    """
    container = DependencyContainer()
    _register_library(container)
    return container


def support_any_local_path() -> None:
    """Let fairseq2 open checkpoints and tokenizers below any directory, such as ``/home/søren``.

    Version: 0.6; 0.8 does so in ``Uri.to_path``. Symptom: "cannot be opened: No such file or
    directory" for a path with a space or a letter beyond ASCII: fairseq2 turns a card's path into a
    URI, ``file:///home/s%C3%B8ren``, and uses its text as a path again.
    When it moves: remove this, and run tests/unit/test_local_paths.py.
    """
    if hasattr(Uri, "to_path"):
        Uri.to_path = _to_path
    else:
        LocalAssetDownloadManager._to_path = staticmethod(_to_path)  # type: ignore[method-assign] # noqa: SLF001


def _to_path(uri: Uri) -> Path:
    return Path(url2pathname(uri.path))


def provide_wandb_ids() -> None:
    """Let fairseq2's recorder of W&B run with every version of wandb.

    Version: 0.6 calls ``wandb.util.generate_id`` where a run has no id, 0.8 looks it up for every
    run. Symptom: "module 'wandb.util' has no attribute 'generate_id'" with wandb 0.31.
    """
    import wandb.util  # noqa: PLC0415 - an optional dependency

    if not hasattr(wandb.util, "generate_id"):
        wandb.util.generate_id = lambda length=8: token_hex(length // 2)


def download_folder(url: str, cache: Path) -> Path:
    """Return the directory below fairseq2's cache that holds what was downloaded from ``url``.

    A directory of that name with ``.download`` added is complete too: fairseq2 unpacks it, or takes
    the file out of it, when it is asked for.

    Version: 0.6. Symptom: nothing public tells whether a download is in the cache, and fairseq2's
    own begins at 0 after each interruption.
    When it moves: compare with ``_AssetDownloadOp``, and run tests/recipe/test_fetch.py.
    """
    return cache / sha1(url.encode()).hexdigest()[:24]  # noqa: S324 - fairseq2's choice


def trainer_state(trainer: Trainer) -> Stateful:
    """Return what fairseq2's checkpoints keep of a trainer, to save one between two steps.

    Version: 0.6. Symptom: the public ``request_stop`` has no effect on a run with ``num_steps``,
    and validates before it saves.
    When it moves: see whether ``Trainer`` saves at a stop request without validating; else look
    for what its ``_save_checkpoint`` gives the checkpoint manager. tests/recipe/test_stops.py.
    """
    module = vars(sys.modules[type(trainer).__module__])
    proxy = module.get("_TrainerProxy") or module["_TrainerCheckpointProxy"]  # 0.8, 0.6
    return proxy(trainer)  # type: ignore[no-any-return]


def set_data_epoch(trainer: Trainer, epoch: int, last: int | None) -> None:
    """Set the data epoch that a trainer is in and the last one, both counted from 1.

    Version: 0.6. Symptom: a run that continues within its last data epoch ends at once as complete,
    because ``_maybe_restore_state`` takes the epoch that it is in for one that has ended; one that
    was saved at the end of an epoch counts that epoch twice.
    When it moves: see whether ``Trainer`` compares epochs that have ended, and give it
    ``max_num_data_epochs``. tests/recipe/test_stops.py.
    """
    trainer._data_epoch_nr = epoch  # noqa: SLF001
    trainer._max_num_data_epochs = last  # noqa: SLF001


def delete_together(trainer: Trainer, checkpoints: CheckpointManager, gang: Gang) -> None:
    """Let all processes list the previous checkpoints before the first one deletes from them.

    Version: 0.6. Symptom: with ``regime.save_model_only=all_but_last`` and several processes, a run
    hangs after a checkpoint until ``gang.timeout``. ``_delete_previous_non_model_checkpoints`` has
    a barrier for each checkpoint in the list, and a process that lists late finds fewer.
    When it moves: see whether there is a barrier after the list, as in ``get_stale_step_numbers``.
    tests/recipe/test_parallel.py.
    """

    def delete() -> None:
        steps = checkpoints.get_step_numbers(exclude_model_only=True)
        gang.barrier()
        for step in steps[:-1]:
            checkpoints.delete_checkpoint(step, keep_model=True)

    trainer._delete_previous_non_model_checkpoints = delete  # type: ignore[method-assign] # noqa: SLF001
