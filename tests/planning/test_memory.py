from typing import Any

import pytest

from danish_asr.planning.memory import CUDA_BYTES, Batch, largest_batch
from danish_asr.recipe.data.reader import EpochSize
from tests.plans import GIB, planned, preset

SAMPLES = 3_200_000
"""The most of a batch, by default."""


@pytest.mark.parametrize(
    ("longest", "rows", "most", "batch"),
    [
        (None, 0, 500_000, Batch(2, 500_000)),
        (500_000, 99, 600_000, Batch(2, 500_000)),
        (400_000, 1, 400_000, Batch(1, 400_000)),  # there is only one
        (300_000, 99, 400_000, Batch(4, 250_000)),  # shorter ones fill the batch better
        (None, 0, 2_000_000, Batch(1, 1_000_000)),
    ],
)
def test_the_largest_batch_is_that_of_the_longest_rows_or_of_more_shorter_ones(
    longest: int | None, rows: int, most: int, batch: Batch
) -> None:
    task = {"max_audio_len": most, "max_num_elements": 1_000_000, "num_seqs_multiple_of": 1}
    config = planned({"dataset": {"asr_task_config": task}}).config
    epoch = longest and EpochSize(steps=1, hours=1.0, padding=0.0, longest=longest, rows=rows)
    assert largest_batch(config, epoch or None) == batch


@pytest.mark.parametrize(
    ("size", "files", "gib"),
    [
        ("300M", ["standard"], 15.11),
        ("300M", ["standard", "a100-80"], 31.19),
        ("300M", ["standard", "lean"], 5.18),
        ("1B", ["standard"], 35.32),
        ("1B", ["standard", "lean"], 5.18),
        ("3B", ["standard"], 70.02),
        ("3B", ["standard", "lean"], 9.35),
    ],
)
def test_the_formula_is_near_a_trace_of_the_models_own_code(
    size: str, files: list[str], gib: float
) -> None:
    """The bytes beside weights, gradients and moments, in docs/background/measurements.md."""
    plan = planned(preset(*files), {"model": {"name": f"omniASR_CTC_{size}_v2"}})
    parts = dict(plan.memory)
    for name in ("weights", "gradients", "optimizer's moments"):
        parts.pop(name)
    traced = sum(size for name, size in parts.items() if "assumed" not in name)
    assert gib * 0.99 < traced / GIB < gib * 1.11


def test_the_plan_has_the_memory_of_the_published_run() -> None:
    """1B_v2 on an A100 of 40 GB, 60 s, 1.92M samples in a batch: 96 % reserved at the peak."""
    task = {"asr_task_config": {"max_audio_len": 960_000, "max_num_elements": 1_920_000}}
    plan = planned({"model": {"name": "omniASR_CTC_1B_v2"}, "dataset": task}, card="a100-40")
    assert plan.card
    assert (plan.total - CUDA_BYTES) / plan.card.gib / GIB == pytest.approx(0.96, abs=0.01)


@pytest.mark.parametrize(
    ("change", "part", "share"),
    [
        ({"optimizer": {"name": "adamw_8bit"}}, "optimizer's moments", 0.254),
        ({"trainer": {"freeze_encoder_layers": 12}}, "activations, encoder", 0.5),
        ({"model": {"keep_layers": [*range(0, 24, 2)]}}, "activations, encoder", 0.5),
        ({"trainer": {"unfreeze": {0: "head", 9: "top 18"}}}, "activations, encoder", 0.75),
        ({"optimizer": {"name": "adamw_offload"}}, "optimizer's moments", 0),
    ],
)
def test_a_technique_reduces_the_part_that_it_is_for(
    change: dict[str, Any], part: str, share: float
) -> None:
    before, after = planned().memory[part], planned(change).memory.get(part, 0)
    assert after / before == pytest.approx(share, rel=0.02)


def test_the_parts_of_a_step_are_the_fitted_numbers() -> None:
    """300M, float32 weights of which bfloat16 copies compute, 2,560,000 samples in a batch."""
    parts = planned(preset("standard")).memory
    frozen, learns = (
        planned({"trainer": {"freeze_feature_extractor": value}}) for value in (True, False)
    )
    head = planned({"trainer": {"freeze_encoder_layers": 24, "freeze_feature_extractor": True}})
    assert {name: round(size / 1e6) for name, size in parts.items()} == {
        "weights": 1304,
        "gradients": 1287,
        "optimizer's moments": 2574,
        "activations, front end": 173,
        "activations, encoder": 13899,
        "a layer's backward pass, or logits and CTC": 1506,
        "copies of the weights in bfloat16": 626,
        "gaps (12 % assumed)": 2564,
        "CUDA, cuBLAS, cuDNN (assumed)": 805,
    }
    kept = learns.memory["activations, front end"] - frozen.memory["activations, front end"]
    assert kept == pytest.approx((843 + 416 * 2) * SAMPLES)
    # The convolutions need more than all else where nothing but the head learns.
    assert head.memory["activations, convolutions"] == 1447 * SAMPLES


def test_what_never_learns_has_no_gradients() -> None:
    plan = planned({"trainer": {"freeze_encoder_layers": 12}})
    assert plan.memory["gradients"] == 4 * plan.learning
    assert plan.learning / plan.parameters == pytest.approx(0.5, abs=0.1)


def test_fsdp_divides_what_ddp_copies() -> None:
    ddp, fsdp = (
        planned({"trainer": {"data_parallelism": name}}, gpus=4).memory for name in ("ddp", "fsdp")
    )
    assert fsdp["gradients"] == ddp["gradients"] // 4
    assert "DDP's buckets of gradients" not in fsdp
