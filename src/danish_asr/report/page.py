"""The page of scores."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from danish_asr.base.errors import DatasetError
from danish_asr.base.schema import VERSION_DIR
from danish_asr.report import wording
from danish_asr.report.components import RateAxis, audio_url, curves_chart, render_template
from danish_asr.report.run_history import Panel
from danish_asr.report.tables import warn
from danish_asr.scoring.error_analysis import WORST_WORDS, ErrorAnalysis
from danish_asr.scoring.groupings import MEASURES
from danish_asr.scoring.scores import GroupScore, Scores

FREQUENT: Final = 30
"""The most frequent errors of each kind are listed."""

MAX_CLIP_BYTES: Final = 1_000_000
"""About a minute of speech; longer clips are left out to keep the page small."""


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
    # No row has a value of these columns.
    absent = [
        name
        for name, part in scores.groupings.items()
        if [group.label for group in part.groups] == ["unknown"]
    ]
    return render_template(
        "page.html",
        about=about,
        name=_name(about),
        scores=scores,
        groupings={
            name: part.groups if name in MEASURES else sorted(part.groups, key=_worst_first)
            for name, part in scores.groupings.items()
            if part.groups and name not in absent
        },
        absent=absent,
        bands=MEASURES,
        axis=RateAxis(scores),
        metrics=metrics,
        other_headings=[f"{metric.title} %" for metric in metrics[1:]],
        analysis=analysis,
        frequent={
            "substitutions": analysis.substitutions[:FREQUENT],
            "insertions": analysis.insertions[:FREQUENT],
            "deletions": analysis.deletions[:FREQUENT],
            "characters": analysis.character_confusions[:FREQUENT],
        },
        categories={
            line.category: [other for other in analysis.categories if other[0] == line.category]
            for line in analysis.categories
        },
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
                f"{shard}: cannot be read ({error}); `danish-asr verify` finds all such files; "
                "convert them again, or score without --dataset"
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
