"""Charts as inline SVG, and the axis of the groups."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pandas as pd
import pytest

from danish_asr.report import wording
from danish_asr.report.components import RateAxis, curves_chart
from danish_asr.report.run_history import Panel
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.scores import score_predictions
from tests.score_rows import prediction, random_rows

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("label", ["WER", "<b>&amp;", "$x^2$ og $", "a" * 80])
def test_any_label_makes_a_chart_that_is_xml_in_the_colours_of_the_page(label: str) -> None:
    chart = curves_chart(Panel(label, "%", {label: pd.Series([9.0, 5.0], [1, 2])}))
    root = ET.fromstring(chart)  # noqa: S314 - made a line above
    texts = ["".join(node.itertext()).strip() for node in root.iter(f"{SVG}text")]
    assert label in texts
    assert root.findtext(f"{SVG}title") == label
    assert f"{label}: 9 at step 1, lowest 5" in (root.findtext(f"{SVG}desc") or "")
    assert "var(--accent)" in chart
    assert re.findall(r"(?:fill|stroke|color): *(#[0-9a-f]{3,6})", chart) == []


def _extreme(words: int) -> list[Prediction]:
    """WER is about 1500 %; 100 words in a group give it an interval."""
    return [
        prediction(
            f"x{n}", "ja " * words, "nej " * (15 * words + n), dialect="X", speaker_id=f"x{n}"
        )
        for n in range(8)
    ]


@pytest.mark.parametrize(
    ("rows", "limit"),
    [
        ([*random_rows(2000), *_extreme(1)], 40),  # all other intervals end below 40 %
        ([*random_rows(2000), *_extreme(15)], 40),
        (_extreme(1), 2000),
        ([prediction("a", "ja", "ja", dialect="Fynsk")], 1),
    ],
)
def test_one_extreme_group_does_not_stretch_the_axis(rows: list[Prediction], limit: float) -> None:
    scores = score_predictions(rows, by=["dialect"])
    axis = RateAxis(scores)
    assert axis.ticks[0] == 0
    assert axis.ticks[-1] == pytest.approx(limit)
    assert not axis.beyond(scores.overall.wer.value)
    assert axis.beyond(15) == (limit < 1500)
    assert axis.x(0) < axis.x(limit / 200) < axis.x(limit / 100) == axis.x(99)


def test_a_worse_group_without_an_interval_is_named_beside_the_gap() -> None:
    few = [
        replace(row, id=f"x{row.id}", dialect="Fremmed", hypothesis="", speaker_id="one")
        for row in random_rows(20)
    ]
    scores = score_predictions([*random_rows(900), *few], by=["dialect"])
    sentence = wording.gap_sentence(scores.groupings["dialect"])
    assert sentence.endswith("Fremmed has 100.00 and no interval: 1 speaker, 8 needed")
