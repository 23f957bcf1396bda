"""What to do next: by a run's metrics and evaluations, or by the values in which runs differ."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Final

from danish_asr.recipe.run.advice import (
    LOSS,
    MOST,
    SATURATED,
    Advice,
    Rows,
    advise,
    best_until,
)
from danish_asr.report import wording
from danish_asr.report.run_evaluations import Evaluation, evaluations
from danish_asr.report.run_history import COMPLETE, FAILED_STATE, History, as_text
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

_SEED: Final = "common.seed"


def advise_run(history: History) -> list[Advice]:
    """Return what a run shows, what gains most first, at most five."""
    finished = evaluations(history.run)
    greedy = [each for each in finished if each.decoder.startswith("greedy")]
    if finished:
        dialect = dialect_behind(finished[0].scores)
    else:
        dialect = dialect_behind_in_validation(history.validations)
    return advise(
        history.reports,
        history.validations,
        history.score,
        history.config,
        complete=history.state == COMPLETE,
        scored=[dialect, deletions(greedy[0]) if greedy else None],
    )


def dialect_behind(scores: Scores) -> Advice | None:
    """Name the dialect with the highest WER if its interval is above that of all rows."""
    overall = scores.overall.wer
    groups = [g for g in scores.groupings["dialect"].groups if g.group["dialect"]]
    groups = [group for group in groups if group.wer.interval]
    worst = max(groups, key=lambda group: group.wer.value, default=None)
    if worst is None or worst.wer.interval is None or worst.wer.value < _BEHIND * overall.value:
        return None
    highest = overall.interval.high if overall.interval else overall.value
    if worst.wer.interval.low <= highest:
        return None
    own, whole = (
        f"{wording.percent(wer.value)} % ({wording.bounds(wer.interval)})"
        for wer in (worst.wer, overall)
    )
    evidence = f"{worst.label} has a WER of {own}, all rows {whole}"
    return Advice(evidence, f"{worst.label} is far behind: {_MORE}")


def dialect_behind_in_validation(validations: Rows) -> Advice | None:
    """Name the dialect with the highest WER in each of the last validations, if it is behind."""
    rows = [row for row in validations if _ALL in row][-_VALIDATIONS:]
    worst_keys, rates = set(), []
    for row in rows:
        dialects = [key for key in row if key.startswith(DIALECT)]
        if not dialects:
            return None
        key = max(dialects, key=lambda name: row[name])
        if row[key] <= _BEHIND * row[_ALL]:
            return None
        worst_keys.add(key)
        rates.append(row[key])
    if len(rows) < _VALIDATIONS or len(worst_keys) > 1:
        return None
    name = worst_keys.pop().removeprefix(DIALECT)
    overall = [row[_ALL] for row in rows]
    return Advice(
        f"in the last {_VALIDATIONS} validations {name} has a WER of {min(rates):.1f} to "
        f"{max(rates):.1f} %, all rows {min(overall):.1f} to {max(overall):.1f} %",
        f"it is far behind; `danish-asr evaluate` gives its interval. If that is apart, {_MORE}",
    )


def deletions(evaluation: Evaluation) -> Advice | None:
    """Whether most errors of greedy decoding are words that are missed."""
    words = evaluation.scores.overall.words
    share = words.deletions / max(words.errors, 1)
    if share < _DELETIONS or words.deletions < _FEW * words.reference_length:
        return None
    return Advice(
        f"{share:.0%} of the word errors on {evaluation.split} are deletions "
        f"({words.deletions:,} of {words.errors:,})",
        "decode with a language model (decoder.name=beam, decoder.config.lm), and raise its bonus "
        "per word, decoder.config.beta",
    )


def advise_values(runs: Sequence[History], keys: Iterable[str]) -> list[Advice]:
    """Name the best values, and the bad ones with the evidence; at most five.

    A value is bad if each run with it failed, or is clearly behind the best run at the last
    validation that both have.
    """
    scored = [run for run in runs if run.scored]
    if not scored:
        return []
    best, *others = sorted(scored, key=standing_of)
    others = [run for run in others if run.score == best.score]
    keys = [key for key in keys if key != _SEED]
    score = best.models[0].score
    learned = best.score == LOSS or score <= SATURATED
    advice = []
    if others and learned:
        advice = [_keep(best, others, keys)]
    elif others:
        evidence = f"the best run on dev, {best.run.name}, has {best.score} {score:.2f}"
        text = "the runs are hardly trained and say little about values: raise regime.num_steps"
        advice = [Advice(evidence, text)]
    bad = {run.run: _failure(run) for run in runs}
    if learned:
        bad |= {run.run: bad[run.run] or _behind(run, best) for run in others}
    return [*advice, *_bad_values(runs, keys, bad)][:MOST]


def _bad_values(
    runs: Sequence[History], keys: Iterable[str], bad: Mapping[Path, str | None]
) -> Iterator[Advice]:
    """Yield the values of which each run is bad; ``bad`` has the evidence of a run, or None."""
    for key in keys:
        by_value: dict[str, list[History]] = {}
        for run in runs:
            by_value.setdefault(as_text(run.config.get(key)), []).append(run)
        for value, runs_of_value in by_value.items():
            evidence = [bad[run.run] for run in runs_of_value]
            if evidence[0] and all(evidence):
                yield Advice(evidence[0], f"leave out {key}={value}, which is bad here")


def _keep(best: History, others: Sequence[History], keys: Sequence[str]) -> Advice:
    """Return what the best run has, and whether to try more extreme values or other seeds."""
    model = best.models[0]
    values = ", ".join(f"{key}={as_text(best.config.get(key))}" for key in keys)
    texts = [f"keep {values}" if values else "keep it"]
    for key in keys:
        tried = [run.config.get(key) for run in (best, *others)]
        numbers = [value for value in tried if isinstance(value, int | float)]
        if len(set(numbers)) < 3 or len(numbers) < len(tried):
            continue
        if best.config[key] == min(numbers):
            texts.append(f"it is the smallest {key} tried: try a smaller one too")
        elif best.config[key] == max(numbers):
            texts.append(f"it is the largest {key} tried: try a larger one too")
    ended = [run for run in others if run.scored[-1]["Step"] >= best.scored[-1]["Step"]]
    if ended:
        second = ended[0].models[0].score
        if model.score <= second < _CLOSE * model.score:
            texts.append(
                f"{ended[0].run.name} is close with {second:.2f}: to tell both apart, train each "
                f"with several seeds ({_SEED})"
            )
    return Advice(
        f"the run {best.run.name} is the best on dev, with {best.score} {model.score:.2f} at step "
        f"{model.step}",
        "; ".join(texts),
    )


def standing_of(run: History) -> tuple[bool, tuple[float, float]]:
    """Return what orders runs, the best first; those that were not validated come last."""
    best = best_until(run.validations, run.score)
    return best is None, best[0] if best else (0, 0)


def _failure(run: History) -> str | None:
    if run.state != FAILED_STATE:
        return None
    return f"the run {run.run.name} failed: {shorten(run.reason, 60, placeholder=' ...')}"


def _behind(run: History, best: History) -> str | None:
    """Return the evidence that a run is clearly behind the best one, if it is."""
    step = min(run.scored[-1]["Step"], best.scored[-1]["Step"])
    own, other = (best_until(each.validations, run.score, step) for each in (run, best))
    if own is None or other is None:
        return None
    (score, _), row = own
    (best_score, _), best_row = other
    title, worse = (run.score, _WORSE) if score != best_score else (LOSS, _MUCH_WORSE)
    if row[title] < worse * best_row[title]:
        return None
    return (
        f"up to step {step} the run {run.run.name} has {title} {row[title]:.2f} on dev, "
        f"{best.run.name} {best_row[title]:.2f}"
    )
