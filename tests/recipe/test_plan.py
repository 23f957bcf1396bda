"""The plan: memory by a formula, the sampler's numbers, hours, what makes a run fit."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from danish_asr.base.config_tree import merge, parse_override, read_yaml
from danish_asr.base.errors import DatasetError
from danish_asr.planning.gpus import Card, card_of, here, preset_for
from danish_asr.planning.memory import CUDA_BYTES
from danish_asr.planning.plan import Plan, make_plan, show_plan
from danish_asr.recipe.entry import Request
from tests.recipe.running import ROOT

PARTS = [f"{part}/pp_00/tp_00/sdp_00.pt" for part in ("model", "optimizer")]
GUIDE = read_yaml(ROOT / "configs" / "ctc-finetune-danish.yaml")
GIB = 2**30


def planned(*trees: dict[str, Any], card: str | None = None, gpus: int = 1) -> Plan:
    name = {"model": {"name": "omniASR_CTC_300M_v2"}, "dataset": {"name": "none"}}
    return make_plan(
        merge(name, *trees), where="x", card=card_of(card) if card else None, gpus=gpus
    )


def preset(*names: str) -> dict[str, Any]:
    return merge(*(read_yaml(ROOT / "configs" / f"{name}.yaml") for name in names))


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


def test_fsdp_divides_what_ddp_copies() -> None:
    ddp, fsdp = (
        planned({"trainer": {"data_parallelism": name}}, gpus=4).memory for name in ("ddp", "fsdp")
    )
    assert fsdp["gradients"] == ddp["gradients"] // 4
    assert "DDP's buckets of gradients" not in fsdp


def test_hints_come_in_a_fixed_order_and_do_what_they_say(capsys: Any) -> None:
    plan = make_plan(GUIDE, where="guide", card=card_of("12GB"))
    assert plan.fits is False
    assert plan.parameters == 325_494_996
    lean, layerwise, half = plan.hints
    assert "optimizer.name=adamw_8bit" in lean.values
    assert layerwise.values == "trainer.activation_checkpointing.mode=layerwise"
    assert half.values.split() == [
        "dataset.asr_task_config.max_num_elements=1920000",
        "trainer.grad_accumulation.num_batches=16",
    ]
    for hint in plan.hints:
        pasted = merge(GUIDE, *map(parse_override, hint.values.split()))
        after = make_plan(pasted, where="pasted", card=card_of("12GB"))
        assert (after.total, after.minutes) == (hint.total, plan.minutes)
    leaner = planned(preset("standard", "lean"), card="8GB")  # what it has is no hint
    assert [hint.name for hint in leaner.hints] == [half.name]
    guide = [ROOT / "configs" / "ctc-finetune-danish.yaml"]
    assert not show_plan(Request(output_dir=None, config_files=guide), "12GB", 1)
    assert half.values in capsys.readouterr().out


@pytest.mark.parametrize("name", ["12GB", "rtx3090", "a100-40", "a100-80"])
def test_the_preset_of_a_card_fits_it(name: str) -> None:
    files, _ = preset_for(card_of(name))
    assert planned(preset(*(file.stem for file in files)), card=name).fits


PUBLISHED = [("300M", 2_560_000, 4, 7.72), ("1B", 1_920_000, 8, 38.2)]


@pytest.mark.parametrize(("size", "elements", "batches", "hours"), PUBLISHED)
def test_the_hours_of_published_runs_are_in_the_range(
    size: str, elements: int, batches: int, hours: float
) -> None:
    tree: dict[str, Any] = {
        "model": {"name": f"omniASR_CTC_{size}_v2"},
        "dataset": {"asr_task_config": {"max_num_elements": elements}},
        "trainer": {"grad_accumulation": {"num_batches": batches}},
        "regime": {"num_steps": 50_000},
    }
    least, most = planned(tree, card="a100-40").hours or (0, 0)
    assert least < hours < most < 1.4 * least
    layerwise = {"trainer": {"activation_checkpointing": {"mode": "layerwise"}}}
    slower = planned(tree, layerwise, card="a100-40").hours or (0, 0)
    assert slower[0] == pytest.approx(4 / 3 * least, rel=0.01)
    frozen = planned(tree, {"trainer": {"freeze_encoder_layers": 12}}, card="a100-40").hours
    assert frozen
    assert frozen[0] < 0.9 * least
    fast = planned(tree, card="h100").hours or (0, 0)
    assert fast[0] == pytest.approx(least * 312 / 989, rel=0.01)
    assert fast[1] == pytest.approx(most * 1_555 / 3_350, rel=0.01)


def noted(plan: Plan, word: str) -> bool:
    return any(word in note for note in plan.notes)


def test_a_card_without_bfloat16_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert noted(planned(card="t4"), "evaluator.amp_dtype=float16")
    assert not noted(planned(card="a10"), "amp_dtype")
    v100 = SimpleNamespace(name="Tesla V100-PCIE-32GB", total_memory=32 * GIB, major=7)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda _: v100)
    assert here() == Card("Tesla V100-PCIE-32GB", 32, bfloat16=False)


def test_a_long_warm_up_is_noted() -> None:
    assert noted(planned({"lr_scheduler": {"config": {"stage_ratio": [0.3, 0.2, 0.5]}}}), "30%")


def test_a_dataset_that_lost_a_shard_is_refused(dataset: Path, tmp_path: Path) -> None:
    root = shutil.copytree(dataset, tmp_path / "lost")
    shard = next(root.rglob("split=train/*/*.parquet"))
    shard.unlink()
    files = [ROOT / "configs" / "standard.yaml"]
    with pytest.raises(DatasetError, match=shard.name):
        show_plan(Request(output_dir=None, config_files=files, dataset=root), "h100", 1)


def test_the_plan_has_the_samplers_numbers_and_the_bytes_that_a_run_writes(
    finished_run: Path,
) -> None:
    tree = read_yaml(finished_run / "config.yaml")
    plan = make_plan(tree, where="run", gpus=1)
    log = (finished_run / "logs" / "rank_0.log").read_text(encoding="utf-8")
    assert plan.epoch
    assert not plan.notes
    minutes = f"Audio per step: {plan.minutes:.3g} minutes"
    line = f"Steps per epoch: {plan.epoch.steps} | Padding: {plan.epoch.padding:.1%} | {minutes}"
    assert line in log
    folder = finished_run / "checkpoints" / "step_4"
    written = sum((folder / part).stat().st_size for part in PARTS)
    assert plan.disk.one == pytest.approx(written, rel=0.1)
    two = make_plan(tree, where="run", gpus=2)
    assert two.epoch
    assert two.epoch.steps == -(-plan.epoch.steps // 2)
