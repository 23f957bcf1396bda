"""Everything that reaches behind the public names of fairseq2 0.6, in one file.

Each entry gives the symptom without it, and what to try when the version moves. The extension
imports this file into every program that uses fairseq2, so slow imports are inside the functions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha1
from pathlib import Path
from pickle import PickleError
from typing import TYPE_CHECKING, Any
from urllib.request import url2pathname
from zipfile import is_zipfile

from fairseq2.assets import LocalAssetDownloadManager
from fairseq2.composition import _register_library
from fairseq2.gang import Gang, Gangs
from fairseq2.runtime.dependency import DependencyContainer
from fairseq2.utils.uri import Uri
from typing_extensions import override

from danish_asr.base.values_pickle import load_values

if TYPE_CHECKING:
    from fairseq2.checkpoint import CheckpointManager
    from fairseq2.early_stopper import EarlyStopper
    from fairseq2.recipe.trainer import Trainer
    from fairseq2.recipe.validator import Validator


def write_configuration_with(write: Callable[[], None]) -> None:
    """Let ``write`` write OUTDIR/config.yaml in the recipes that run from now on.

    Symptom: fairseq2 writes its own sections there, and not what the user set.
    When it moves: look for the class that writes config.yaml in ``fairseq2.recipe.run``.
    """
    from fairseq2.recipe.run import _RecipeConfigDumper  # noqa: PLC0415 - slow

    def dump(_: object) -> None:
        write()

    setattr(_RecipeConfigDumper, "dump", dump)  # noqa: B010 - as mypy allows no assignment


def library_container() -> DependencyContainer:
    """Return a container with everything that fairseq2 and its extensions register.

    Symptom: ``init_fairseq2`` works once per process, but assets are looked up before the recipe
    starts.
    When it moves: see the steps of ``fairseq2.init_fairseq2``.
    """
    container = DependencyContainer()
    _register_library(container)
    return container


def support_any_local_path() -> None:
    """Let fairseq2 open checkpoints and tokenizers below any directory, such as ``/home/søren``.

    Symptom: "No such file or directory" for a path with a space or a letter beyond ASCII: fairseq2
    makes a URI of it, ``file:///home/s%C3%B8ren``, and uses its text as a path again.
    When it moves: remove this, and run tests/base/test_fairseq2_private.py.
    """

    def to_path(uri: Uri) -> Path:
        return Path(url2pathname(uri.path))

    LocalAssetDownloadManager._to_path = staticmethod(to_path)  # type: ignore[method-assign] # noqa: SLF001


def remove_folder_of_torch() -> None:
    """Delete the temporary folder of PyTorch's remote modules, which are imported, and not used.

    Symptom: a process that ends by a signal leaves it in $TMPDIR.
    When it moves: look at ``torch.distributed.nn.jit.instantiator``.
    """
    from torch.distributed.nn.jit import instantiator  # noqa: PLC0415 - slow

    instantiator._TEMP_DIR.cleanup()  # noqa: SLF001
    with suppress(ValueError):  # done before; others could make a folder of that name
        sys.path.remove(instantiator.INSTANTIATED_TEMPLATE_DIR_PATH)


def download_folder(url: str, cache: Path) -> Path:
    """Return the directory below fairseq2's cache that holds what was downloaded from ``url``.

    A directory of that name with ``.download`` added is complete too: fairseq2 unpacks it, or takes
    the file out of it, when it is asked for.

    Symptom: nothing public tells whether a download is in the cache.
    When it moves: compare with ``_AssetDownloadOp``, and run tests/planning/test_fetch.py.
    """
    return cache / sha1(url.encode()).hexdigest()[:24]  # noqa: S324 - fairseq2's choice


def save_between_steps(trainer: Trainer) -> None:
    """Save a checkpoint of a trainer's last step that a run can continue from.

    Symptom: ``request_stop`` has no effect on a run with ``num_steps``, and validates before it
    saves.
    When it moves: see whether ``Trainer`` saves at a stop request.
    tests/recipe/train/test_trainer.py.
    """
    if trainer._save_model_only != "all_but_last":  # noqa: SLF001
        trainer._save_model_only = False  # noqa: SLF001
    trainer._save_checkpoint(blocking=True)  # noqa: SLF001


def report_rest(trainer: Trainer) -> None:
    """Report the steps since a trainer's last report, if there are any.

    Symptom: steps between the last report and a stop are in none: a page's hours lack them.
    When it moves: see whether ``Trainer`` reports at a stop. tests/recipe/train/test_trainer.py.
    """
    if trainer._num_batches_read:  # noqa: SLF001
        trainer._publish_metrics()  # noqa: SLF001


def load_states_as_values(checkpoints: CheckpointManager) -> None:
    """Let a run continue without running the code that may stand in the files of its states.

    Symptom: fairseq2 unpickles the states of trainer, optimizer and data reader, which may call
    anything. Its container has a `TensorLoader` already, and takes no other.
    When it moves: look for ``restrict`` in ``fairseq2.checkpoint``. tests/commands/test_trust.py.
    """
    from fairseq2.io import TensorFileError, TensorLoader  # noqa: PLC0415 - slow

    weights: TensorLoader = checkpoints._tensor_loader  # type: ignore[attr-defined] # noqa: SLF001

    class Loader(TensorLoader):
        @override
        def load(self, file: Path, *, restrict: bool = True, **options: Any) -> dict[str, object]:
            if restrict:
                return weights.load(file, restrict=True, **options)
            try:
                return load_values(file, **options)
            except (RuntimeError, PickleError) as error:
                step = next(folder for folder in file.parents if folder.name.startswith("step_"))
                advice = f"a new run can begin with its weights: model.path={step}"
                raise TensorFileError(file, f"the state cannot be read; {advice}") from error

    checkpoints._tensor_loader = Loader()  # type: ignore[attr-defined] # noqa: SLF001


def wrap_validator(trainer: Trainer, wrap: Callable[[Validator], Validator]) -> None:
    """Let another validator run that of a trainer.

    Symptom: nothing public makes a trainer with a validator that can be interrupted.
    When it moves: look for what calls the validator in ``Trainer``.
    tests/recipe/train/test_trainer.py.
    """
    trainer._validator = wrap(trainer._validator)  # noqa: SLF001


def stop_early_by(trainer: Trainer, stopper: EarlyStopper) -> None:
    """Let a trainer ask an early stopper after each validation.

    Symptom: an EarlyStopper in the container never stops a training. ``wire_object`` passes over
    parameters that are annotated as ``X | None``, such as that of ``Trainer``.
    When it moves: see whether ``Trainer`` gets it from the container.
    tests/recipe/train/test_validation_stops.py.
    """
    trainer._early_stopper = stopper  # noqa: SLF001


def set_data_epoch(trainer: Trainer, epoch: int, last: int | None) -> None:
    """Set the data epoch that a trainer is in and the last one, both counted from 1.

    Symptom: a run that continues within its last data epoch ends at once as complete, because
    ``_maybe_restore_state`` takes the epoch that it is in for one that has ended.
    When it moves: see whether ``Trainer`` compares epochs that have ended.
    tests/recipe/train/test_trainer.py.
    """
    trainer._data_epoch_nr = epoch  # noqa: SLF001
    trainer._max_num_data_epochs = last  # noqa: SLF001


def delete_together(trainer: Trainer, checkpoints: CheckpointManager, gang: Gang) -> None:
    """Let all processes list the previous checkpoints before the first one deletes from them.

    Symptom: with ``regime.save_model_only=all_but_last`` and several processes, a run hangs after a
    checkpoint: there is a barrier for each in the list, and a process that lists late finds fewer.
    When it moves: see whether there is a barrier after the list.
    tests/recipe/train/test_trainer_with_two.py.
    """

    def delete() -> None:
        steps = checkpoints.get_step_numbers(exclude_model_only=True)
        gang.barrier()
        for step in steps[:-1]:
            checkpoints.delete_checkpoint(step, keep_model=True)

    trainer._delete_previous_non_model_checkpoints = delete  # type: ignore[method-assign] # noqa: SLF001


def publish_written(checkpoints: Path, gangs: Gangs) -> None:
    """Publish a checkpoint that every process has written, without waiting for any of them.

    A process writes one file after the other, that of the data reader last, and a file of PyTorch
    ends with its directory. So the checkpoint is whole if each of these last files is.

    Symptom: fairseq2 publishes behind a barrier, which nobody passes when a process has failed: a
    checkpoint that is on the disk is deleted at the next start.
    When it moves: see the order in ``StandardCheckpointManager.save_checkpoint``.
    tests/recipe/train/test_ending.py.
    """
    for unpublished in checkpoints.glob("step_*.tmp"):
        last = [unpublished / "data_reader" / f"dp_{rank:02d}.pt" for rank in range(gangs.dp.size)]
        if not (unpublished / "trainer").is_dir():  # only the model is saved
            model = unpublished / "model" / "pp_00" / "tp_00"
            last = [model / f"sdp_{rank:02d}.pt" for rank in range(gangs.sdp.size)]
        if all(map(is_zipfile, last)):
            with suppress(OSError):  # another process has done it
                unpublished.rename(unpublished.with_suffix(""))
