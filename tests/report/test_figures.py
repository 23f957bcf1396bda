"""The figure of groups, for papers."""

import numpy as np
import pytest

from danish_asr import plot_groups
from danish_asr.base.errors import ConfigError
from danish_asr.scoring.scores import score_predictions
from tests.score_rows import DIALECTS, prediction, random_rows


def test_each_group_has_a_dot_at_its_rate_an_interval_if_any_and_all_rows_a_line() -> None:
    few = prediction("few", "et to tre fire", "et to tre", dialect="<$lonely$>")
    scores = score_predictions([*random_rows(600), few], by=["dialect"])
    groups = scores.groupings["dialect"].groups
    (axes,) = plot_groups(scores, "dialect").axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert {label.rpartition(" ")[0] for label in labels} == {*DIALECTS, "<$lonely$>"}
    assert labels == [f"{group.label} ({group.speakers})" for group in reversed(groups)]
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    rates = [100 * group.wer.value for group in reversed(groups)]
    assert [np.ravel(dot.get_xdata())[0] for dot in dots] == pytest.approx(rates)
    assert [np.ravel(dot.get_ydata())[0] for dot in dots] == [*axes.get_yticks()]
    hollow = [dot.get_markerfacecolor() == "white" for dot in dots]
    assert hollow == [group.wer.interval is None for group in reversed(groups)]
    assert hollow.count(True) == 1
    bars = [[*np.ravel(line.get_xdata())] for line in axes.lines if line.get_linewidth() == 2]
    intervals = [group.wer.interval for group in reversed(groups) if group.wer.interval]
    assert bars == [pytest.approx([100 * bound for bound in interval]) for interval in intervals]
    (overall,) = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert [*np.ravel(overall.get_xdata())] == pytest.approx([100 * scores.overall.wer.value] * 2)


def test_a_figure_of_groups_that_were_not_scored_is_refused_with_those_that_were() -> None:
    scores = score_predictions([*random_rows(20)], by=["dialect"])
    with pytest.raises(ConfigError, match=r"gender.*dialect"):
        plot_groups(scores, "gender")
