"""Comparison of runs over the same rows, with seeds."""

import json
from collections.abc import Iterable
from math import isnan, nan
from statistics import mean, stdev

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_ind

from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.base.tables import Row
from danish_asr.scoring.compare import Comparison, holm, holm_alphas, with_seeds
from danish_asr.scoring.intervals import Spread
from danish_asr.scoring.settings import Settings
from tests.score_rows import changed, compared, four_rows, prediction, random_rows, scored


def _better(rows: list[Row]) -> list[Row]:
    """The same run with a part of each speaker's rows recognised without errors."""
    return [
        changed(row, hypothesis=row["reference"]) if number // 40 % 4 == 0 else row
        for number, row in enumerate(rows)
    ]


def _compared(a: Iterable[Row], b: Iterable[Row], *by: str) -> Comparison:
    return compared({"A": {"A": a}, "B": {"B": b}}, by=by)


def test_the_difference_is_that_of_the_two_scores() -> None:
    a = list(random_rows(600))
    b = _better(a)
    table = _compared(a, b, "dialect").table
    first, second = (scored(rows, by=["dialect"]) for rows in (a, b))
    for run, scores in (("A", first), ("B", second)):
        own = table[table["run"] == run]
        columns = ["group", "wer", "cer", "rows", "speakers"]
        assert own[columns].to_numpy().tolist() == scores.to_pandas()[columns].to_numpy().tolist()
    differences = table["wer"].diff()[1::2]
    assert differences.tolist() == pytest.approx(table["wer_difference"][1::2].tolist())
    assert table["wer_difference"][::2].isna().all()


def test_rows_are_paired_by_corpus_and_id_in_any_order() -> None:
    a = [*random_rows(200), *(changed(row, corpus="x") for row in random_rows(200, seed=1))]
    b = _better(a)
    assert _compared(a, b[::-1], "dialect").table.equals(_compared(a, b, "dialect").table)
    without = [changed(row, corpus=None) for row in b[:200]]
    with pytest.raises(PredictionsError, match=r"200 rows differ .*--dataset.* a column corpus"):
        _compared(a, without)
    copies = [*a[:200], *(changed(row, corpus="y") for row in a[:200])]
    with pytest.raises(PredictionsError, match=r"'utt-000000' is in several corpora of B"):
        _compared(without, copies)


def test_ids_compare_in_nfc_and_without_a_corpus_by_themselves() -> None:
    a = [prediction("a\u030a", "ja", "ja"), prediction("b", "ja", "nej")]
    b = [prediction("å", "ja", "nej", corpus=None), prediction("b", "ja", "ja", corpus=None)]
    assert _compared(a, b).table["wer"].tolist() == [0.5, 0.5]


def test_equal_runs_and_few_speakers_give_no_p_value() -> None:
    many, few = (list(random_rows(1000, speakers=speakers)) for speakers in (60, 5))
    for rows, other, reason in (
        (many, many, "every speaker has the same value"),
        (few, _better(few), "5 speakers, 8 needed"),
    ):
        line = _compared(rows, other).table.iloc[1]
        assert (line["wer_not_resolvable"], isnan(line["wer_p"])) == (reason, True)


def test_other_rows_references_and_splits_are_refused() -> None:
    a = four_rows()
    b = [*a[1:], prediction("z", "ja", "ja")]
    expected = r"^2 rows differ .*\n  id 'a' of A is not in B\n  id 'z' of B is not in A$"
    with pytest.raises(PredictionsError, match=expected):
        _compared(a, b)
    b = [changed(row, reference="noget andet") if row["id"] == "c" else row for row in a]
    with pytest.raises(PredictionsError, match="id 'c' has another reference"):
        _compared(a, b)
    with pytest.raises(PredictionsError, match="splits: a of 9 rows, b of 8 rows"):
        compared({"A": {"a": a}, "B": {"b": a}}, rows_in_split={"a": 9, "b": 8})
    short = {"A": {"a": [prediction("short", "ja", "ja", duration=0.1)]}, "B": {"b": a}}
    with pytest.raises(PredictionsError, match="no row to score"):
        compared(short, settings=Settings(row_filter="coral"))
    with pytest.raises(ConfigError, match="two or more"):
        compared({"A": {"a": a}})
    runs = {"base": {"a.jsonl": a}, "new": {"b.jsonl": a, "c.jsonl": a[:-1]}}
    with pytest.raises(PredictionsError, match=r"id 'd' of a.jsonl is not in c.jsonl"):
        compared(runs)


def test_each_file_has_its_size_condition_and_splits() -> None:
    runs = {name: {name.lower(): four_rows()} for name in "AB"}
    abouts = {"a": {"where": "age > 9", "rows_in_split": {"dev": 3, "all": 2}}}
    a, b = compared(runs, rows_in_split={"a": 5, "b": None}, abouts=abouts).rows.values()
    assert (a.in_split, a.where, a.splits, a.partial) == (5, "age > 9", ["all", "dev"], True)
    assert (b.in_split, b.where, b.splits, b.partial) == (None, None, ["test"], False)


@pytest.mark.parametrize(
    ("p_values", "adjusted"),
    [
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.9, nan, 0.02, 0.02], [0.9, nan, 0.06, 0.06]),
        ([0.9, 0.8], [1.0, 1.0]),
        ([], []),
    ],
)
def test_holm_of_worked_examples(p_values: list[float], adjusted: list[float]) -> None:
    values = holm(pd.Series(p_values, dtype=float)).tolist()
    assert values == pytest.approx(adjusted, nan_ok=True)


@pytest.mark.parametrize(
    ("p_values", "divisors"),
    [
        ([0.01, 0.04, 0.03, 0.005], [3, 2, 2, 4]),
        ([0.9, nan, 0.02, 0.001], [1, nan, 2, 3]),
        ([0.9, 0.8], [2, 2]),
        ([0.01, 0.02], [2, 1]),
    ],
)
def test_intervals_have_the_level_of_holms_step_so_that_they_agree_with_the_adjusted_p(
    p_values: list[float], divisors: list[float]
) -> None:
    p = pd.Series(p_values, dtype=float)
    alphas = holm_alphas(p)
    assert alphas.tolist() == pytest.approx([0.05 / own for own in divisors], nan_ok=True)
    assert (p < alphas).tolist() == (holm(p) < 0.05).tolist()


def test_in_each_line_of_a_comparison_interval_and_p_say_the_same_small_groups_included() -> None:
    """An interval without zero stood beside a p of 0.12 in seven rows of one comparison."""
    rows = [*random_rows(1200, speakers=26)]
    others = [
        changed(row, hypothesis=row["reference"]) if number % 9 == 0 else row
        for number, row in enumerate(rows)
    ]
    table = _compared(rows, others, "dialect", "age_group", "gender").table
    tested = table[table["wer_p_adjusted"].notna()]
    for name in ("wer", "cer"):
        significant = tested[f"{name}_p_adjusted"] < 0.05
        without_zero = tested[f"{name}_low"] * tested[f"{name}_high"] > 0
        assert significant.tolist() == without_zero.tolist()
        assert {*significant} == {True, False}
    dialects = tested[tested["grouping"] == "dialect"]
    assert dialects["speakers"].max() < 8
    assert dialects["wer_pooled"].all()
    assert not tested[tested["grouping"] != "dialect"]["wer_pooled"].any()
    assert tested["wer_level"].min() < tested["wer_level"].max()


def _rows(seed: int, *, better: bool = False) -> list[Row]:
    """The same references in every run, with errors by the seed."""
    references = [row["reference"] for row in random_rows(400, speakers=20)]
    others = random_rows(400, speakers=20, seed=seed)
    return [
        changed(row, reference=reference, hypothesis=reference if better and n % 3 else hypothesis)
        for n, (row, reference) in enumerate(zip(others, references, strict=True))
        for hypothesis in [f"{reference} {row['hypothesis'].split(' ')[0]}" if n % 4 else reference]
    ]


def test_seeds_are_averaged_and_their_spread_is_shown() -> None:
    seeds = [_rows(1, better=True), _rows(2), _rows(3)]
    comparison = compared({"base": {"x": _rows(4)}, "new": dict(zip("abc", seeds, strict=True))})
    alone = [scored(rows).overall for rows in seeds]
    base, new = comparison.table.iloc[0], comparison.table.iloc[1]
    assert new["wer"] == pytest.approx(mean(score.wer.value for score in alone))
    assert new["wer_deviation"] == pytest.approx(stdev(score.wer.value for score in alone))
    assert new["cer_deviation"] == pytest.approx(stdev(score.cer.value for score in alone))
    assert isnan(base["wer_deviation"])
    assert new["wer_difference"] == pytest.approx(new["wer"] - base["wer"])


@pytest.mark.parametrize(("seeds", "over_seeds"), [((2, 2), True), ((1, 2), False)])
def test_two_runs_with_several_seeds_are_compared_over_the_seeds_too(
    seeds: tuple[int, int], over_seeds: bool
) -> None:
    rows = list(random_rows(400, speakers=20))
    runs = {}
    for run, (name, count) in enumerate(zip("AB", seeds, strict=True)):
        runs[name] = {
            f"{name}{seed}": [  # each seed is better than the one before
                changed(row, hypothesis=row["reference"]) if n % 10 < 3 * seed + run else row
                for n, row in enumerate(rows)
            ]
            for seed in range(count)
        }
    line = compared(runs).table.iloc[1]
    assert bool(line["over_seeds"]) is over_seeds
    assert bool(line["wer_p"] > 0.05) is over_seeds


def test_without_a_spread_of_speakers_seeds_are_compared_by_welchs_test() -> None:
    one, other = np.array([0.2, 0.23, 0.21]), np.array([0.3, 0.26, 0.31, 0.25])
    alike = Spread(float(other.mean() - one.mean()), 1e-9, 30.0, None)
    welch = ttest_ind(one, other, equal_var=False).pvalue
    assert with_seeds(alike, [one, other]).p_value() == pytest.approx(welch)
    unlike = alike._replace(deviation=0.5)
    assert with_seeds(unlike, [one, other]).p_value() == pytest.approx(unlike.p_value(), rel=1e-3)


def test_holm_covers_all_runs_and_groups_of_a_grouping() -> None:
    base, one, two = _rows(1), _rows(2, better=True), _rows(3)
    comparison = compared({"base": {"x": base}, "one": {"y": one}, "two": {"z": two}})
    overall = comparison.table[:3]
    for rows, line in zip((one, two), overall[1:].to_dict("records"), strict=True):
        alone = _compared(base, rows).table.iloc[1]
        assert line["wer_p"] == alone["wer_p"]
        assert line["wer_high"] - line["wer_low"] >= alone["wer_high"] - alone["wer_low"]
    for _, lines in comparison.table.groupby("grouping"):
        assert lines["wer_p_adjusted"].equals(holm(lines["wer_p"]).rename("wer_p_adjusted"))
    document = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
    assert len(document["groups"]) == len(comparison.to_pandas()) == 3 * (1 + 5 + 3 + 3)
