"""Charts and lines of all pages."""

import re

import numpy as np
import pandas as pd
import pytest

from danish_asr.report.components import Panel, curves_chart, histogram_chart, left_out_lines


def _description(chart: str) -> str:
    (text,) = re.findall("<desc>(.*?)</desc>", chart)
    return str(text)


@pytest.mark.parametrize(
    ("points", "noisy", "smoothed"), [(50, True, 1), (49, True, 0), (60, False, 0)]
)
def test_a_long_noisy_curve_is_smoothed_and_described_as_it_is(
    points: int, noisy: bool, smoothed: int
) -> None:
    curve = pd.Series(1.0 + np.arange(points) % 2, index=10 * np.arange(points))
    curve.iloc[0], curve.iloc[-1] = 1.5, 1.25
    chart = curves_chart(Panel("Loss", "", {"a<b": curve}, logarithmic=True, noisy=noisy))
    assert chart.count("smoothed") == smoothed
    assert _description(chart) == (
        f"a&lt;b: 1.5 at step 0, lowest 1, highest 2, 1.25 at step {10 * points - 10}"
    )


def test_a_histogram_has_the_extremes_in_its_outer_bars_and_names_them() -> None:
    values = np.append(np.arange(1_000) / 100, 500.0)
    chart = histogram_chart("Length", values, "seconds")
    assert "seconds (last bar: up to 500)" in chart
    assert _description(chart) == "1001 rows: lowest 0, median 5, highest 500 seconds"
    same = histogram_chart("Length", np.full(3, 2.0), "seconds")
    assert "last bar" not in same
    assert _description(same) == "3 rows: lowest 2, median 2, highest 2 seconds"


def test_clips_left_out_are_counted_by_reason_the_most_frequent_first() -> None:
    reasons = ["full", *["no FLAC"] * 1_200]
    assert left_out_lines(reasons) == [
        "1,200 clips are left out of the page: no FLAC",
        "1 clip is left out of the page: full",
    ]
