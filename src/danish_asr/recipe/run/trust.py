"""Files that another user may have written: what is read from them, and what is refused.

Models, tokenizers and cards are data: reading them runs no code that they hold. To continue a run,
fairseq2 unpickles the states of its trainer, optimizer and data reader, and a pickle can run any
code. So only runs of the same user continue, unless the command line says ``--trust``.
"""

import os
import re
from pathlib import Path
from pickle import UnpicklingError

from fairseq2.assets import AssetCard

from danish_asr.base.errors import RunError
from danish_asr.recipe.run.run_directory import CHECKPOINTS, resumable_steps


def check_owner(output_dir: Path, user: int | None = None) -> None:
    """Refuse, with RunError, to continue a run that another user saved.

    ``user`` is a number; None: the user of this process. Without numbered users nothing is refused.
    """
    steps = resumable_steps(output_dir)
    if not steps or not hasattr(os, "geteuid"):
        return
    user = os.geteuid() if user is None else user
    newest = output_dir / CHECKPOINTS / f"step_{steps[-1]}"
    for path in (newest.parent, newest, *sorted(newest.rglob("*"))):
        if (owner := path.stat().st_uid) != user:
            raise RunError(
                f"{path} belongs to user {owner}, but this is user {user}. To continue a run, the "
                "states of its trainer, optimizer and data reader are unpickled, and a pickle can "
                "run any code. If you trust whoever can write there, add --trust. Otherwise start "
                f"a new run in another OUTDIR with model.path={newest}: of a model, only tensors "
                "are read."
            )


def card_fault(key: str, card: AssetCard) -> str | None:
    """What is wrong with a model's card that lets fairseq2 unpickle its checkpoint."""
    field = card.maybe_get_field("restrict")
    if field is None or field.value is True:
        return None
    source, checkpoint = card.metadata["__source__"], card.maybe_get_field("checkpoint")
    return (
        f"{key}: the card of '{card.name}', in {source}, has restrict: {field.value}, which would "
        f"run any code in {checkpoint.value if checkpoint else 'its checkpoint'}. Remove the line; "
        "a checkpoint of tensors loads without it"
    )


def refused_content(error: UnpicklingError) -> str:
    """What torch did not load, without its advice to load it anyway."""
    found = re.search(r"GLOBAL (\S+)|function (.+)", str(error))
    if found is None:
        return "the file is damaged, or is not a checkpoint"
    return f"the file holds code, {found[1] or found[2]}"
