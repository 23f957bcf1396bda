"""The HTML page: one file without any link, readable on paper, on a phone and in the dark.

Every text from the data goes through Jinja's escaping. The page's own script is allowed by its
hash, and nothing else may run or be fetched (``Content-Security-Policy``), so a hypothesis that
holds HTML is shown as what was heard.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from danish_asr import __version__
from danish_asr.report import wording
from danish_asr.report.charts import rate_chart, training_chart
from danish_asr.report.training import Panel
from danish_asr.scoring.error_analysis import ErrorAnalysis
from danish_asr.scoring.scores import Scores

_MOST_IN_A_CHART: Final = 40
"""Groups. More make no picture, and the table can be sorted."""

_MOST_WORDS: Final = 300
"""Words of a worst utterance that are shown; one of hours would swell the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageData:
    """What a page is made of.

    ``about`` says what was scored (dataset, model, checkpoint); ``clips`` maps ids of utterances
    to ``data:`` URLs.
    """

    title: str
    scores: Scores
    analysis: ErrorAnalysis
    about: Mapping[str, str] = field(default_factory=dict)
    training: Sequence[Panel] = ()
    clips: Mapping[str, str] = field(default_factory=dict)


def render_page(data: PageData) -> str:
    """Return the page as a string."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "percent": wording.percent,
        "points": wording.points,
        "bounds": wording.bounds,
        "why": wording.why,
        "sentence": wording.sentence,
        "short": wording.short,
    }
    script = _resource("page.js")
    template = environment.from_string(_resource("page.html"))
    return template.render(
        data=data,
        scores=data.scores,
        analysis=data.analysis,
        wording=wording,
        version=__version__,
        charts=_charts(data.scores),
        most_words=_MOST_WORDS,
        training=_training(data.training),
        style=Markup(_resource("page.css")),  # noqa: S704 - a file of this package
        script=Markup(script),  # noqa: S704 - a file of this package
        script_hash=_hash(script),
    )


def _charts(scores: Scores) -> dict[str, Markup]:
    overall = scores.overall.wer.value
    return {
        name: Markup(  # noqa: S704 - matplotlib escapes its texts
            rate_chart(f"chart-{name}", f"WER {wording.grouping_title(name)}", part.groups, overall)
        )
        for name, part in scores.groupings.items()
        if 0 < len(part.groups) <= _MOST_IN_A_CHART
    }


def _training(panels: Sequence[Panel]) -> list[dict[str, Any]]:
    return [
        {
            "title": panel.title,
            "chart": Markup(  # noqa: S704 - matplotlib escapes its texts
                training_chart(
                    f"training-{panel.title}",
                    panel.title,
                    panel.unit,
                    panel.curves,
                    along=panel.along,
                    marks=panel.marks,
                )
            ),
        }
        for panel in panels
    ]


def _resource(name: str) -> str:
    return (files("danish_asr.report") / name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
