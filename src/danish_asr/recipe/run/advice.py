"""What a run prints about its metrics: a loss above chance, overfitting, a long warm-up.

Without torch: rows of metrics and values of a configuration come in, a line of text goes out.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

OVERFITTING: Final = 3
"""Validations without a new best score, while the training loss falls."""

_STOP: Final = "regime.early_stopping_patience"
_REMEDIES: Final = ("masking.time", "dataset.transforms")
"""Keys that help against overfitting, unless a configuration sets them."""

DATA_BOUND: Final = 0.2
"""The part of the time that a run waits for data, from which on it is too much."""

WARMUP: Final = 0.1
"""The part of a run in which the learning rate rises, at most."""

LOSS: Final = "Loss (nats per character)"
CHANCE: Final = "Chance (nats per character)"

Rows = Sequence[Mapping[str, Any]]
"""Lines of a metrics file, each with its ``Step``."""


def loss_warning(loss: float, chance: float, best: float = math.inf) -> str | None:
    """Judge a loss; ``best`` is the lowest of the run so far. All in nats per character."""
    if loss > max(3 * best, best + 1):
        return (
            f"the loss is {loss:,.2f} nats per character and was {best:.2f}: "
            "the run diverges; unless it recovers in the next reports, start one with a lower "
            "optimizer.config.lr or trainer.max_grad_norm, or with a longer warm-up"
        )
    if loss > 1.5 * chance:  # that of a new head may be a little above chance
        return (
            f"the loss is {loss:,.2f} nats per character; chance is {chance:.2f}: "
            "that is a fault, not bad luck: check dataset.asr_task_config.normalize_audio (true "
            "for omniASR), the tokenizer and optimizer.config.lr"
        )
    return None


def overfitting(
    reports: Rows, validations: Rows, score: str, config: Mapping[str, Any]
) -> str | None:
    """Whether the score has its best behind it while the training loss falls.

    What ``config`` has already is not advised.
    """
    rows = [row for row in validations if score in row]
    if not rows:
        return None
    at, best = best_validation(rows, score)
    waited = len(rows) - 1 - at
    then, now = train_loss(reports, best["Step"]), train_loss(reports, rows[-1]["Step"])
    if waited < OVERFITTING or not now < then:
        return None
    stop = f"{_STOP} ends such a run; " if not config.get(_STOP) else ""
    more = ", ".join(["more data", *(key for key in _REMEDIES if not config.get(key))])
    return (
        f"the best {score} is {waited} validations old (step {best['Step']}), and the training "
        f"loss fell from {then:.3f} to {now:.3f}: "
        f"the model overfits. The best checkpoint is kept. {stop}{more} or a lower "
        "optimizer.config.lr let it learn longer"
    )


def long_warmup(config: Mapping[str, Any]) -> str | None:
    """Whether the learning rate rises for more than a tenth of a run, which is usual."""
    steps, key = config.get("regime.num_steps"), "lr_scheduler.config.stage_ratio"
    if not steps:
        return None
    if stages := config.get(key):
        share = stages[0] / sum(stages)
    else:
        key = "lr_scheduler.config.num_warmup_steps"
        share = (config.get(key) or 0) / steps
    if share <= WARMUP + 1e-6:
        return None
    return (
        f"the learning rate rises for {share:.0%} of the {steps:,} steps: "
        f"a tenth is usual and reaches the peak sooner ({key})"
    )


def best_validation(rows: Rows, score: str) -> tuple[int, Mapping[str, Any]]:
    """Return the place and the row of the lowest score; of equals the last, as in the card."""
    place = max(range(len(rows)), key=lambda place: (-rows[place][score], place))
    return place, rows[place]


def train_loss(reports: Rows, step: int) -> float:
    """Return the training loss of the last report up to a step; infinite if there is none."""
    losses = [row[LOSS] for row in reports if row["Step"] <= step and LOSS in row]
    return float(losses[-1]) if losses else math.inf
