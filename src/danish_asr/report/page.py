"""The HTML page: one file without external links, for screens, phones, paper and dark mode.

Jinja escapes every text from the data. A ``Content-Security-Policy`` allows the page's own script
by its hash and forbids any other script or request, so HTML in a hypothesis is shown as text.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from rich.console import Console

from danish_asr import __version__
from danish_asr.errors import DatasetError
from danish_asr.report import wording
from danish_asr.report.charts import curves_chart, rate_chart
from danish_asr.report.curves import Panel
from danish_asr.report.tables import warn
from danish_asr.schema import VERSION_DIR
from danish_asr.scoring.error_analysis import ErrorAnalysis
from danish_asr.scoring.scores import Scores

_CLIPS: Final = 10
MAX_CLIP_BYTES: Final = 1_000_000
"""About a minute of speech; longer clips are left out to keep the page small."""

_MOST_IN_A_CHART: Final = 40
"""Groups. More do not fit into a chart; the table can be sorted."""

_MOST_WORDS: Final = 300
"""Words shown of an utterance; one of an hour would make the page too large."""


def render_page(
    scores: Scores,
    analysis: ErrorAnalysis,
    *,
    about: Mapping[str, str] | None = None,
    panels: Sequence[Panel] = (),
    clips: Mapping[str, str] | None = None,
) -> str:
    """Return the page.

    ``about`` says what was scored (dataset, model, checkpoint); ``clips`` maps ids of utterances to
    ``data:`` URLs of audio.
    """
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    for function in (wording.percent, wording.bounds, wording.sentence, wording.short):
        environment.filters[function.__name__] = function
    script = _resource("page.js")
    return environment.from_string(_resource("page.html")).render(
        about=about or {},
        scores=scores,
        analysis=analysis,
        clips=clips or {},
        wording=wording,
        version=__version__,
        most_words=_MOST_WORDS,
        charts={
            name: _trusted(
                rate_chart(
                    f"chart-{name}",
                    f"WER {wording.grouping_title(name)}",
                    part.groups,
                    scores.overall.wer.value,
                )
            )
            for name, part in scores.groupings.items()
            if 0 < len(part.groups) <= _MOST_IN_A_CHART
        },
        training={
            panel.title: _trusted(curves_chart(f"training-{panel.title}", panel))
            for panel in panels
        },
        style=_trusted(_resource("page.css")),
        script=_trusted(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _trusted(text: str) -> Markup:
    """Files of this package, and charts, in which matplotlib has escaped all texts."""
    return Markup(text)  # noqa: S704 - see the docstring


def _resource(name: str) -> str:
    return (files("danish_asr.report") / name).read_text(encoding="utf-8")


def worst_clips(dataset: Path, analysis: ErrorAnalysis, console: Console) -> dict[str, str]:
    """Return `audio_urls` of the worst utterances, with a warning if some are missing."""
    worst = [utterance.row.id for utterance in analysis.worst[:_CLIPS]]
    clips = audio_urls(dataset, worst)
    if len(clips) < len(worst):
        warn(
            f"{dataset}: has audio of {len(clips)} of the {len(worst)} worst utterances, in clips "
            f"of at most {MAX_CLIP_BYTES / 1e6:g} MB; is it the dataset that was evaluated?",
            console,
        )
    return clips


def audio_urls(dataset: Path, ids: Collection[str]) -> dict[str, str]:
    """Return a ``data:`` URL with FLAC for each of ``ids`` that the dataset has.

    Only the row groups that hold one of them are read.

    Raises:
        DatasetError: ``dataset`` is not a built dataset, or one of its files is damaged.
    """
    shards = sorted((dataset / VERSION_DIR).rglob("*.parquet"))
    if not shards:
        raise DatasetError(
            f"{dataset}: no {VERSION_DIR}/**/*.parquet there; expected the root of a dataset that "
            "`danish-asr convert` built"
        )
    urls: dict[str, str] = {}
    for shard in shards:
        try:
            urls |= _clips(shard, set(ids) - urls.keys())
        except (OSError, ValueError, LookupError, pa.ArrowException) as error:
            raise DatasetError(
                f"{shard}: cannot be read ({error}); `danish-asr verify` finds all such files; "
                "convert them again, or score without --dataset"
            ) from None
    return urls


def _clips(shard: Path, ids: Collection[str]) -> Iterator[tuple[str, str]]:
    with pq.ParquetFile(shard) as file:
        for group in range(file.num_row_groups if ids else 0):
            names = file.read_row_group(group, columns=["id"])["id"].to_pylist()
            if not set(ids).isdisjoint(names):
                audio = file.read_row_group(group, columns=["audio_bytes"])["audio_bytes"]
                for name, clip in zip(names, audio.cast(pa.binary()), strict=True):
                    flac = clip.as_py()
                    if name in ids and flac and len(flac) <= MAX_CLIP_BYTES:
                        yield name, "data:audio/flac;base64," + base64.b64encode(flac).decode()
