"""Scores in a notebook: tables as HTML, and figures."""

import pytest

from danish_asr.base.errors import ConfigError
from danish_asr.report.page import plot_groups
from danish_asr.scoring.comparison import compare_runs
from danish_asr.scoring.scores import score_predictions
from tests.score_rows import prediction, random_rows

HOSTILE = "<script>$x^$</script>"


def test_results_are_tables_in_per_cent_without_markup_of_the_data() -> None:
    rows = [*random_rows(300), prediction("x", "ja", "nej", dialect=HOSTILE)]
    for found in (
        score_predictions(rows, by=["dialect"]),
        compare_runs({HOSTILE: {"a": rows}, "b": {"b": rows}}, by=["dialect"]),
    ):
        html = found._repr_html_()
        assert "profile coral" in html
        assert "<td>100.00</td>" in html  # the rate of the last row
        assert "&lt;script&gt;" in html
        assert "301 rows" in html
        for wrong in ("<script", "None", "nan", "NaN"):
            assert wrong not in html


def test_a_figure_has_a_dot_per_group_and_an_interval_where_there_is_one() -> None:
    rows = [*random_rows(600), prediction("x", "ja", "nej", dialect=HOSTILE)]
    scores = score_predictions(rows, by=["dialect"])
    figure = plot_groups(scores, "dialect")
    figure.draw_without_rendering()
    (axes,) = figure.axes
    groups = scores.groupings["dialect"].groups
    assert [label.get_text() for label in axes.get_yticklabels()][-1].startswith(groups[0].label)
    resolved = sum(group.wer.interval is not None for group in groups)
    assert len(axes.get_lines()) == len(groups) + resolved + 1
    dots = [line for line in axes.get_lines() if line.get_marker() == "o"]
    assert len(dots) == len(groups)
    assert not any(dot.get_clip_on() for dot in dots)  # half of a dot at 0 % is outside
    with pytest.raises(ConfigError, match="unknown grouping 'age'; scored: dialect"):
        plot_groups(scores, "age")
