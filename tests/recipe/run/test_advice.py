"""What a run prints about its own metrics."""

import math

import pytest

from danish_asr.recipe.run import advice
from danish_asr.recipe.run.advice import (
    LOSS,
    best_validation,
    idle_patience,
    long_warmup,
    loss_warning,
    never_reached,
    overfitting,
)


@pytest.mark.parametrize(
    ("loss", "key"), [(13.5, "None"), (13.6, "dataset.asr_task_config.normalize_audio")]
)
def test_a_loss_above_chance_is_reported(loss: float, key: str) -> None:
    """TRAPS, training: a first loss of hundreds is a fault, and looks like bad luck."""
    assert key in str(loss_warning(loss, 9.0))  # that of a new head may be a little above


WER = "Word Error Rate (WER)"


@pytest.mark.parametrize(
    ("rates", "losses", "warns"),
    [
        ([50, 30, 25, 24.9], [3.0, 2.0, 1.0, 0.9], False),
        ([50, 51, 52, 53], [3.0, 2.0, 1.0, 0.9], True),
        ([50, 51, 52, 53], [3.0, 3.0, 3.0, 3.0], False),
        ([50, 51, 52], [3.0, 2.0, 1.0], False),
        ([50, 51, 52, 53, 54], [3.0, 2.0, 1.0, 0.9, 0.8], False),
        ([50, 51, 52, 53, 54, 55, 56], [3.0, 2.0, 1.0, 0.9, 0.8, 0.7, 0.6], True),
        ([50, 51, 52, 50], [3.0, 2.0, 1.0, 0.9], False),
        ([50, 51, 52, 53], [3.0, 2.0, 1.0, 3.5], False),
        ([40, 50, 60, 70], [], False),
    ],
)
def test_overfitting_is_a_best_score_that_grows_old_while_the_loss_falls(
    rates: list[float], losses: list[float], *, warns: bool
) -> None:
    reports = [{"Step": step, LOSS: loss} for step, loss in enumerate(losses)]
    validations = [{"Step": step, WER: rate} for step, rate in enumerate(rates)]
    assert (overfitting(reports, validations, WER) is not None) is warns


@pytest.mark.parametrize(
    ("rates", "warns"),
    [
        (5 * [100], True),
        (4 * [100], False),
        (6 * [100], False),
        ([120, 101, 100, 100, 100], True),
        ([100, 100, 99.9, 100, 100], False),
    ],
)
def test_five_validations_without_a_word_are_named_once(rates: list[float], *, warns: bool) -> None:
    line = advice.no_word_right([{WER: rate} for rate in rates], WER)
    assert (line is not None) is warns
    assert not warns or "optimizer.config.lr" in str(line)


@pytest.mark.parametrize(
    ("score", "values", "end"),
    [
        (WER, [50, 40, 41, 39, 41, 40, 10], 6),
        (WER, [50, 40, 41, 40, 41, 42], 6),  # an equal one is the best one, as in the log
        (WER, [120, 100, 100, 100, 90, 95], None),
        (WER, [120, 100, 90, 100, 120, 95], 5),  # it has diverged
        (LOSS, [120, 130, 110, 115, 116], 5),
        (LOSS, [3, math.nan, 2, math.inf, math.nan], 5),
        ("cer", [math.nan] * 4, None),
    ],
)
def test_a_run_ends_after_two_validations_in_a_row_without_a_new_best(
    score: str, values: list[float], end: int | None
) -> None:
    rows = [{"Step": step, score: value} for step, value in enumerate(values, 1)]
    ends = [step for step in range(1, len(rows) + 1) if advice.early_stop(rows[:step], score, 2)]
    assert ends[:1] == ([] if end is None else [end])
    assert advice.early_stop(rows, score, None) is None
    if end:
        best = best_validation(rows[:end], score)["Step"]
        assert f"of step {best};" in str(advice.early_stop(rows[:end], score, 2))


@pytest.mark.parametrize(
    ("values", "warns"),
    [
        ({"lr_scheduler.config.num_warmup_steps": 100}, False),
        ({"lr_scheduler.config.num_warmup_steps": 500}, True),
        ({"lr_scheduler.config.num_warmup_steps": 500, "regime.num_steps": None}, False),
        ({"regime.num_steps": 5}, False),
        ({"lr_scheduler.config.stage_ratio": [0.1, 0.4, 0.5]}, False),
        ({"lr_scheduler.config.stage_ratio": [0.4, 0.4, 0.2]}, True),
    ],
)
def test_a_warm_up_of_more_than_a_tenth_is_named(values: dict[str, object], *, warns: bool) -> None:
    line = long_warmup({"regime.num_steps": 1000, **values})
    assert (line is not None) is warns


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"regime.num_steps": 100}, None),
        ({"regime.num_steps": 100, "regime.num_data_epochs": 10}, None),
        ({"regime.num_steps": 100, "regime.num_data_epochs": 9}, "regime.num_steps=90"),
        ({"regime.num_steps": None, "regime.num_data_epochs": 9}, None),
        (
            {"regime.num_steps": 100, "regime.num_data_epochs": 9, "lr_scheduler.name": "myle"},
            None,
        ),
        ({"regime.num_steps": 50}, "after 50, 60 never"),
        ({"regime.num_steps": None, "regime.num_data_epochs": 6}, "after 60 never"),
    ],
)
def test_what_the_end_of_a_run_cuts_off_is_named(
    values: dict[str, object], named: str | None
) -> None:
    lines = [*never_reached(values, 10, [0, 60, 50])]
    assert len(lines) == (named is not None)
    assert all(str(named) in line for line in lines)


@pytest.mark.parametrize(
    ("values", "warns"),
    [
        ({}, False),
        ({"regime.validate_every_n_steps": None}, True),
        (
            {"regime.validate_every_n_steps": None, "regime.validate_every_n_data_epochs": 0.5},
            False,
        ),
        ({"dataset.valid_split": None}, True),
        ({"dataset.valid_split": None, "regime.early_stopping_patience": None}, False),
    ],
)
def test_a_patience_without_validations_is_named(values: dict[str, object], *, warns: bool) -> None:
    before = {"regime.early_stopping_patience": 1, "regime.validate_every_n_steps": 5}
    line = idle_patience({**before, "dataset.valid_split": "dev", **values})
    assert (line is not None) is warns
