"""Numbers in words, and tables in the terminal."""

import io
from dataclasses import replace
from math import nan

import pytest
from rich.console import Console

from danish_asr.report.tables import (
    INTERVAL_NOTE,
    bounds,
    fitting,
    gap_sentence,
    grouping_title,
    in_grouping,
    interval_of,
    latex,
    light_table,
    p_value,
    percent,
    print_table,
    sentence,
    short,
    summary,
    without_values,
)
from danish_asr.scoring.gap import Gap, NotCompared, PairTest
from danish_asr.scoring.intervals import Estimate, Interval
from tests.score_rows import four_rows, scored


def test_rates_and_p_values_have_few_digits_and_none_is_no_number() -> None:
    assert [percent(rate) for rate in (0.12345, -0.5, nan)] == ["12.35", "-50.00", "–"]
    assert percent(0.5, "+") == "+50.00"
    assert bounds(Interval(0.1, 0.25)) == "10.00 to 25.00"
    assert bounds(Interval(-0.1, 0.25), "+") == "-10.00 to +25.00"
    assert [p_value(p) for p in (0.5, 1e-4, 9e-5, nan)] == ["0.5000", "0.0001", "<0.0001", ""]


def test_an_own_interval_a_pooled_one_and_none_are_told_apart() -> None:
    group = scored(four_rows(), by=["dialect"]).overall
    own = replace(group, wer=Estimate(0.2, Interval(0.1, 0.3)))
    pooled = replace(group, wer=Estimate(0.2), wer_pooled=Interval(0.1, 0.3))
    none = replace(group, wer=Estimate(0.2))
    said = [interval_of(one) for one in (own, pooled, none)]
    assert said == ["10.00 to 30.00", "≈ 10.00 to 30.00", "not resolvable"]


@pytest.mark.parametrize(
    ("width", "fixed", "number"), [(None, 1, 4), (16, 1, 4), (15, 1, 3), (10, 1, 2), (4, 2, 2)]
)
def test_columns_fit_a_terminal_beside_those_that_are_always_shown(
    width: int | None, fixed: int, number: int
) -> None:
    columns = [("ab", "a"), ("c", "cc"), ("d", "ddd"), ("e", "eee")]
    console = Console(file=io.StringIO(), width=width or 5, force_terminal=width is not None)
    assert fitting(columns, fixed, console) == columns[:number]


@pytest.mark.parametrize(("cell", "noted"), [("not resolvable", True), ("1.00 to 2.00", False)])
def test_a_table_without_a_terminal_is_not_cut_has_numbers_at_the_right_and_explains_itself(
    cell: str, noted: bool
) -> None:
    output = io.StringIO()
    lines = {"": [["all", "1", "a"]], "dialect": [["[x] " + "long " * 30, cell, "base"]]}
    print_table(light_table(["group", "WER", "run"]), lines, Console(file=output, width=20))
    head, _, all_rows, *_ = output.getvalue().splitlines()
    assert f"[x] {'long ' * 30}" in output.getvalue()
    places = [all_rows.index("all"), all_rows.index("1"), all_rows.rindex("a")]
    assert places == [0, head.index("WER") + 2, head.index("run")]
    titles = [line.split() for line in output.getvalue().splitlines() if line.startswith("by")]
    assert titles == [["by", "dialect"]]
    assert (INTERVAL_NOTE in output.getvalue()) is noted


def test_groups_and_groupings_have_names_of_a_bounded_length() -> None:
    assert grouping_title("age_group,gender") == "by age group and gender"
    assert in_grouping("age_group", "50+") == "age group: 50+"
    assert in_grouping("", "all") == "all"
    assert sentence("by dialect of Fyn") == "By dialect of Fyn"
    assert (short("abc", 3), short("abcd", 3), short(None)) == ("abc", "abc…", "")
    scores = scored(four_rows(), by=["dialect", "gender"], rows_in_split=9)
    assert "4 rows scored of 9" in summary(scores)
    assert without_values(scores).startswith("no scored row has a value of gender: ")


def test_a_table_for_latex_has_texts_at_the_left_its_signs_and_minus() -> None:
    table = latex(["group", "WER"], [["a_b", "-1.5"]], ["one\ntwo"], 1)
    assert table.startswith("% one\n% two\n\\begin{tabular}{lr}\n")
    assert "a\\_b & $-$1.5 \\\\\n" in table


@pytest.mark.parametrize(
    ("p", "groups", "verdict", "adjusted"),
    [
        (0.01, 3, "a difference is shown among 3 groups", True),
        (0.2, 2, "no difference is shown among 2 groups", False),
    ],
)
def test_a_gap_names_the_worst_group_the_verdict_its_test_and_who_was_not_compared(
    p: float, groups: int, verdict: str, adjusted: bool
) -> None:
    pair = PairTest("Bornholmsk", "Fynsk", 0.125, Interval(-0.01, 0.25), p)
    absent = [NotCompared(f"{number}", "1 speaker, 2 needed") for number in range(11)]
    said = gap_sentence("dialect", Gap("0", 0.9, groups, absent, pair, None, 0))
    assert said.startswith("by dialect: 0 has the highest WER, 90.00 %")
    assert f"{verdict} (p {p:.4f}, permutation" in said
    assert "Bornholmsk is 12.50 points above Fynsk (95 % interval -1.00 to 25.00" in said
    assert ("adjusted" in said) is adjusted
    assert "8, 9 and 1 more (1 speaker, 2 needed)" in said
    assert "nothing is compared" not in said
    nothing = gap_sentence(
        "dialect", Gap("0", 0.9, 0, absent[:1], None, "1 group can be, 2 needed", 0)
    )
    assert "nothing is compared: 1 group can be" in nothing
    assert not gap_sentence("dialect", None)
    alike = gap_sentence("dialect", Gap("0", 0.9, 0, (), None, "", 2))
    assert "0 and 2 more have the highest WER, 90.00 %" in alike
