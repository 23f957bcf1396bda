"""What a run's files, its evaluations included, say about what to do next."""

from typing import Final

from danish_asr.recipe.run.advice import Advice, Rows, advise
from danish_asr.report import wording
from danish_asr.report.run.evaluations import Evaluation, evaluations
from danish_asr.report.run.history import COMPLETE, History
from danish_asr.scoring.scores import Scores

_BEHIND: Final = 1.5
"""A dialect's WER of so many times that of all rows."""

_VALIDATIONS: Final = 3
"""In so many validations in a row a dialect is behind, where there is no evaluation."""

_DELETIONS: Final = 0.5
"""The part of the word errors."""

_FEW: Final = 0.02
"""Deletions per word of the reference that are too few to matter."""

_DIALECT: Final = "wer/dialect/"
_ALL: Final = "Word Error Rate (WER)"
_MORE: Final = (
    "add recordings of it, give a corpus that has it a larger share "
    "(dataset.mixture_parquet_storage_config.beta_corpus below 1), or choose the checkpoint by "
    "regime.score_metric=worst_group_wer"
)


def advise_run(history: History) -> list[Advice]:
    """Return what a run shows, what gains most first, at most five."""
    found = evaluations(history.run)
    greedy = [each for each in found if each.decoder.startswith("greedy")]
    if found:
        dialect = dialect_behind(found[0].scores)
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
    every = scores.overall.wer
    groups = [
        g for g in scores.groupings["dialect"].groups if g.wer.interval and g.group["dialect"]
    ]
    worst = max(groups, key=lambda group: group.wer.value, default=None)
    if worst is None or worst.wer.interval is None or worst.wer.value < _BEHIND * every.value:
        return None
    if worst.wer.interval.low <= (every.interval or (0, every.value))[1]:
        return None
    own, whole = (
        f"{wording.percent(wer.value)} % ({wording.bounds(wer.interval)})"
        for wer in (worst.wer, every)
    )
    evidence = f"{worst.label} has a WER of {own}, all rows {whole}"
    return Advice(evidence, f"{worst.label} is far behind: {_MORE}")


def dialect_behind_in_validation(validations: Rows) -> Advice | None:
    """Name the dialect with the highest WER in each of the last validations, if it is behind."""
    rows = [row for row in validations if _ALL in row][-_VALIDATIONS:]
    worst = [
        max((value, key) for key, value in row.items() if key.startswith(_DIALECT))
        for row in rows
        if any(key.startswith(_DIALECT) for key in row)
    ]
    names = {key.removeprefix(_DIALECT) for _, key in worst}
    behind = all(w > _BEHIND * row[_ALL] for (w, _), row in zip(worst, rows, strict=False))
    if len(worst) < _VALIDATIONS or len(names) > 1 or not behind:
        return None
    lowest, highest = min(worst)[0], max(worst)[0]
    return Advice(
        f"in the last {_VALIDATIONS} validations {names.pop()} has a WER of {lowest:.1f} to "
        f"{highest:.1f} %, all rows {min(row[_ALL] for row in rows):.1f} to "
        f"{max(row[_ALL] for row in rows):.1f} %",
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
