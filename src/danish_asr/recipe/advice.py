"""What the metrics of a run say about it, in plain words, without torch.

A run prints these lines while it trains; the page of a run shows them later.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

_ABOVE_CHANCE: Final = 1.5
"""A loss of so many times chance is a fault; a new head may be a little above chance."""

_ABOVE_BEST: Final = 3.0
"""A loss of so many times the lowest one so far, and one nat above it, diverges."""

OVERFITTING: Final = 3
"""Validations without a new best score, while the training loss falls."""

_STOP: Final = "regime.early_stopping_patience"
_REMEDIES: Final = ("masking.time", "dataset.transforms")
"""Keys that help against overfitting, unless a configuration sets them."""

_LATE: Final = 0.25
"""The last part of the validations, in which a run that has converged gains little."""

_GAIN: Final = 0.05
"""The part of the score that a run gains at its end if more steps would help."""

LOSS: Final = "Loss (nats per character)"
CHANCE: Final = "Chance (nats per character)"

Rows = Sequence[Mapping[str, Any]]
"""Lines of a metrics file, each with its ``Step``."""


class Advice(NamedTuple):
    """What a run shows, and what to do."""

    evidence: str
    text: str

    def __str__(self) -> str:
        return f"{self.evidence}: {self.text}"


def advise(
    reports: Rows, validations: Rows, score: str, config: Mapping[str, Any], *, complete: bool
) -> list[Advice]:
    """Judge a run by its reports and validations; ``score`` is the key of its score, lower is best.

    ``config`` is the run's, by dotted key. Most runs get no advice.
    """
    improving = still_improving(validations, score) if complete else None
    found = [unstable(reports), overfitting(reports, validations, score, config), improving]
    return [each for each in found if each]


def loss_warning(loss: float, chance: float, best: float = math.inf) -> Advice | None:
    """Judge a loss; ``best`` is the lowest of the run so far. All in nats per character."""
    if loss > max(_ABOVE_BEST * best, best + 1):
        return Advice(
            f"the loss is {loss:,.2f} nats per character and was {best:.2f}",
            "the run diverges; unless it recovers in the next reports, start one with a lower "
            "optimizer.config.lr or trainer.max_grad_norm, or with a longer warm-up",
        )
    if loss > _ABOVE_CHANCE * chance:
        return Advice(
            f"the loss is {loss:,.2f} nats per character; chance is {chance:.2f}",
            "that is a fault, not bad luck: check dataset.asr_task_config.normalize_audio (true "
            "for omniASR), the tokenizer and optimizer.config.lr",
        )
    return None


def unstable(reports: Rows) -> Advice | None:
    """Return the last warning of `loss_warning`, with its step."""
    found, best = None, math.inf
    for row in reports:
        if LOSS in row and CHANCE in row:  # older versions had none
            if judged := loss_warning(row[LOSS], row[CHANCE], best):
                found = Advice(f"at step {row['Step']:,} {judged.evidence}", judged.text)
            best = min(best, row[LOSS])
    return found


def overfitting(
    reports: Rows, validations: Rows, score: str, config: Mapping[str, Any]
) -> Advice | None:
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
    return Advice(
        f"the best {score} is {waited} validations old (step {best['Step']}), and the training "
        f"loss fell from {then:.3f} to {now:.3f}",
        f"the model overfits. The best checkpoint is kept. {stop}{more} or a lower "
        "optimizer.config.lr let it learn longer",
    )


def still_improving(validations: Rows, score: str) -> Advice | None:
    """Whether a complete run has its best score at its end, clearly below that shortly before."""
    rows = [row for row in validations if score in row]
    before = rows[: math.ceil((1 - _LATE) * len(rows))]
    if len(rows) < 4 or best_validation(rows, score)[0] != len(rows) - 1:
        return None
    _, earlier = best_validation(before, score)
    last = rows[-1]
    if last[score] > (1 - _GAIN) * earlier[score]:
        return None
    return Advice(
        f"the best {score} fell from {earlier[score]:.2f} (step {earlier['Step']:,}) to "
        f"{last[score]:.2f} in the last validation (step {last['Step']:,})",
        "the model still improves at the end; a run with more regime.num_steps may be better",
    )


def best_validation(rows: Rows, score: str) -> tuple[int, Mapping[str, Any]]:
    """Return the place and the row of the lowest score; of equals the last, as in the card."""
    return max(enumerate(rows), key=lambda each: (-each[1][score], each[0]))


def train_loss(reports: Rows, step: int) -> float:
    """Return the training loss of the last report up to a step; infinite if there is none."""
    known = (row[LOSS] for row in reversed(reports) if row["Step"] <= step and LOSS in row)
    return float(next(known, math.inf))
