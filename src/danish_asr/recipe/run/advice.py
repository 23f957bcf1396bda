"""What a run prints about its metrics: a loss above chance, overfitting, a long warm-up.

Without torch: rows of metrics and values of a configuration come in, a line of text goes out.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from danish_asr.recipe.config.training_sections import WITHOUT_END

LOSS: Final = "Loss (nats per character)"
CHANCE: Final = "Chance (nats per character)"

_WAITED: Final = 3
"""Validations without a new best score, while the training loss falls, before each warning."""

_WORDLESS: Final = 5
"""Validations at a WER of 100 % before the warning."""

_WARMUP: Final = 0.1
"""The part of a run in which the learning rate rises, at most."""

Rows = Sequence[Mapping[str, Any]]
"""Lines of a metrics file, each with its ``Step``."""


def loss_warning(loss: float, chance: float) -> str | None:
    """Compare a loss with chance, both in nats per character."""
    if loss <= 1.5 * chance:  # that of a new head may be a little above chance
        return None
    return (
        f"the loss is {loss:,.2f} nats per character; chance is {chance:.2f}: check "
        "dataset.asr_task_config.normalize_audio (true for omniASR), the tokenizer and "
        "optimizer.config.lr"
    )


def overfitting(reports: Rows, validations: Rows, score: str) -> str | None:
    """Say after every third validation if the score gets worse while the training loss falls."""
    best = best_validation(validations, score)["Step"]
    waited = sum(row["Step"] > best for row in validations)
    then, now = train_loss(reports, best), train_loss(reports, validations[-1]["Step"])
    if waited == 0 or waited % _WAITED or now >= then:
        return None
    return (
        f"the best {score} is {waited} validations old (step {best:,}), and the training "
        f"loss fell from {then:.3f} to {now:.3f}: the model overfits. The best checkpoint is kept. "
        "masking.time, dataset.transforms, more data or a lower optimizer.config.lr let it learn "
        "longer; regime.early_stopping_patience ends such a run"
    )


def no_word_right(validations: Rows, wer: str) -> str | None:
    """Say once if no validation has had a word right: all rates named ``wer`` are 100 % or more."""
    if len(validations) != _WORDLESS or min(row[wer] for row in validations) < 100:
        return None
    return (
        f"the WER is 100 % after {_WORDLESS} validations. If the dev loss still falls, the run has "
        "hardly begun: wait. Else optimizer.config.lr is 10 times too low or too high, or audio "
        "and texts do not belong together: listen to rows of `danish-asr verify --page`"
    )


def of_values(config: Mapping[str, Any]) -> Iterator[str]:
    """Say what in the values of a configuration, by dotted key, is of no use to its run."""
    for judge in (long_warmup, unsaved_validations, idle_patience):
        if line := judge(config):
            yield line


def long_warmup(config: Mapping[str, Any]) -> str | None:
    """Whether the learning rate rises for more than a tenth of a run."""
    steps, key = config.get("regime.num_steps"), "lr_scheduler.config.stage_ratio"
    if not steps:
        return None
    if stages := config.get(key):
        share = stages[0]
    else:
        key = "lr_scheduler.config.num_warmup_steps"
        share = config.get(key, 0) / steps
    if share <= _WARMUP:
        return None
    return (
        f"the learning rate rises for {share:.0%} of the {steps:,} steps: "
        f"a tenth reaches the peak sooner ({key})"
    )


def unsaved_validations(config: Mapping[str, Any]) -> str | None:
    """Whether a run validates models that it does not save; the best one may be among them."""
    validates, saves = (
        config.get(f"regime.{do}_every_n_steps") for do in ("validate", "checkpoint")
    )
    if not validates or saves == validates:
        return None
    return (
        f"validations come every {validates:,} steps, and no checkpoint for some of them: the best "
        "model may be lost. regime.checkpoint_every_n_steps and validate_every_n_steps: the same"
    )


def idle_patience(config: Mapping[str, Any]) -> str | None:
    """Whether a run has a patience, and no validation before its end."""
    intervals = ("regime.validate_every_n_steps", "regime.validate_every_n_data_epochs")
    validates = config.get("dataset.valid_split") and any(map(config.get, intervals))
    if validates or not config.get("regime.early_stopping_patience"):
        return None
    return (
        "regime.early_stopping_patience has no effect without validations: see "
        "dataset.valid_split and regime.validate_every_n_steps"
    )


def never_reached(config: Mapping[str, Any], epoch: int, stages: Iterable[int]) -> Iterator[str]:
    """Say what the end of a run cuts off: of its schedule, and of ``stages`` by their first step.

    ``epoch``: the steps in one.
    """
    steps, epochs = config.get("regime.num_steps"), config.get("regime.num_data_epochs")
    end = min(steps or math.inf, (epochs or math.inf) * epoch)
    if steps and end < steps and config.get("lr_scheduler.name") not in WITHOUT_END:
        yield (
            f"regime.num_data_epochs={epochs} ends the run after about {end:,} steps, and the "
            f"learning rate follows a schedule of {steps:,}: set regime.num_steps={end}"
        )
    if late := sorted(first for first in stages if first >= end):
        yield (
            f"the run ends after {end:,} steps, and what begins after {', '.join(map(str, late))} "
            "never does: see trainer.stages, unfreeze and freeze_encoder_for_n_steps"
        )


def early_stop(validations: Rows, score: str, patience: int | None) -> str | None:
    """Say why a run ends after its last validation; None: it does not.

    It ends after ``patience`` validations since the best one, which is that of `best_validation`.
    A rate of 100 % or more is none, as a model first learns to write nothing; nor is a loss that is
    not finite. After the best one they count: such a run has diverged.
    """
    limit = math.inf if score == LOSS else 100
    scored = [row for row in validations if score in row]
    below = [row for row in scored if row[score] < limit]
    if patience is None or not below:
        return None
    best = best_validation(below, score)
    waited = sum(row["Step"] > best["Step"] for row in scored)
    if waited < patience:
        return None
    return (
        f"the best {score} is {best[score]:.2f}, of step {best['Step']:,}; validations since then "
        f"without a new best: {waited} (regime.early_stopping_patience={patience})"
    )


def best_validation(rows: Rows, score: str) -> Mapping[str, Any]:
    """Return the row of the lowest score; of equals the last, as in the card."""
    return min(rows, key=lambda row: (row[score], -row["Step"]))


def train_loss(reports: Rows, step: int) -> float:
    """Return the training loss of the last report up to a step; infinite if there is none."""
    losses = [row[LOSS] for row in reports if row["Step"] <= step]
    return losses[-1] if losses else math.inf
