"""The page of scores, and a chart of the groups for notebooks and papers."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib.figure import Figure
from rich.console import Console

from danish_asr.base.errors import ConfigError, DatasetError
from danish_asr.base.schema import VERSION_DIR
from danish_asr.report import wording
from danish_asr.report.components import RateAxis, audio_url, curves_chart, render_template
from danish_asr.report.corpora_table import corpora_table
from danish_asr.report.outputs import ReportOptions
from danish_asr.report.run_history import Panel, read_panels
from danish_asr.report.tables import warn
from danish_asr.scoring.error_analysis import WORST_WORDS, CategoryShare, ErrorAnalysis
from danish_asr.scoring.groupings import MEASURES
from danish_asr.scoring.scores import GroupScore, Scores

FREQUENT: Final = 30  # errors of each kind that are listed
_CLIPS: Final = 10  # utterances of each ranking that have audio
MAX_CLIP_BYTES: Final = 1_000_000  # about a minute; longer clips would make the page large


def score_page(
    path: Path,
    scores: Scores,
    analysis: ErrorAnalysis,
    *,
    about: Mapping[str, Any],
    options: ReportOptions,
    console: Console,
) -> str:
    """Return the page of a predictions file, with curves and audio if they are there."""
    run = options.run_dir or _run_of(path, about)
    dataset, evaluated = options.dataset, about.get("dataset_root")
    if not dataset and evaluated and (Path(evaluated) / VERSION_DIR).is_dir():
        dataset = evaluated
    clips: dict[str, str] = {}
    if dataset and options.audio:
        listed = [*analysis.worst[:_CLIPS], *analysis.worst_by_wer[:_CLIPS]]
        ids = {utterance.row.id for utterance in listed}
        clips = audio_clips(Path(dataset), ids, console)
    return render_page(
        scores,
        analysis,
        about={"file": "/".join(path.resolve().parts[-2:])} | dict(about),
        panels=read_panels(Path(run)) if run else [],
        clips=clips,
    )


def _run_of(predictions: Path, about: Mapping[str, Any]) -> Path | None:
    """The run whose model was evaluated, also if it was moved; None: it is no run's, or gone."""
    if not about.get("run"):
        return None
    for parent in [*predictions.resolve().parents, *Path(about["run"]).parents]:
        if (parent / "metrics" / "train.jsonl").is_file():
            return parent
    return None


def render_page(
    scores: Scores,
    analysis: ErrorAnalysis,
    *,
    about: Mapping[str, Any],
    panels: Sequence[Panel] = (),
    clips: Mapping[str, str],
) -> str:
    """Return the page.

    ``about`` says what was scored (file, dataset, model, checkpoint); ``clips`` maps ids of
    utterances to ``data:`` URLs of audio.
    """
    metrics = scores.settings.all_metrics
    listed = {utterance.row.id for utterance in analysis.worst}
    by_wer = {utterance.row.id for utterance in analysis.worst_by_wer}
    absent: list[str] = []  # no row has a value of these columns
    groupings: dict[str, Sequence[GroupScore]] = {}
    for name, part in scores.groupings.items():
        if [group.label for group in part.groups] == ["unknown"]:
            absent.append(name)
        elif part.groups:
            ordered = name in MEASURES
            groupings[name] = part.groups if ordered else sorted(part.groups, key=_worst_first)
    categories: dict[str, list[CategoryShare]] = {}
    for share in analysis.categories:
        categories.setdefault(share.category, []).append(share)
    return render_template(
        "page.html",
        about=about,
        name=_name(about),
        scores=scores,
        groupings=groupings,
        absent=absent,
        bands=MEASURES,
        axis=RateAxis(scores),
        corpora=corpora_table(scores),
        metrics=metrics,
        other_headings=[f"{metric.title} %" for metric in metrics[1:]],
        analysis=analysis,
        frequent={
            "substitutions": analysis.substitutions[:FREQUENT],
            "insertions": analysis.insertions[:FREQUENT],
            "deletions": analysis.deletions[:FREQUENT],
            "characters": analysis.character_confusions[:FREQUENT],
        },
        categories=categories,
        worst=[
            *analysis.worst,
            *(utterance for utterance in analysis.worst_by_wer if utterance.row.id not in listed),
        ],
        listed={"errors": listed, "wer": by_wer},
        worst_words=WORST_WORDS,
        clips=clips,
        wording=wording,
        training={panel.title: curves_chart(panel) for panel in panels},
    )


def _name(about: Mapping[str, Any]) -> str:
    """Return what was scored in a few words: run, model and dataset, or else the file."""
    model = PurePath(str(about.get("model") or about.get("checkpoint") or "")).name
    run = PurePath(str(about.get("run") or "")).parent.name  # of its checkpoints
    scored = "/".join(filter(None, (run, model)))
    return " on ".join(filter(None, (scored, about.get("dataset")))) or str(
        about.get("file", "Scores")
    )


def _worst_first(group: GroupScore) -> tuple[bool, float]:
    # Without a word in the references there is no rate.
    return group.wer.interval is None, -group.wer.value if group.words.reference_length else 0


def audio_clips(dataset: Path, ids: set[str], console: Console) -> dict[str, str]:
    """Return ``data:`` URLs with FLAC of utterances, with a warning if some are missing."""
    clips: dict[str, str] = {}
    for shard in sorted((dataset / VERSION_DIR).rglob("*.parquet")):
        if len(clips) == len(ids):
            break
        try:
            clips |= _clips(shard, ids)
        except (OSError, pa.ArrowException) as error:
            raise DatasetError(
                f"{shard}: cannot be read ({error}); `danish-asr verify` finds all such files"
            ) from None
    if len(clips) < len(ids):
        warn(
            f"{dataset}: has audio of {len(clips)} of the {len(ids)} worst utterances, in clips "
            f"of at most {MAX_CLIP_BYTES / 1e6:g} MB; is it the dataset that was evaluated?",
            console,
        )
    return clips


def _clips(shard: Path, ids: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the clips of a shard; only row groups that hold one of ``ids`` are read."""
    with pq.ParquetFile(shard) as file:
        for group in range(file.num_row_groups):
            names = file.read_row_group(group, columns=["id"])["id"].to_pylist()
            if not ids.isdisjoint(names):
                audio = file.read_row_group(group, columns=["audio_bytes"])["audio_bytes"]
                for name, clip in zip(names, audio.cast(pa.binary()), strict=True):
                    flac = clip.as_py()
                    if name in ids and flac and len(flac) <= MAX_CLIP_BYTES:
                        yield name, audio_url(flac)


def plot_groups(scores: Scores, grouping: str) -> Figure:
    """Return WER per group with 95 % intervals; a hollow dot has none, the line is all rows.

    Save it with ``figure.savefig("groups.pdf")``; a notebook shows it as it is.

    Raises:
        ConfigError: The scores do not have the grouping.
    """
    if grouping not in scores.groupings:
        known = ", ".join(scores.groupings)
        raise ConfigError([f"unknown grouping '{grouping}'; scored: {known or 'none'}"])
    groups = scores.groupings[grouping].groups
    figure = Figure(figsize=(6, 1 + 0.4 * len(groups)), layout="constrained")
    axes = figure.add_subplot()
    for place, group in enumerate(reversed(groups)):
        interval = group.wer.interval
        if interval:
            axes.plot([100 * bound for bound in interval], [place] * 2, color="C0", lw=2)
        fill = "C0" if interval else "white"
        axes.plot(100 * group.wer.value, place, "o", color="C0", mfc=fill, ms=7, clip_on=False)
    axes.axvline(100 * scores.overall.wer.value, color="0.5", lw=1, ls="--")
    labels = [
        f"{wording.short(group.label, 30)} ({wording.count(group.speakers)})"
        for group in reversed(groups)
    ]
    axes.set_yticks(range(len(groups)), labels, parse_math=False)
    axes.set_xlim(left=0)
    axes.set_xlabel("WER %")
    axes.set_title(f"{wording.sentence(wording.grouping_title(grouping))} (speakers)", fontsize=10)
    axes.grid(visible=True, axis="x", alpha=0.4)
    return figure
