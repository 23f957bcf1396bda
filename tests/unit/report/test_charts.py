"""Charts as inline SVG."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from danish_asr.report.charts import rate_chart
from danish_asr.scoring.scores import score_predictions
from tests.score_rows import prediction, random_rows

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("label", ["Fynsk", "<b>&amp;", "$x^2$ og $", "a" * 80])
def test_any_label_makes_a_chart_that_is_xml_in_the_colours_of_the_page(label: str) -> None:
    scores = score_predictions([prediction("a", "ja", "nej", dialect=label)], by=["dialect"])
    chart = rate_chart("WER by dialect", scores.groupings["dialect"].groups, 0.5)
    root = ET.fromstring(chart)  # noqa: S314 - made a line above
    texts = ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]
    assert any(text.strip() and text.strip()[:3] in label for text in texts)
    assert "var(--accent)" in chart
    assert re.findall(r"(?:fill|stroke|color): *(#[0-9a-f]{3,6})", chart) == []


def test_a_chart_has_its_numbers_as_text() -> None:
    groups = score_predictions(random_rows(600), by=["dialect"]).groupings["dialect"].groups
    root = ET.fromstring(rate_chart("WER by dialect", groups, 0.2))  # noqa: S314
    description = root.findtext(f"{SVG}desc") or ""
    for group in groups:
        assert f"{group.label}: {100 * group.wer.value:.2f} %" in description
    assert root.findtext(f"{SVG}title") == "WER by dialect"
