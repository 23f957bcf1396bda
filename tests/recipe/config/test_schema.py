"""The keys that all commands have: their defaults and bounds, and what is derived of them."""

import os
from typing import Any

import pytest

from danish_asr.recipe.config.schema import AsrConfig, DatasetSection, TaskSection, names_of_splits
from danish_asr.recipe.config.training_sections import StageConfig, TrainerSection
from tests.config_keys import GOLDEN, lines_of_keys, loaded


def test_the_keys_their_bounds_and_their_defaults_are_those_of_the_golden_file() -> None:
    """UPDATE_GOLDEN=1 writes it again: what a key may be, and what it is by default."""
    text = "".join(f"{line}\n" for line in lines_of_keys())
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


@pytest.mark.parametrize(
    ("key", "accepted", "refused"),
    [
        ("model.keep_layers", [0, 2], [-1]),
        ("dataset.config_overrides", {"data": "/x"}, {"root": "x"}),
        ("dataset.weights", [{"where": "a", "factor": 1000}], [{"where": "a", "factor": 1001}]),
        ("dataset.weights", [{"where": "a", "factor": 0.1}], [{"where": "", "factor": 1}]),
        ("dataset.speed_factors", [0.5, 2.0], [0.49]),
        ("dataset.speed_factors", [1.0] * 255, [1.0] * 256),
        ("dataset.valid_max_num_elements", "2.5x", "2.x"),
        ("dataset.text_profile", "plain", "plane"),
        ("evaluator.label", "a.b+c-d", ".a"),
        ("common.seed", 3_999_999_999, 4_000_000_000),
        ("common.seed", 0, True),
    ],
)
def test_a_value_at_a_bound_is_accepted_and_one_beyond_it_is_refused(
    key: str, accepted: object, refused: object
) -> None:
    assert loaded(key, accepted) == accepted
    assert str(loaded(key, refused)).startswith(key)


def test_layers_that_are_kept_are_sorted() -> None:
    assert loaded("model.keep_layers", [4, 0, 2]) == [0, 2, 4]


def test_a_list_of_splits_has_each_name_once() -> None:
    assert names_of_splits(" dev, test,dev,, ") == ["dev", "test"]
    assert names_of_splits(None) == []


@pytest.mark.parametrize(("value", "samples"), [(None, None), (7, 7), ("2.5x", 250)])
def test_the_samples_of_a_batch_of_validation_may_be_a_multiple(
    value: Any, samples: int | None
) -> None:
    task = TaskSection(max_num_elements=100)
    section = DatasetSection(valid_max_num_elements=value, asr_task_config=task)
    assert section.valid_elements == samples


def test_a_stage_has_its_own_rows_and_all_else_of_the_run() -> None:
    dataset = DatasetSection(train_where="a", train_subset=3, train_share=0.5)
    stages = {9: StageConfig(subset=5), 4: StageConfig(where="b")}
    config = AsrConfig(dataset=dataset, trainer=TrainerSection(stages=stages))
    rows = {
        first: (stage.dataset.train_where, stage.dataset.train_subset, stage.dataset.train_share)
        for first, stage in config.stages().items()
    }
    assert [*rows.items()] == [(0, ("a", 3, 0.5)), (4, ("b", None, 0.5)), (9, (None, 5, 0.5))]
