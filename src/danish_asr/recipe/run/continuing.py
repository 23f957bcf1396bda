"""How a run continues in its directory, or is refused with RunError before anything is written."""

import shlex
import shutil
from collections.abc import Mapping
from typing import Any, Final

from danish_asr.base.config_tree import Tree, flatten, value_of
from danish_asr.base.errors import RunError
from danish_asr.base.files import publish_text
from danish_asr.recipe.run.run import (
    ENVIRONMENT,
    METRICS,
    Run,
    read_score,
    recorded,
    score_title,
)

_VALIDATED: Final = ("dataset.valid_split", "dataset.valid_subset", "dataset.valid_where")
"""The keys that say on which rows a score is measured."""

_MAY_CHANGE: Final = (
    *("regime.", "gang.", "evaluator.", "common."),
    *_VALIDATED,
    *("dataset.valid_max_num_elements", "dataset.max_unknown_share"),
    "dataset.config_overrides.data",  # where the dataset is; the reader knows its rows
    # A step of two processes takes what one takes in two batches.
    *("trainer.grad_accumulation.", "trainer.activation_checkpointing."),
    "trainer.max_wall_minutes",
)
"""Keys and sections that a run may change when it continues. All others shape the weights, the
data or the saved state."""

_MUST_STAY: Final = ("common.seed", "regime.score_metric", "regime.score_profile")
"""Exceptions to :data:`_MAY_CHANGE`."""


def check_continuation(run: Run, config: Tree, defaults: Tree) -> None:
    """Refuse, with RunError, to train over the files of another run or of an average.

    Before the first checkpoint anything may change. A key newer than the run has its default. A
    run whose last checkpoint is only a model may be complete.
    """
    if not run.last:
        if not (run.folder / ENVIRONMENT).exists() and [*run.folder.glob("[!.]*")]:
            fix = f"name a new directory, with model.path={run.folder} if this one has a model"
            raise RunError(f"{run.folder} has files, and is no run; {fix}")
        return
    if not run.can_continue and not (run.folder / METRICS).is_dir():
        raise RunError(_only_a_model(run))  # an average: nothing was trained here
    now = dict(flatten(config))
    before = {key: value for key, value in flatten(defaults) if key in now}
    before |= dict(flatten(run.config))
    changed = _changes(before, now)
    if not run.can_continue and (changed or not run.completion(now)):
        raise RunError("\n".join([_only_a_model(run), *changed]))
    if (now["regime.num_steps"] or run.last) < run.last:
        raise RunError(f"regime.num_steps must be at least {run.last}, which the run has reached")
    if changed:
        raise RunError(
            f"{run.folder} holds a run at step {run.last} with another configuration:\n"
            + "\n".join(changed)
            + "\nStart the new run in another OUTDIR, or restore these values to continue."
        )


def check_scores(run: Run, now: Mapping[str, Any]) -> str | None:
    """Say that a run has scores of other rows than those that it is validated on from now on."""
    before = dict(flatten(run.config))
    changed = [key for key in _VALIDATED if before.get(key) != now.get(key)]
    if not run.scores or not changed:
        return None
    return (
        f"{', '.join(changed)}: {run.folder} has scores of other rows, and its best checkpoint is "
        "chosen among both; a new OUTDIR with model.path keeps them apart"
    )


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return a line for each key that must not change, and does."""
    return [
        f"  - {key} was {before.get(key)!r} and is now {now.get(key)!r}"
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key)
        and (key in _MUST_STAY or not key.startswith(_MAY_CHANGE))
    ]


def _only_a_model(run: Run) -> str:
    """The refusal of a directory whose last checkpoint is only a model."""
    text = (
        f"{run.folder}: its last checkpoint, step_{run.last}, is a model without the state of a "
        "training (an average, or regime.save_model_only), so no training can continue here. "
        f"model.path={run.folder} with another OUTDIR starts a new run from it"
    )
    if steps := run.resumable_steps:
        text += f"; without the checkpoints after step_{steps[-1]} the run continues from that one"
    return text


def way_on(run: Run) -> str:
    """Say how a run goes on whose last checkpoint cannot be read."""
    damaged, earlier = run.at(run.last).folder, [n for n in run.resumable_steps if n < run.last]
    if not earlier:
        return f"{damaged} is damaged, and there is no earlier checkpoint to continue from"
    command = shlex.join(["rm", "-r", str(damaged)])
    return f"{damaged} is damaged: `{command}`, and the same command continues from {earlier[-1]:,}"


def tidy(run: Run) -> None:
    """Delete what a run that continues writes again: unfinished checkpoints and later metrics.

    The metrics files then hold each step once, in complete lines. A score that is damaged, which
    fairseq2 would refuse, is deleted.
    """
    for unfinished in run.checkpoints.glob("step_*.tmp"):
        shutil.rmtree(unfinished, ignore_errors=True)
    for score in (run.checkpoints / "scores").glob("*.txt"):
        if read_score(score) is None:
            score.unlink()
    complete_scores(run)
    for file in (run.folder / METRICS).rglob("*.jsonl"):
        lines = [line for line, row in recorded(file) if row["Step"] <= run.last]
        publish_text(file, "".join(lines))


def complete_scores(run: Run) -> None:
    """Give each checkpoint that was validated its score.

    fairseq2 writes none of a step that is saved after its validation, such as the last of an epoch.
    """
    title = score_title(value_of(run.config, "regime.score_metric"))
    missing = {*run.steps} - {*run.scores}
    for row in run.validations():
        if row["Step"] in missing and title in row:
            publish_text(run.score_file(row["Step"]), f"{-row[title]}\n")
