"""Several runs, each with one or more seeds, compared with the first."""

import json
from dataclasses import replace
from math import isnan
from statistics import mean, stdev

import pytest

from danish_asr.errors import PredictionsError
from danish_asr.scoring.comparison import compare_predictions, holm
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.runs import compare_runs
from danish_asr.scoring.scores import score_predictions
from tests.score_rows import prediction, random_rows


def _rows(seed: int, *, better: bool = False) -> list[Prediction]:
    """The same references in every run, with errors by the seed."""
    references = [row.reference for row in random_rows(400, speakers=20)]
    others = random_rows(400, speakers=20, seed=seed)
    return [
        replace(row, reference=reference, hypothesis=reference if better and n % 3 else hypothesis)
        for n, (row, reference) in enumerate(zip(others, references, strict=True))
        for hypothesis in [f"{reference} {row.hypothesis.split(' ')[0]}" if n % 4 else reference]
    ]


def test_seeds_are_averaged_and_their_spread_is_shown() -> None:
    seeds = [_rows(1, better=True), _rows(2), _rows(3)]
    compared = compare_runs({"base": {"x": _rows(4)}, "new": dict(zip("abc", seeds, strict=True))})
    alone = [score_predictions(rows).overall for rows in seeds]
    new = compared.overall.runs[1]
    assert new.wer == pytest.approx(mean(score.wer.value for score in alone))
    assert new.wer_deviation == pytest.approx(stdev(score.wer.value for score in alone))
    assert new.cer_deviation == pytest.approx(stdev(score.cer.value for score in alone))
    base = compared.overall.runs[0]
    assert (base.wer_deviation, base.wer_paired, new.mapsswe) == (None, None, None)
    assert new.wer_paired
    assert new.wer_paired.difference.value == pytest.approx(new.wer - base.wer)


def test_a_run_of_one_seed_is_compared_as_by_two_files_and_holm_covers_all_runs() -> None:
    base, one, two = _rows(1), _rows(2, better=True), _rows(3)
    compared = compare_runs({"base": {"x": base}, "one": {"y": one}, "two": {"z": two}})
    p_values = []
    for rows, score in zip((one, two), compared.overall.runs[1:], strict=True):
        pair = compare_predictions(base, rows).overall
        assert score.wer_paired
        assert score.wer_paired.difference == pair.wer.difference
        assert score.mapsswe
        assert score.mapsswe.p == pair.mapsswe.p
        p_values.append(pair.wer.p or 0.0)
    found = [score.wer_paired.p_adjusted for score in compared.overall.runs if score.wer_paired]
    assert found == holm(p_values)
    groups = compared.groupings["dialect"]
    tests = [run.wer_paired for group in groups for run in group.runs if run.wer_paired]
    in_groups = [test.p for test in tests if test.p is not None]
    assert [t.p_adjusted for t in tests if t.p_adjusted is not None] == holm(in_groups)
    json.dumps(compared.to_dict())
    assert len(compared.to_pandas()) == 3 * (1 + sum(map(len, compared.groupings.values())))


def test_a_seed_with_other_rows_is_refused_by_its_file() -> None:
    runs = {"base": {"a.jsonl": _rows(1)}, "new": {"b.jsonl": _rows(2), "c.jsonl": _rows(3)[:-1]}}
    with pytest.raises(PredictionsError, match=r"a.jsonl:400: id 'utt-000399' is not in c.jsonl"):
        compare_runs(runs)


def test_a_group_without_reference_words_has_no_rate_and_no_deviation() -> None:
    rows = [prediction("a", "!", "ja", dialect="X"), prediction("b", "ja", "nej", dialect="Y")]
    runs = compare_runs({"one": {"a": rows, "b": rows}, "two": {"c": rows}}, by=["dialect"])
    first = runs.groupings["dialect"][0].runs[0]
    assert isnan(first.wer)
    assert first.wer_deviation is None
    assert "NaN" not in json.dumps(runs.to_dict())
