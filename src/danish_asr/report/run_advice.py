"""What to do next: by a run's metrics and evaluations, or by the values in which runs differ."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import sqrt
from pathlib import Path
from textwrap import shorten
from typing import Final

from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.recipe.run.advice import (
    LOSS,
    MOST,
    SATURATED,
    Advice,
    Rows,
    advise,
    best_until,
)
from danish_asr.recipe.run.run_directory import evaluated_model, weights_digest
from danish_asr.report import wording
from danish_asr.report.prediction_advice import advise_predictions
from danish_asr.report.run_history import (
    COMPLETE,
    FAILED_STATE,
    Evaluation,
    History,
    as_text,
    evaluations,
)
from danish_asr.scoring.scores import Scores

DIALECT: Final = "wer/dialect/"
"""The beginning of a validation's key of a dialect's WER."""

_ALL: Final = "Word Error Rate (WER)"
_BEHIND: Final = 1.5
"""A dialect is behind if its WER is this multiple of that of all rows."""

_VALIDATIONS: Final = 3
"""Without an evaluation, a dialect is behind in so many validations in a row."""

_DELETIONS: Final = 0.5
"""The part of the word errors."""

_FEW: Final = 0.02
"""Deletions per word of the reference that are too few to matter."""

_DEAF: Final = 0.7
"""Deletions per word of the reference of a model that hardly writes anything."""

_MORE: Final = (
    "add recordings of it, give a corpus that has it a larger share "
    "(dataset.mixture_parquet_storage_config.beta_corpus below 1), or choose the checkpoint by "
    "regime.score_metric=worst_group_wer"
)

_WORSE: Final = 1.2
"""A score that is this multiple of the best run's is a bad one."""

_MUCH_WORSE: Final = 3.0
"""The same of the loss, by which runs are judged before an error rate says anything."""

_CLOSE: Final = 1.05
"""One run each does not distinguish a score below this multiple of the best from the best."""

_WORDS_PER_SECOND: Final = 2.0
"""Of read Danish, about."""

SEED: Final = "common.seed"
SHARE: Final = "dataset.train_share"
"""Of a learning curve; no value of it is good or bad."""


def advise_run(history: History) -> list[Advice]:
    """Return what a run shows, what gains most first, at most five."""
    finished = evaluations(history.run)
    greedy = [each for each in finished if each.decoder.startswith("greedy")]
    if finished:
        dialect = _dialect_behind(finished[0].scores)
    else:
        dialect = _dialect_behind_in_validation(history.validations)
    return advise(
        history.reports,
        history.validations,
        history.score,
        history.config,
        complete=history.state == COMPLETE,
        scored=[
            *map(_of_other_weights, finished),
            *(advise_predictions(greedy[0].predictions, greedy[0].split) if greedy else ()),
            dialect,
            _deletions(greedy[0]) if greedy else None,
        ],
    )


def _of_other_weights(evaluation: Evaluation) -> Advice | None:
    """Return whether the checkpoint that an evaluation names has other weights now."""
    about = evaluation.about
    checkpoints = Path(about.get("run") or "")
    now = weights_digest(checkpoints.parent, about["step"]) if about.get("weights") else None
    if now is None or now == about["weights"]:
        return None
    return Advice(
        f"the evaluation of {evaluation.split} is of weights {about['weights']}, and "
        f"{evaluated_model(about)} now has {now}",
        "its scores are of another training; evaluate again",
    )


def _dialect_behind(scores: Scores) -> Advice | None:
    """Name the dialect with the highest WER if its interval is above that of all rows."""
    overall = scores.overall.wer
    dialects = [group for group in scores.groupings["dialect"].groups if group.group["dialect"]]
    dialects = [group for group in dialects if group.wer.interval]
    worst = max(dialects, key=lambda group: group.wer.value, default=None)
    if worst is None or worst.wer.interval is None or worst.wer.value < _BEHIND * overall.value:
        return None
    highest = overall.interval.high if overall.interval else overall.value
    if worst.wer.interval.low <= highest:
        return None
    of_worst, of_all = (
        f"{wording.percent(wer.value)} % ({wording.bounds(wer.interval)})"
        for wer in (worst.wer, overall)
    )
    evidence = f"{worst.label} has a WER of {of_worst}, all rows {of_all}"
    return Advice(evidence, f"{worst.label} is far behind: {_MORE}")


def _dialect_behind_in_validation(validations: Rows) -> Advice | None:
    """Name the dialect that has the highest WER, and is behind, in each of the last validations."""
    rows = [row for row in validations if _ALL in row][-_VALIDATIONS:]
    worst = []
    for row in rows:
        dialects = [key for key in row if key.startswith(DIALECT)]
        key = max(dialects, key=lambda name: row[name], default=_ALL)
        if row[key] > _BEHIND * row[_ALL]:
            worst.append(key)
    if len(worst) < _VALIDATIONS or len(set(worst)) > 1:
        return None
    rates = [row[worst[0]] for row in rows]
    overall = [row[_ALL] for row in rows]
    return Advice(
        f"in the last {_VALIDATIONS} validations {worst[0].removeprefix(DIALECT)} has a WER of "
        f"{min(rates):.1f} to {max(rates):.1f} %, all rows {min(overall):.1f} to "
        f"{max(overall):.1f} %",
        f"it is far behind; `danish-asr evaluate` gives its interval. If that is apart, {_MORE}",
    )


def _deletions(evaluation: Evaluation) -> Advice | None:
    """Return whether most errors of greedy decoding are words that are missed."""
    words = evaluation.scores.overall.words
    share = words.deletions / max(words.errors, 1)
    if share < _DELETIONS or words.deletions < _FEW * words.reference_length:
        return None
    if words.deletions > _DEAF * words.reference_length:  # no language model replaces hearing
        return None
    return Advice(
        f"{share:.0%} of the word errors on {evaluation.split} are deletions "
        f"({words.deletions:,} of {words.errors:,})",
        "decode with a language model (decoder.name=beam, decoder.config.lm), and raise its bonus "
        "per word, decoder.config.beta",
    )


def advise_values(runs: Sequence[History], keys: Sequence[str]) -> list[Advice]:
    """Name the best values, and the bad ones with the evidence; at most five.

    A value is bad if each run with it failed, or is clearly behind the best run at the last
    validation that both have.
    """
    scored = sorted((run for run in runs if run.scored), key=standing_of)
    if not scored:
        return []
    best = scored[0]
    others = [run for run in scored[1:] if run.score == best.score]
    is_curve, keys = SHARE in keys, [key for key in keys if key not in {SEED, SHARE}]
    assert best.best is not None
    score = best.best.score
    learned = best.score == LOSS or score <= SATURATED
    advice = []
    if is_curve:
        text = "`danish-asr advise OUTDIR --learning-curve` says what more hours give"
        advice = [Advice(f"the runs differ in {SHARE}", text)]
    if others and learned and (keys or not is_curve):
        advice.append(_keep(best, others, keys))
    elif others and not learned:
        evidence = f"the best run on dev, {best.run.name}, has {best.score} {score:.2f}"
        text = "the runs are hardly trained and say little about values: raise regime.num_steps"
        advice.append(Advice(evidence, text))
    bad: dict[Path, str | None] = {}
    for run in runs:
        if run.state == FAILED_STATE:
            reason = shorten(run.reason, 60, placeholder=" ...")
            bad[run.run] = f"the run {run.run.name} failed: {reason}"
        elif learned and run in others:
            bad[run.run] = _behind(run, best)
    return [*advice, *_bad_values(runs, keys, bad)][:MOST]


def _bad_values(
    runs: Sequence[History], keys: Iterable[str], bad: Mapping[Path, str | None]
) -> Iterator[Advice]:
    """Yield the values of which each run is bad; ``bad`` has the evidence of a run, or None."""
    for key in keys:
        evidence: dict[str, list[str | None]] = {}
        for run in runs:
            evidence.setdefault(as_text(run.config.get(key)), []).append(bad.get(run.run))
        for value, texts in evidence.items():
            if texts[0] and all(texts):
                yield Advice(texts[0], f"leave out {key}={value}, which is bad here")


def _keep(best: History, others: Sequence[History], keys: Sequence[str]) -> Advice:
    """Return what the best run has, and whether to try more extreme values or other seeds."""
    model = best.best
    assert model is not None
    values = ", ".join(f"{key}={as_text(best.config.get(key))}" for key in keys)
    texts = [f"keep {values}" if values else "keep it"]
    for key in keys:
        tried = [run.config.get(key) for run in (best, *others)]
        numbers = [value for value in tried if isinstance(value, int | float)]
        if len(set(numbers)) < 2 or len(numbers) < len(tried):
            continue
        if best.config[key] == min(numbers):
            texts.append(f"it is the smallest {key} tried: try a smaller one too")
        elif best.config[key] == max(numbers):
            texts.append(f"it is the largest {key} tried: try a larger one too")
    ended = [run for run in others if run.scored[-1]["Step"] >= best.scored[-1]["Step"]]
    second = ended[0].best.score if ended and ended[0].best else None
    if second is not None and _close(model.score, second, best):
        texts.append(
            f"{ended[0].run.name} is close with {second:.2f}: to tell both apart, train each "
            f"with several seeds ({SEED})"
        )
    return Advice(
        f"the run {best.run.name} is the best on dev, with {best.score} {model.score:.2f} at step "
        f"{model.step}",
        "; ".join(texts),
    )


def _close(score: float, second: float, best: History) -> bool:
    """Whether one run each does not say which is better.

    The standard deviation of a number of errors is at least about its square root.
    """
    limit = _CLOSE * score
    samples = best.scored[-1].get("Number of Source Elements")
    if best.score == _ALL and samples:
        words = _WORDS_PER_SECOND * samples / SAMPLE_RATE
        errors = score / 100 * words
        limit = max(limit, 100 * (errors + sqrt(errors)) / words)
    return score <= second < limit


def standing_of(run: History) -> tuple[bool, tuple[float, float]]:
    """Return what orders runs, the best first; those that were not validated come last."""
    best = best_until(run.validations, run.score)
    return best is None, best[0] if best else (0, 0)


def _behind(run: History, best: History) -> str | None:
    """Return the evidence that a run is clearly behind the best one, if it is."""
    step = min(run.scored[-1]["Step"], best.scored[-1]["Step"])
    of_run, of_best = (best_until(each.validations, run.score, step) for each in (run, best))
    if of_run is None or of_best is None:
        return None
    (score, _), row = of_run
    (best_score, _), best_row = of_best
    title, worse = (run.score, _WORSE) if score != best_score else (LOSS, _MUCH_WORSE)
    if row[title] < worse * best_row[title]:
        return None
    return (
        f"up to step {step} the run {run.run.name} has {title} {row[title]:.2f} on dev, "
        f"{best.run.name} {best_row[title]:.2f}"
    )
