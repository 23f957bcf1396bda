"""What validation measures: all rows together, subsets in their shares, values of zero."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from danish_asr.metrics import compute_wer
from danish_asr.recipe.run.advice import LOSS
from danish_asr.recipe.train.validation import ErrorRates, rates_of
from tests.recipe.running import metrics, train


def rates(*rows: tuple[str, str], profile: str = "raw") -> dict[str, float]:
    """The rates of references and hypotheses, of which the first are of the dialect a, b, ..."""
    groups = [f"dialect/{letter}" for letter in "abc"[: len(rows)]]
    parts = [ErrorRates(groups, profile) for _ in rows]  # as of so many processes
    for part, group, (reference, hypothesis) in zip(parts, groups, rows, strict=True):
        part.update([reference], [hypothesis], [[group]])
    parts[0].merge_state(parts[1:])
    return rates_of(parts[0].compute())


def test_counts_of_processes_add_up_and_the_worst_dialect_is_one_of_them() -> None:
    rows = [("en to", "en"), ("tre", "tre fire"), ("fem seks", "fem sek")]
    measured = rates(*rows)
    references, hypotheses = zip(*rows, strict=True)
    assert measured["wer"] == pytest.approx(100 * compute_wer(hypotheses, references))
    assert measured["worst_group_wer"] == measured["wer/dialect/b"] == 100.0


def test_zero_and_a_missing_hypothesis_are_values() -> None:
    """TRAPS, validation: a WER below 1 % or an all-blank hypothesis ends upstream's run."""
    assert rates(("to ord", "to ord"))["wer"] == 0.0
    assert rates(("to ord", ""))["wer"] == 100.0


def test_the_character_error_rate_is_that_of_a_named_profile() -> None:
    """TRAPS, validation: upstream's unit error rate is one over tokens of the raw text."""
    row = ("Det koster 25 %!", "det koster femogtyve procent")
    assert rates(row, profile="coral")["cer"] == 0.0
    assert rates(row, profile="raw")["cer"] > 0.0


def test_rows_without_a_dialect_are_a_group_that_is_never_the_worst(
    tmp_path: Path, dataset: Path
) -> None:
    root = shutil.copytree(dataset, tmp_path / "tiny")
    dev = sorted(root.glob("version=0/*/split=dev/**/*.parquet"))
    for path in dev:
        table = pq.read_table(path, partitioning=None)
        place = table.column_names.index("dialect")
        dialects = ["Fynsk", *[None] * (len(table) - 1)]
        pq.write_table(table.set_column(place, "dialect", pa.array(dialects, pa.string())), path)
    run, data = tmp_path / "run", f"dataset.config_overrides={{data: {root}}}"
    assert train(run, dataset, data, "regime.num_steps=2") == 0
    (row,) = metrics(run, "valid")
    fynsk, unknown = row["wer/dialect/Fynsk"], row["wer/dialect/unknown"]
    assert row["WER of the worst dialect"] == fynsk
    assert min(fynsk, unknown) <= row["Word Error Rate (WER)"] <= max(fynsk, unknown)


def test_two_splits_give_one_score_over_all_rows(tmp_path: Path, dataset: Path) -> None:
    """TRAPS, validation: upstream's score of several splits is the sum of their WERs."""
    run = tmp_path / "run"
    splits = "dev_coral_read_aloud,dev_coral_conversation"
    chosen = [f"dataset.valid_split='{splits}'", "regime.score_metric=loss"]
    assert train(run, dataset, "regime.num_steps=2", *chosen) == 0
    (row,) = metrics(run, "valid")
    assert row["Number of Examples"] == 12
    assert {"wer/dev_coral_read_aloud", "wer/dev_coral_conversation"} <= row.keys()
    score = float((run / "checkpoints" / "scores" / "step_2.txt").read_text())
    assert score == pytest.approx(-row[LOSS])
