"""Charts and lines of all pages."""

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from jinja2 import DictLoader, UndefinedError

from danish_asr.report import components
from danish_asr.report.components import (
    Panel,
    audio_url,
    curves_chart,
    histogram_chart,
    left_out_lines,
    render_template,
)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The axes of the charts that were made."""
    axes: list[Any] = []
    to_svg = components._to_svg

    def keep(figure: Any, *texts: str) -> str:
        axes.extend(figure.axes)
        return to_svg(figure, *texts)

    monkeypatch.setattr(components, "_to_svg", keep)
    return axes


def _description(chart: str) -> str:
    (text,) = re.findall("<desc>(.*?)</desc>", chart)
    return str(text)


@pytest.mark.parametrize(
    ("points", "noisy", "dots", "smoothed"),
    [
        (39, True, True, False),
        (40, True, False, False),
        (49, True, False, False),
        (50, True, False, True),
        (60, False, False, False),
    ],
)
def test_a_short_curve_has_dots_and_a_long_noisy_one_is_smoothed_and_described_as_it_is(
    drawn: list[Any], points: int, noisy: bool, dots: bool, smoothed: bool
) -> None:
    curve = pd.Series(1.0 + np.arange(points) % 2, index=10 * np.arange(points))
    curve.iloc[0], curve.iloc[-1] = 1.5, 1.25
    chart = curves_chart(Panel("Loss", "nats", {"a<b": curve}, logarithmic=noisy, noisy=noisy))
    (axes,) = drawn
    (line, *others) = axes.lines
    assert [*line.get_xdata()] == [*curve.index]
    assert [*line.get_ydata()] == [*curve]
    assert (line.get_marker() == "o", len(others)) == (dots, smoothed)
    if smoothed:
        assert [*others[0].get_ydata()] == pytest.approx([*curve.ewm(alpha=0.1).mean()])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("step", "nats")
    assert axes.get_yscale() == ("log" if noisy else "linear")
    assert (axes.get_ylim()[0] == 0) != noisy
    assert _description(chart) == (
        f"a&lt;b: 1.5 at step 0, lowest 1, highest 2, 1.25 at step {10 * points - 10}"
    )


def test_curves_have_names_and_colours_of_the_page_which_repeat_after_four(
    drawn: list[Any],
) -> None:
    curves = {name: pd.Series([1.0, 2.0], index=[1, 2]) for name in "abcde"}
    chart = curves_chart(Panel("Rates", "%", curves))
    (axes,) = drawn
    assert [line.get_label() for line in axes.lines] == [*"abcde"]
    colours = [line.get_color() for line in axes.lines]
    assert (len({*colours}), colours[4]) == (4, colours[0])
    assert axes.figure.legends[0].get_window_extent().y0 > axes.get_window_extent().y1
    boxes = [re.findall(r'viewBox="0 0 (\S+) ', one) for one in (chart, histogram_of([1.0, 2.0]))]
    assert boxes[0] == boxes[1]  # they are equally wide
    assert "var(--accent)" in chart
    assert "#0102" not in chart


def histogram_of(values: list[float]) -> str:
    return histogram_chart("Length", np.array(values), "seconds")


def test_a_histogram_has_the_extremes_in_its_outer_bars_and_names_them(drawn: list[Any]) -> None:
    values = np.append(np.arange(1_000) / 100, 500.0)
    chart = histogram_chart("Length", values, "seconds")
    same = histogram_of([2.0] * 3)
    assert _description(chart) == "1001 rows: lowest 0, median 5, highest 500 seconds"
    assert _description(same) == "3 rows: lowest 2, median 2, highest 2 seconds"
    labels = [axes.get_xlabel() for axes in drawn]
    assert labels == ["seconds (last bar: up to 500)", "seconds"]
    for axes, edges in zip(drawn, ([0.05, 9.95], [2, 3]), strict=True):
        (bars,) = axes.patches
        shares, places, _ = bars.get_data()
        assert bars.get_fill()
        assert (len(shares), shares.sum()) == (40, pytest.approx(100))
        assert [*axes.get_xlim()] == pytest.approx([places[0], places[-1]])
        assert [*axes.get_xlim()] == pytest.approx(edges, abs=0.01)
        assert axes.get_ylabel() == "% of the rows"


def test_what_a_page_shows_is_escaped_and_what_it_lacks_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pages = {
        "page": "{% if name %}\n  {{ name }}\n  {% endif %}{{ 'a' | sha256 }}",
        "lacking": "{{ nobody }}",
    }
    monkeypatch.setattr(components, "PackageLoader", lambda *_: DictLoader(pages))
    # The digest of "a" in FIPS 180-4, in base64.
    digest = "ypeBEsobvcr6wjGzmiPcTaeG7/gUfE5yuYB3ha/uSLs="
    assert render_template("page", name="<b>") == f"  &lt;b&gt;\n{digest}"
    with pytest.raises(UndefinedError, match="nobody"):
        render_template("lacking")


def test_a_clip_is_a_url_and_those_left_out_are_counted_by_reason_the_most_frequent_first() -> None:
    assert audio_url(b"fLaC\xff") == "data:audio/flac;base64,ZkxhQ/8="
    reasons = ["full", *["no FLAC"] * 1_200]
    assert left_out_lines(reasons) == [
        "1,200 clips are left out of the page: no FLAC",
        "1 clip is left out of the page: full",
    ]
