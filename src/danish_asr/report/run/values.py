"""What several runs say about the values in which they differ."""

from collections.abc import Iterable, Sequence
from textwrap import shorten
from typing import Final

from danish_asr.recipe.run.advice import LOSS, MOST, SATURATED, Advice, best_until
from danish_asr.report.run.configuration import shown
from danish_asr.report.run.history import FAILED_STATE, History

_WORSE: Final = 1.2
"""A score of so many times the best run's is a bad one."""

_CLOSE: Final = 1.05
"""One run each does not distinguish a score below this multiple of the best from the best."""

_MUCH_WORSE: Final = 3.0
"""The same of the loss, by which runs are judged before an error rate says anything."""

_SEED: Final = "common.seed"


def advise_values(runs: Sequence[History], keys: Iterable[str]) -> list[Advice]:
    """Name the best values, and the bad ones with the evidence; at most five.

    A value is bad if each run with it failed, or is clearly behind the best run at the last
    validation that both have.
    """
    scored = [run for run in runs if run.scored]
    if not scored:
        return []
    best, *others = sorted(scored, key=place)
    others = [run for run in others if run.score == best.score]
    keys = [key for key in keys if key != _SEED]
    score = best.models[0][0]
    learned = best.score == LOSS or score <= SATURATED
    found = []
    if others and learned:
        found = [_keep(best, others, keys)]
    elif others:
        shows = f"the best run on dev, {best.run.name}, has {best.score} {score:.2f}"
        text = "the runs are hardly trained and say little about values: raise regime.num_steps"
        found = [Advice(shows, text)]
    failed = {run.run: evidence for run in runs if (evidence := _failure(run))}
    behind = {run.run: evidence for run in others if learned and (evidence := _behind(run, best))}
    bad = behind | failed
    for key in keys:
        for value, own in _by_value(runs, key).items():
            if all(run.run in bad for run in own):
                text = f"leave out {key}={value}, which is bad here"
                found.append(Advice(bad[own[0].run], text))
    return found[:MOST]


def _keep(best: History, others: Sequence[History], keys: Sequence[str]) -> Advice:
    """Return what the best run has, and whether to try more extreme values or other seeds."""
    score, _, step = best.models[0]
    values = ", ".join(f"{key}={shown(best.config.get(key))}" for key in keys)
    texts = [f"keep {values}" if values else "keep it"]
    for key in keys:
        tried = [run.config.get(key) for run in (best, *others)]
        numbers = [each for each in tried if isinstance(each, int | float)]
        if len({*numbers}) > 2 and len(numbers) == len(tried):
            ends = {min(numbers): "smallest", max(numbers): "largest"}
            if end := ends.get(best.config[key]):
                texts.append(f"it is the {end} {key} tried: try a {end.replace('st', 'r')} one too")
    ended = [run for run in others if run.scored[-1]["Step"] >= best.scored[-1]["Step"]]
    second = ended[0].models[0][0] if ended else 0.0
    if score <= second < _CLOSE * score:
        texts.append(
            f"{ended[0].run.name} is close with {second:.2f}: to tell both apart, train each with "
            f"several seeds ({_SEED})"
        )
    name = best.run.name
    evidence = f"the run {name} is the best on dev, with {best.score} {score:.2f} at step {step}"
    return Advice(evidence, "; ".join(texts))


def place(run: History) -> tuple[bool, tuple[float, float]]:
    """Return what orders runs, the best first; those that were not validated come last."""
    best = best_until(run.validations, run.score)
    return best is None, best[0] if best else (0, 0)


def _by_value(runs: Iterable[History], key: str) -> dict[str, list[History]]:
    found: dict[str, list[History]] = {}
    for run in runs:
        found.setdefault(shown(run.config.get(key)), []).append(run)
    return found


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
    if row.get(title, 0) < worse * best_row.get(title, 1):  # older versions had no such loss
        return None
    return (
        f"up to step {step} the run {run.run.name} has {title} {row[title]:.2f} on dev, "
        f"{best.run.name} {best_row[title]:.2f}"
    )
