"""Figures of groups and of differences, for papers."""

from dataclasses import replace

import numpy as np
import pytest

from danish_asr import __version__, plot_groups
from danish_asr.base.errors import ConfigError
from danish_asr.report.figures import forest_file, forest_plot
from tests.score_rows import DIALECTS, changed, compared, prediction, random_rows, scored


def test_each_group_has_a_dot_at_its_rate_an_interval_if_any_and_all_rows_a_line() -> None:
    few = prediction("few", "et to tre fire", "et to tre", dialect="<$lonely$>")
    scores = scored([*random_rows(600), few], by=["dialect"])
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
    shown = [group.wer.interval or group.wer_pooled for group in reversed(groups)]
    intervals = [interval for interval in shown if interval]
    assert bars == [pytest.approx([100 * bound for bound in interval]) for interval in intervals]
    (overall,) = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert [*np.ravel(overall.get_xdata())] == pytest.approx([100 * scores.overall.wer.value] * 2)
    assert axes.get_xlabel() == "WER %"
    assert axes.get_title() == "By dialect (speakers)"
    assert axes.get_xlim()[0] == 0
    about = {"model": "m", "predictions_sha256": "abc"}
    figure = plot_groups(replace(scores, about=about), "dialect")
    caption = figure.get_supxlabel()
    assert all(text in caption for text in ("profile coral", "model m", "abc", __version__))


@pytest.mark.parametrize("others", ["B", "BC"])
def test_a_forest_has_a_dot_per_group_and_run_at_its_difference_and_the_same_bytes_each_time(
    others: str,
) -> None:
    rows = list(random_rows(300))
    better = [changed(row, hypothesis=row["reference"]) for row in rows]
    runs = {"A": {"a": rows}} | {name: {name: better} for name in others}
    comparison = compared(runs, by=["dialect"])
    table = comparison.table[comparison.table["run"] != "A"][::-1]
    figure = forest_plot(comparison)
    (axes,) = figure.axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    runs_named = ": B − A" if others == "BC" else ""
    assert f"all (60 speakers){runs_named}" in labels
    assert f"dialect: Fynsk (12 speakers){runs_named}" in labels
    dots = [np.ravel(line.get_xdata())[0] for line in axes.lines if line.get_marker() == "o"]
    assert dots == pytest.approx([*100 * table["wer_difference"]])
    assert axes.get_ylim() == pytest.approx((-0.6, len(table) - 0.4))
    assert figure.get_size_inches()[1] == pytest.approx(1 + 0.3 * len(table))
    assert axes.get_xlabel().startswith("difference of WER from A ")
    for end in ("svg", "pdf"):
        written = forest_file(comparison, end, "of <model> x")
        assert written == forest_file(comparison, end, "of <model> x")
        assert b"of &lt;model&gt; x" in written or b"/Subject (of <model> x)" in written


def test_one_speaker_is_no_speakers() -> None:
    rows = [*random_rows(100), prediction("few", "et to", "et", dialect="alone")]
    (axes,) = forest_plot(compared({"A": {"a": rows}, "B": {"b": rows}}, by=["dialect"])).axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    dots = [line.get_markerfacecolor() for line in axes.lines if line.get_marker() == "o"]
    assert dots[labels.index("dialect: alone (1 speaker)")] == "white"  # it has no interval
    assert "dialect: Fynsk (12 speakers)" in labels


def test_pooled_intervals_have_hollow_dots() -> None:
    rows = [*random_rows(400, speakers=5 * len(DIALECTS))]
    better = [changed(row, hypothesis=row["reference"]) for row in rows[::2]] + rows[1::2]
    comparison = compared({"A": {"a": rows}, "B": {"b": better}}, by=["dialect"])
    scores = scored(rows, by=["dialect"])
    groups = scores.groupings["dialect"].groups
    assert all(group.wer_pooled for group in groups)
    assert [*comparison.table["wer_pooled"][3::2]] == [True] * len(groups)
    for figure, own in ((plot_groups(scores, "dialect"), 0), (forest_plot(comparison), 1)):
        (axes,) = figure.axes
        dots = [line for line in axes.lines if line.get_marker() == "o"]
        hollow = [dot.get_markerfacecolor() == "white" for dot in dots]
        assert hollow == [True] * len(groups) + [False] * own
        assert sum(line.get_linewidth() == 2 for line in axes.lines) == len(dots)


@pytest.mark.parametrize("name", ["B", "a very long name of a run"])
def test_nothing_is_cut_from_a_figure(name: str) -> None:
    rows = [changed(row, dialect=f"{row['dialect']}, or so it says") for row in random_rows(300)]
    runs = {"A": {"a": rows}} | {own: {own: rows} for own in (name, f"{name} 2")}
    comparison = compared(runs, by=["dialect,age_group"])
    scores = scored(rows, by=["dialect,age_group"])
    for figure in (forest_plot(comparison), plot_groups(scores, "dialect,age_group")):
        figure.draw_without_rendering()
        drawn = figure.get_tightbbox()
        width, height = figure.get_size_inches()
        assert min(drawn.x0, drawn.y0) >= 0
        assert (drawn.x1 <= width, drawn.y1 <= height) == (True, True)
        (axes,) = figure.axes
        assert axes.get_window_extent().width / figure.dpi > 2


def test_a_figure_of_groups_that_were_not_scored_is_refused_with_those_that_were() -> None:
    scores = scored([*random_rows(20)], by=["dialect"])
    with pytest.raises(ConfigError, match=r"gender.*dialect"):
        plot_groups(scores, "gender")
