"""What validation measures: all rows together, subsets in their shares, values of zero."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from fairseq2.metrics.recorders import MetricDescriptorRegistry
from fairseq2.recipe.composition import _register_train_recipe
from fairseq2.runtime.dependency import DependencyContainer

from danish_asr.metrics import compute_wer
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.data.index import DanishAsrDataset
from danish_asr.recipe.run.advice import LOSS
from danish_asr.recipe.run.run_directory import SCORE_TITLES
from danish_asr.recipe.train.training import AsrRecipe
from danish_asr.recipe.train.validation import ALL, ErrorRates, dialects_with_few_rows, publish
from tests.recipe.running import metrics, train


def published(rates: ErrorRates) -> dict[str, object]:
    values: dict[str, object] = {}
    publish(rates.compute(), rates.groups, values)
    return values


def test_a_perfect_score_is_a_value() -> None:
    """TRAPS, validation: a WER below 1 % is not published upstream, and the run dies of it."""
    rates = ErrorRates([], "raw")
    rates.update(["to ord"], ["to ord"], [()])
    assert published(rates) == {"wer": 0.0, "cer": 0.0}


def test_a_score_of_zero_is_printed_without_a_sign() -> None:
    """TRAPS, validation: fairseq2 negates the score twice and prints -0."""
    container = DependencyContainer()
    _register_train_recipe(container, AsrRecipe(cast(Any, SimpleNamespace(config=AsrConfig()))))
    descriptors = container.resolve(MetricDescriptorRegistry)
    for name in SCORE_TITLES:
        descriptor = descriptors.maybe_get(name)
        assert descriptor is not None
        assert [descriptor.formatter(value) for value in (-0.0, 12.5)] == ["0", "12.5"]


def test_the_character_error_rate_is_that_of_a_named_profile() -> None:
    """TRAPS, validation: upstream's unit error rate is one over tokens of the raw text."""
    found = {}
    for profile in ("raw", "coral"):
        rates = ErrorRates([], profile)
        rates.update(["Det koster 25 %!"], ["det koster femogtyve procent"], [()])
        found[profile] = published(rates)["cer"]
    assert found["coral"] == 0.0
    assert found["raw"] != 0.0


def test_an_empty_hypothesis_is_a_hypothesis() -> None:
    """TRAPS, validation: an all-blank hypothesis crashes upstream's validation."""
    rates = ErrorRates([], "raw")
    rates.update(["to ord"], [""], [()])
    assert published(rates)["wer"] == 100.0


def test_counts_of_two_processes_add_up_to_those_of_one() -> None:
    a, b = "dialect/a", "dialect/b"
    rows = [("en to", "en", [a]), ("tre", "tre fire", [b]), ("fem seks", "fem sek", [a])]
    together = ErrorRates([a, b], "raw")
    parts = [ErrorRates([a, b], "raw") for _ in range(2)]
    for number, (reference, hypothesis, groups) in enumerate(rows):
        together.update([reference], [hypothesis], [groups])
        parts[number % 2].update([reference], [hypothesis], [groups])
    parts[0].merge_state([parts[1]])
    assert torch.equal(parts[0].compute(), together.compute())
    assert together.groups == (ALL, a, b)
    expected = 100 * compute_wer([row[1] for row in rows], [row[0] for row in rows])
    assert published(together)["wer"] == pytest.approx(expected)
    assert published(together)["worst_group_wer"] == 100.0


def test_dialects_with_too_few_rows_to_choose_a_checkpoint_by_are_named(dataset: Path) -> None:
    index = DanishAsrDataset(dataset).read_index("train")
    codes, names = index.dialects()
    many = index.take(np.resize(np.flatnonzero(codes == 0), 60))
    assert names[0] not in dialects_with_few_rows([many])
    assert dialects_with_few_rows([index]).keys() == {*names}
    assert sum(dialects_with_few_rows([index]).values()) == len(index)


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
