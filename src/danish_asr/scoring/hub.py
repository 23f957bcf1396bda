"""Scores for Hugging Face: the ``model-index`` of a model card, and the Danish leaderboard's JSON.

https://huggingface.co/docs/hub/model-cards#evaluation-results; the leaderboard is RyeAI's.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import mean
from typing import Any, Final, TypeAlias

from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.scoring.digests import Digests
from danish_asr.scoring.scores import GroupScore, Scores
from danish_asr.scoring.settings import Settings

DigestsByCorpus: TypeAlias = Mapping[tuple[str | None, str | None], Digests]

BY_CORPUS: Final = "corpus,split"
"""The grouping that both need."""

LEADERBOARD_CORPORA: Final = (
    *("coral_conversation", "coral_read_aloud", "cv17_da", "fleurs_da", "ftspeech"),
)
_RULES: Final = Settings(profile="rye", row_filter="rye", denominator="standard")
_TASK: Final = "automatic-speech-recognition"


def model_index(scores: Scores, model: str, digests: DigestsByCorpus) -> str:
    """Return the metadata of a model card in YAML, with a result per corpus and split."""
    from huggingface_hub import EvalResult, ModelCardData  # noqa: PLC0415 - slow

    rows = scores.rows
    about = scores.settings.to_dict()
    if rows.in_split is None:
        about |= {"rows_in_split": "unknown"}
    elif rows.where:
        about |= {"rows_in_split": rows.in_split, "where": rows.where}
    titles = {metric.name: metric.title for metric in scores.settings.all_metrics}
    results = []
    for group in _whole_corpora(scores):
        corpus = group.group["corpus"] or "unknown"
        name = f"{corpus}, where {rows.where}" if rows.where else corpus
        for metric, estimate in group.rates.items():
            hashes = digests[group.group["corpus"], group.group["split"]]._asdict()
            args = {"unit": "%", "rows": group.rows, **about, **hashes}
            if estimate.interval:
                args["interval_95"] = [_percent(bound) for bound in estimate.interval]
            results.append(
                EvalResult(
                    task_type=_TASK,
                    task_name="Automatic Speech Recognition",
                    dataset_type=corpus,
                    dataset_name=name,
                    dataset_split=group.group["split"],
                    metric_type=metric,
                    metric_name=titles[metric],
                    metric_value=_percent(estimate.value),
                    metric_args=args,
                )
            )
    card = ModelCardData(
        model_name=model,
        eval_results=results,
        language="da",
        pipeline_tag=_TASK,
        metrics=list(titles),
    )
    return card.to_yaml() + "\n"


def check_publishable(settings: Settings, model: str, *, leaderboard: bool) -> None:
    """Refuse scores without the name of a model, or with other settings than the leaderboard's."""
    faults = []
    if not model:
        faults.append("--model-name: expected one, as no evaluation.json names the model")
    rules = ("profile", "remove_fillers", "row_filter", "denominator")
    chosen = {name: getattr(settings, name) for name in rules}
    if leaderboard and chosen != {name: getattr(_RULES, name) for name in rules}:
        needed = "--profile rye --filter rye --denominator standard"
        shown = ", ".join(f"{name} {value}" for name, value in chosen.items())
        faults.append(f"the leaderboard's rules are {needed}; found {shown}")
    if faults:
        raise ConfigError(faults, where="the command line")


def complete_leaderboard(
    path: Path, scores: Scores, model: str, digests: DigestsByCorpus
) -> dict[str, Any]:
    """Return the results of the file with the rates of these corpora, in per cent.

    What is not known is None; so are the means until all five corpora are there.
    """
    return _leaderboard(scores, model, _earlier_results(path), digests)


def _earlier_results(path: Path) -> dict[str, Any]:
    """Return the content of the file, or nothing if there is none."""
    try:
        earlier = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        for about in earlier.get("scored", {}).values():
            about["profile_version"]
    except (ValueError, AttributeError, TypeError, KeyError) as error:
        raise PredictionsError(
            f"{path}: not the results of a leaderboard ({type(error).__name__}: {error}); "
            "restore or remove the file"
        ) from None
    return dict(earlier)


def _leaderboard(
    scores: Scores, model: str, earlier: Mapping[str, Any], digests: DigestsByCorpus
) -> dict[str, Any]:
    rows = scores.rows
    if rows.where:
        raise PredictionsError(
            f"the leaderboard needs the whole split; found {rows.scored:,} rows{rows.of_split()}"
        )
    if rows.in_split is None:
        raise PredictionsError(
            f"the leaderboard needs the whole split; the size of the split of these "
            f"{rows.in_file:,} rows is unknown; name the dataset: --dataset ROOT"
        )
    if earlier.get("model", model) != model:
        raise PredictionsError(
            f"the leaderboard's file has results of {earlier['model']!r}, these are of {model!r}"
        )
    version = scores.settings.to_dict()["profile_version"]
    scored = dict(earlier.get("scored", {}))
    others = {about["profile_version"] for about in scored.values()} - {version}
    if others:
        raise PredictionsError(
            f"the leaderboard's file has results of version {', '.join(map(str, others))} of the "
            f"profile, these are of version {version}; score all corpora into a new file"
        )
    about = {"profile": scores.settings.profile, "profile_version": version}
    rates: dict[str, float] = {}
    for group in _whole_corpora(scores):
        corpus = group.group["corpus"]
        if corpus in LEADERBOARD_CORPORA and group.group["split"] == "test":
            rates[f"{corpus}_wer"] = _percent(group.wer.value)
            rates[f"{corpus}_cer"] = _percent(group.cer.value)
            scored[corpus] = about | digests[corpus, "test"]._asdict()
    if not rates:
        known = ", ".join(LEADERBOARD_CORPORA)
        raise PredictionsError(
            f"no row of split test has one of the leaderboard's corpora: {known}"
        )
    columns = [f"{corpus}_{metric}" for metric in ("wer", "cer") for corpus in LEADERBOARD_CORPORA]
    empty = dict.fromkeys([*columns, "mean_wer", "mean_cer", "params_b", "speed_x"])
    result: dict[str, Any] = {"model": model, **empty, **earlier, **rates, "scored": scored}
    for metric in ("wer", "cer"):
        values = [result[f"{corpus}_{metric}"] for corpus in LEADERBOARD_CORPORA]
        result[f"mean_{metric}"] = None if None in values else round(mean(values), 2)
    return result


def _whole_corpora(scores: Scores) -> Iterator[GroupScore]:
    rows = scores.rows
    if rows.partial and not rows.where:
        raise PredictionsError(
            f"the predictions are partial ({rows.in_file} of {rows.in_split} rows); only those of "
            "a whole split are published: add the missing rows, or leave out this output"
        )
    for group in scores.groupings[BY_CORPUS].groups:
        if group.words.reference_length:  # there is no rate without a reference word
            yield group


def _percent(rate: float) -> float:
    return round(100 * rate, 2)
