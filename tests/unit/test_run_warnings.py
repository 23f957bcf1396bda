"""What a run prints about its own metrics."""

import pytest

from danish_asr.recipe.run.advice import LOSS, long_warmup, overfitting

WER = "Word Error Rate (WER)"


@pytest.mark.parametrize(
    ("rates", "losses", "warns"),
    [
        ([50, 30, 25, 24.9], [3.0, 2.0, 1.0, 0.9], False),
        ([50, 51, 52, 53], [3.0, 2.0, 1.0, 0.9], True),
        ([50, 51, 52, 53], [3.0, 3.0, 3.0, 3.0], False),
        ([50, 51, 52], [3.0, 2.0, 1.0], False),
    ],
)
def test_overfitting_is_a_best_score_that_grows_old_while_the_loss_falls(
    rates: list[float], losses: list[float], *, warns: bool
) -> None:
    reports = [{"Step": step, LOSS: loss} for step, loss in enumerate(losses)]
    validations = [{"Step": step, WER: rate} for step, rate in enumerate(rates)]
    assert (overfitting(reports, validations, WER) is not None) is warns


@pytest.mark.parametrize(
    ("values", "warns"),
    [
        ({"lr_scheduler.config.num_warmup_steps": 100}, False),
        ({"lr_scheduler.config.num_warmup_steps": 500}, True),
        ({"lr_scheduler.config.stage_ratio": [0.1, 0.4, 0.5]}, False),
        ({"lr_scheduler.config.stage_ratio": [0.4, 0.4, 0.2]}, True),
    ],
)
def test_a_warm_up_of_more_than_a_tenth_is_named(values: dict[str, object], *, warns: bool) -> None:
    line = long_warmup({"regime.num_steps": 1000, **values})
    assert (line is not None) is warns
