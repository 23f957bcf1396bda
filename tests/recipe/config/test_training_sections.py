"""The keys of a training: what they may be, and what there is to know of an optimizer."""

import pytest

from danish_asr.recipe.config.training_sections import OPTIMIZERS
from tests.config_keys import GOLDEN, lines_of_keys, loaded

SECTIONS = ("gang.", "trainer.", "optimizer.", "lr_scheduler.", "regime.")


def test_the_keys_of_a_training_are_those_of_the_golden_file() -> None:
    golden = GOLDEN.read_text().splitlines()
    assert [line for line in lines_of_keys() if line.startswith(SECTIONS)] == [
        line for line in golden if line.startswith(SECTIONS)
    ]


@pytest.mark.parametrize(
    ("key", "accepted", "refused"),
    [
        ("gang.timeout", 10_000_000, 10_000_001),
        ("trainer.freeze_feature_extractor", True, 1),
        ("trainer.unfreeze", {0: "head", "2.5 epochs": "top 12"}, {0: "top 0"}),
        ("trainer.unfreeze", {0: "head", "1 epoch": "all"}, {0: "head", "epoch": "all"}),
        ("trainer.stages", {1: {"where": None, "subset": 1, "lr": 1e-9}}, {1: {"subset": 0}}),
        ("trainer.stages", {5: {"where": "a", "subset": None, "lr": None}}, {1: {"lr": 0.0}}),
        ("optimizer.config.betas", [0.0, 0.999], [0.9]),
        ("optimizer.config.betas", [0.9, 0.9], [0.9, 1.0]),
        ("optimizer.config.betas", [0.5, 0.9], [0.5, 0.9, 0.9]),
        ("lr_scheduler.config.stage_ratio", [0.2, 0.3, 0.5], [0.2, 0.3, 0.6]),
        ("lr_scheduler.config.stage_ratio", [0.0, 0.0, 1.0], [0.5, 0.5]),
        ("lr_scheduler.config.stage_ratio", [0.5, 0.0, 0.5], [0.25, 0.25, 0.25, 0.25]),
        ("regime.save_model_only", "all_but_last", "none"),
        ("regime.score_profile", "plain", "plane"),
        ("regime.num_steps", 1, "1"),
    ],
)
def test_a_value_at_a_bound_is_accepted_and_one_beyond_it_is_refused(
    key: str, accepted: object, refused: object
) -> None:
    assert loaded(key, accepted) == accepted
    assert str(loaded(key, refused)).startswith(key)


def test_types_may_be_written_as_those_of_torch() -> None:
    assert loaded("trainer.mixed_precision.dtype", "torch.float16") == "float16"


@pytest.mark.parametrize(
    ("name", "shape", "size"),
    [
        ("adamw", (64, 64), 8 * 4096),
        ("adamw_8bit", (4095,), 8 * 4095),
        ("adamw_8bit", (64, 64), 2 * 4096 + 8 * 16),
        ("adamw_8bit", (4097,), 2 * 4097 + 8 * 17),
        ("adamw_offload", (4096,), 8 * 4096),
    ],
)
def test_moments_take_eight_bytes_and_two_codes_and_scales_where_they_have_8_bits(
    name: str, shape: tuple[int, ...], size: int
) -> None:
    assert OPTIMIZERS[name].state_bytes(shape) == size
    assert OPTIMIZERS[name].on_host == (name == "adamw_offload")
