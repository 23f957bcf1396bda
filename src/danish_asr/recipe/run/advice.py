"""What the metrics of a run say about it, in plain words, without torch.

A run prints these lines while it trains; the page of a run shows them later.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

OVERFITTING: Final = 3
"""Validations without a new best score, while the training loss falls."""

_STOP: Final = "regime.early_stopping_patience"
_REMEDIES: Final = ("masking.time", "dataset.transforms")
"""Keys that help against overfitting, unless a configuration sets them."""

DATA_BOUND: Final = 0.2
"""The part of the time that a run waits for data, from which on it is too much."""

WARMUP: Final = 0.1
"""The part of a run in which the learning rate rises, at most."""

SATURATED: Final = 80.0
"""Per cent; above it the loss says more than an error rate."""

MOST: Final = 5
"""Pieces of advice about a run."""

BLIND: Final = 2.5
"""Nats per character: Danish letters alone, without neighbours, have an entropy of 2.9."""

_SOON: Final = 100
"""Steps; a report after them says little of how a run began."""

_JUDGED: Final = 3
"""Reports by which a loss is judged."""

_HARDER: Final = 2.0
"""A training loss is high if it is this multiple of that of validation."""

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
    reports: Rows,
    validations: Rows,
    score: str,
    config: Mapping[str, Any],
    *,
    complete: bool,
    scored: Sequence[Advice | None] = (),
) -> list[Advice]:
    """Judge a run by its reports and validations; ``score`` is the key of its score, lower is best.

    ``config`` is the run's, by dotted key; ``scored`` is what its evaluations say. Most runs get
    little advice, and none more than five: first what spoils a run, then what lowers its score,
    then what saves time.
    """
    advice = [
        _unstable(reports),
        _begins_blind(reports, config) or (_learnt_nothing(reports, config) if complete else None),
        _harder_than_validation(reports, validations, config),
        _still_improving(validations, score) if complete else None,
        overfitting(reports, validations, score, config),
        *scored,
        long_warmup(config),
        _waiting_for_data(reports),
        _memory_left(reports, config),
    ]
    return [item for item in advice if item][:MOST]


def loss_warning(loss: float, chance: float, best: float = math.inf) -> Advice | None:
    """Judge a loss; ``best`` is the lowest of the run so far. All in nats per character."""
    if loss > max(3 * best, best + 1):
        return Advice(
            f"the loss is {loss:,.2f} nats per character and was {best:.2f}",
            "the run diverges; unless it recovers in the next reports, start one with a lower "
            "optimizer.config.lr or trainer.max_grad_norm, or with a longer warm-up",
        )
    if loss > 1.5 * chance:  # that of a new head may be a little above chance
        return Advice(
            f"the loss is {loss:,.2f} nats per character; chance is {chance:.2f}",
            "that is a fault, not bad luck: check dataset.asr_task_config.normalize_audio (true "
            "for omniASR), the tokenizer and optimizer.config.lr",
        )
    return None


def _unstable(reports: Rows) -> Advice | None:
    """Return the last warning of `loss_warning`, with its step; a run may have recovered.

    Two reports in a row must be high: one may hold a few rows with wrong texts.
    """
    warning, at, best, last = None, 0, math.inf, math.inf
    for number, row in enumerate(reports):
        last = min(report[LOSS] for report in reports[max(0, number - 1) : number + 1])
        if judged := loss_warning(last, row[CHANCE], best):
            at = row["Step"]
            warning = Advice(f"at step {at:,} {judged.evidence}", judged.text)
        best = min(best, last)
    if warning and last <= 1.1 * best and len(reports) > 1:
        if at == reports[0]["Step"]:
            return None  # it began high, and has fallen since
        text = "it has recovered; a lower trainer.max_grad_norm or a longer warm-up avoids that"
        return Advice(warning.evidence, text)
    return warning


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


def _begins_blind(reports: Rows, config: Mapping[str, Any]) -> Advice | None:
    """Whether a model that is trained already knew nothing of the data in its first steps."""
    new_head = config.get("model.config_overrides.target_vocab_size")
    if not config.get("model.name") or new_head or not reports or reports[0]["Step"] > _SOON:
        return None
    loss = reports[0][LOSS]
    if loss < BLIND:
        return None
    return Advice(
        f"training begins at {loss:.2f} nats per character with '{config['model.name']}', a "
        f"trained model; one that hears nothing has {BLIND:g} and more",
        "the data is not what it was trained on: audio at a wrong speed or without speech, texts "
        "of other recordings or another dataset.text_profile, another language, "
        "dataset.asr_task_config.normalize_audio; listen to some rows and read their texts "
        "(`danish-asr explore`)",
    )


def _learnt_nothing(reports: Rows, config: Mapping[str, Any]) -> Advice | None:
    """Whether the training loss of a complete run ends where knowing no sound would leave it."""
    losses = [row[LOSS] for row in reports if LOSS in row]
    if len(losses) < _JUDGED or min(losses[-_JUDGED:]) < BLIND:
        return None
    step = reports[-1]["Step"]
    if not config.get("model.name") and not config.get("model.path") and step <= _SOON:
        return Advice(
            f"the run ended after {step:,} steps from random weights, at {losses[-1]:.2f} nats per "
            "character",
            "these are too few steps to judge the data or the rate by: raise regime.num_steps",
        )
    return Advice(
        f"the training loss ends at {losses[-1]:.2f} nats per character; guessing each letter by "
        f"how often it occurs gives {BLIND:g} and more",
        "the model hears nothing in the audio: listen to some rows and read their texts "
        "(`danish-asr explore`), as these may not belong together or hold no speech; else the "
        "rate is too high or too low: try optimizer.config.lr 10 times lower and higher",
    )


def _harder_than_validation(
    reports: Rows, validations: Rows, config: Mapping[str, Any]
) -> Advice | None:
    """Whether the training rows are worse than those of validation, with nothing to explain it."""
    if any(config.get(key) for key in (*_REMEDIES, "dataset.speed_factors", "masking.channel")):
        return None
    rows = [row for row in validations if LOSS in row]
    if not rows:
        return None
    now, before = train_loss(reports, rows[-1]["Step"]), rows[-1][LOSS]
    if not math.isfinite(now) or now < max(_HARDER * before, before + 0.1):
        return None
    return Advice(
        f"the training loss is {now:.2f} nats per character, that of validation {before:.2f}",
        "rows of training may have wrong texts, or audio without speech: `danish-asr evaluate "
        "OUTDIR evaluator.split=train` and `danish-asr report` name the worst",
    )


def _still_improving(validations: Rows, score: str) -> Advice | None:
    """Whether a complete run has its best score at its end, clearly below that shortly before."""
    rows = [row for row in validations if score in row]
    if len(rows) < 4 or best_validation(rows, score)[0] != len(rows) - 1:
        return None
    # In the last quarter a run that has converged gains less than a twentieth.
    _, earlier = best_validation(rows[: math.ceil(0.75 * len(rows))], score)
    last = rows[-1]
    if last[score] > 0.95 * earlier[score]:
        return None
    return Advice(
        f"the best {score} fell from {earlier[score]:.2f} (step {earlier['Step']:,}) to "
        f"{last[score]:.2f} in the last validation (step {last['Step']:,})",
        "the model still improves at the end; a run with more regime.num_steps may be better",
    )


def long_warmup(config: Mapping[str, Any]) -> Advice | None:
    """Whether the learning rate rises for more than a tenth of a run, which is usual."""
    steps, key = config.get("regime.num_steps"), "lr_scheduler.config.stage_ratio"
    if stages := config.get(key):
        share = stages[0] / sum(stages)
    else:
        key = "lr_scheduler.config.num_warmup_steps"
        share = (config.get(key) or 0) / (steps or math.inf)
    if share <= WARMUP + 1e-6:
        return None
    return Advice(
        f"the learning rate rises for {share:.0%} of the {steps:,} steps",
        f"a tenth is usual and reaches the peak sooner: {key}",
    )


def _waiting_for_data(reports: Rows) -> Advice | None:
    """Whether the reader of data is too slow; the first report, with its start, does not count."""
    data = sum(row.get("Data Time", 0) for row in reports[1:])
    compute = sum(row.get("Compute Time", 0) for row in reports[1:])
    if not data or data < DATA_BOUND * (data + compute):
        return None
    return Advice(
        f"{data / (data + compute):.0%} of the training time waits for data",
        "more CPU cores (LSF: #BSUB -n), or the dataset on a local disk or on scratch, save up to "
        "that much time",
    )


def _memory_left(reports: Rows, config: Mapping[str, Any]) -> Advice | None:
    """Whether a larger batch would fit; the part of it that is not activations does not grow."""
    peak = max((row.get("Peak Reserved Device Memory (%)", 0) for row in reports), default=0)
    key = "dataset.asr_task_config.max_num_elements"
    if not 0 < peak < 0.6 or not config.get(key):
        return None
    growth = 0.85 / peak
    size = int(config[key] * growth) // 10_000 * 10_000
    return Advice(
        f"the run used {peak:.0%} of the GPU's memory at its peak",
        f"a new run may take {key}={size}, {growth:.1f} times as much, with fewer "
        "batches in trainer.grad_accumulation.num_batches for the same step",
    )


def best_validation(rows: Rows, score: str) -> tuple[int, Mapping[str, Any]]:
    """Return the place and the row of the lowest score; of equals the last, as in the card."""
    place = max(range(len(rows)), key=lambda place: (-rows[place][score], place))
    return place, rows[place]


def best_until(
    validations: Rows, score: str, step: float = math.inf
) -> tuple[tuple[float, float], Mapping[str, Any]] | None:
    """Return the best standing up to a step, and its row; None: not validated yet.

    A standing is the score and the loss, by which validations of several runs are compared: lower
    is better, and error rates above 80 % are equal.
    """

    def standing(row: Mapping[str, Any]) -> tuple[float, float]:
        value = row[score] if score == LOSS else min(row[score], SATURATED)
        return value, row.get(LOSS, math.inf)

    rows = [row for row in validations if score in row and row["Step"] <= step]
    if not rows:
        return None
    best = min(rows, key=standing)
    return standing(best), best


def train_loss(reports: Rows, step: int) -> float:
    """Return the training loss of the last report up to a step; infinite if there is none."""
    losses = [row[LOSS] for row in reports if row["Step"] <= step and LOSS in row]
    return float(losses[-1]) if losses else math.inf
