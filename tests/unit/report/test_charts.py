"""Charts as inline SVG."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from danish_asr.report.charts import rate_chart, training_chart
from danish_asr.report.training import Curve
from danish_asr.scoring.scores import score_predictions
from tests.score_rows import heard_rows, prediction

SVG = "{http://www.w3.org/2000/svg}"


def _chart(label: str) -> str:
    scores = score_predictions([prediction("a", "ja", "nej", dialect=label)], by=["dialect"])
    return rate_chart("chart", "WER by dialect", scores.groupings["dialect"].groups, 0.5)


@pytest.mark.parametrize(
    "label", ["Fynsk", "<b>&amp;", "$x^2$ og $", "方言 🙂", "a" * 80, "tab\tog linje\n"]
)
def test_any_label_makes_a_chart_that_is_xml(label: str) -> None:
    root = ET.fromstring(_chart(label))  # noqa: S314 - made a line above
    assert root.tag == f"{SVG}svg"
    texts = ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]
    assert any(text.strip() and text.strip()[:3] in label for text in texts)


def test_a_chart_tells_its_numbers_in_words() -> None:
    groups = score_predictions(heard_rows(600), by=["dialect"]).groupings["dialect"].groups
    root = ET.fromstring(rate_chart("chart", "WER by dialect", groups, 0.2))  # noqa: S314
    description = root.findtext(f"{SVG}desc")
    assert description is not None
    for group in groups:
        assert f"{group.label}: {100 * group.wer.value:.2f} %" in description
    assert root.findtext(f"{SVG}title") == "WER by dialect"


def test_charts_take_their_colours_from_the_page() -> None:
    chart = _chart("Fynsk")
    assert "var(--accent)" in chart
    assert re.findall(r"(?:fill|stroke|color): *(#[0-9a-f]{3,6})", chart) == []


def test_curves_have_their_names() -> None:
    curves = [Curve("WER", (1, 2), (90.0, 10.0)), Curve("CER", (1, 2), (40.0, 2.0))]
    chart = training_chart("training", "Error rates", "%", curves)
    assert "WER: 90 at step 1, lowest 10, highest 90, 10 at step 2" in chart
    assert ">CER<" in chart


def test_the_names_of_curves_stand_above_all_that_is_drawn() -> None:
    names = ("WER", "CER", "WER of the worst dialect")
    curves = [Curve(name, (1, 2, 3), (99.0, 100.0, 99.0)) for name in names]
    root = ET.fromstring(training_chart("training", "Rates", "%", curves))  # noqa: S314
    places = {node.text: node.attrib for node in root.iter(f"{SVG}text")}
    drawn = [
        float(y)
        for path in root.iter(f"{SVG}path")
        if "clip-path" in path.attrib
        for y in re.findall(r"[ML] \S+ (\S+)", path.attrib["d"])
    ]
    assert len(drawn) >= 9
    assert all(float(places[name]["y"]) < min(drawn) for name in names)


def test_a_chart_along_hours_tells_where_another_job_began() -> None:
    curve = Curve("computing", (0.0, 0.5, 2.25), (20.0, 96.0, 90.0))
    chart = training_chart("usage", "GPUs", "%", [curve], along="hour", marks=(0.5, 1.75))
    told = "computing: 20 at hour 0, lowest 20, highest 96, 90 at hour 2.25; another job at hour"
    assert f"<desc>{told} 0.5, 1.75</desc>" in chart
    assert ">hour (dashed: another job)<" in chart
