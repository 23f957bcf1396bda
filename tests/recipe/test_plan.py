"""The plan: memory against counted bytes, the sampler's numbers, what makes a run fit."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq2.device import CPU
from fairseq2.gang import create_fake_gangs
from fairseq2.nn import BatchLayout
from torch.profiler import profile

from danish_asr.base.config_tree import merge, read_yaml
from danish_asr.planning.activations import Batch
from danish_asr.planning.gpus import Card
from danish_asr.planning.memory import CUDA_BYTES, Model, step_memory
from danish_asr.planning.plan import make_plan
from danish_asr.planning.presets import preset_for
from danish_asr.planning.show import show_plan
from danish_asr.recipe.config.load import load
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.entry import Request, read_configuration
from danish_asr.recipe.extension import tiny
from danish_asr.recipe.models.cards import Assets
from danish_asr.recipe.train.learning import Freezing
from tests.recipe.running import ROOT

PARTS = [f"{part}/pp_00/tp_00/sdp_00.pt" for part in ("model", "optimizer")]
GUIDE = read_yaml(ROOT / "configs" / "ctc-finetune-danish.yaml")


def deep(layers: int) -> Model:
    """A small model of so many layers."""
    config = tiny()
    config.encoder_config = replace(
        config.encoder_config, num_encoder_layers=layers, model_dim=64, ffn_inner_dim=256
    )
    family: Any = Assets(AsrConfig().common.assets).model_family()
    return Model(family, config)


def allocated(model: Model, config: AsrConfig, batch: Batch) -> int:
    """The peak of PyTorch's allocations in the second forward and backward pass, on this CPU."""
    gangs = create_fake_gangs(CPU)
    module: Any = model.family.create_new_model(model.config, gangs, torch.float32, meta=False)
    Freezing(config).freeze_permanently(module)
    if config.trainer.activation_checkpointing.mode == "layerwise":
        model.family.apply_layerwise_ac(module, 1)

    def step() -> None:
        audio = torch.randn(batch)
        lengths = [batch.samples, *[batch.samples * 3 // 4] * (batch.rows - 1)]
        targets = torch.randint(4, 30, (batch.rows, batch.samples * 15 // 16_000))
        layout = BatchLayout.of(audio, lengths)
        module(audio, layout, targets, BatchLayout.of(targets)).backward()

    step()
    with profile(profile_memory=True) as counted:
        step()
    events = counted.profiler.kineto_results.events()
    highest = total = 0
    for event in events:
        total += event.nbytes() if event.name() == "[memory]" else 0
        highest = max(highest, total)
    return highest


@pytest.mark.parametrize(
    ("trainer", "part", "off"),
    [
        ({"freeze_feature_extractor": True}, "activations, encoder", 0.02),
        # Kernels of convolutions copy more than the plan knows.
        ({"activation_checkpointing": {"mode": "layerwise"}}, "activations, front end", 0.15),
    ],
)
def test_the_planned_memory_of_a_batch_is_what_pytorch_allocates(
    trainer: dict[str, object], part: str, off: float
) -> None:
    tree = {"dataset": {"name": "none"}, "trainer": {"mixed_precision": {"mode": "off"}, **trainer}}
    config, model, batch = load(tree, where="the test"), deep(12), Batch(3, 64_000)
    parts = step_memory(config, model, batch, on_gpu=False)
    state = sum(parts.pop(name) for name in ("weights", "gradients", "optimizer's moments"))
    module = model.build(config)
    learning = [p for p in module.parameters() if p.requires_grad]
    numbers = sum(p.numel() for p in module.parameters()), sum(p.numel() for p in learning)
    assert state == 4 * numbers[0] + 12 * numbers[1]
    assert max(parts, key=lambda name: parts[name]) == part
    assert sum(parts.values()) == pytest.approx(allocated(model, config, batch), rel=off)


def test_the_guides_configuration_fits_12_gb_with_what_the_plan_lays_over_it() -> None:
    card = Card.of("12GB")
    plan = make_plan(GUIDE, where="guide", card=card)
    assert plan.fits is False
    assert sum(every for every, _ in plan.parameters.values()) == 325_494_996
    after = make_plan(merge(GUIDE, plan.overlay), where="guide", card=card)
    assert after.fits
    assert after.total == plan.total - sum(remedy.gives for remedy in plan.remedies)
    assert after.minutes == plan.minutes == 32


def test_what_a_plan_wrote_is_laid_over_the_configuration(tmp_path: Path) -> None:
    guide, fits = ROOT / "configs" / "ctc-finetune-danish.yaml", tmp_path / "fits.yaml"
    assert not show_plan(
        Request(output_dir=None, config_files=[guide]), "12GB", 1, write=fits, as_json=True
    )
    tree = read_configuration(Request(output_dir=None, config_files=[guide, fits]))
    assert tree["dataset"]["asr_task_config"]["max_num_elements"] == 960_000


@pytest.mark.parametrize("name", ["12GB", "rtx3090", "a100-40", "a100-80"])
def test_the_preset_of_a_card_fits_it(name: str) -> None:
    card = Card.of(name)
    files, _ = preset_for(card)
    tree = merge(*(read_yaml(ROOT / file) for file in files))
    assert make_plan(tree, where=name, card=card).fits


def test_the_plan_has_the_memory_of_the_published_run() -> None:
    """1B_v2 on an A100 of 40 GB, 60 s, 1.92M samples in a batch: 96 % reserved at the peak."""
    task = {"asr_task_config": {"max_audio_len": 960_000, "max_num_elements": 1_920_000}}
    tree = {"model": {"name": "omniASR_CTC_1B_v2"}, "dataset": {"name": "none", **task}}
    plan = make_plan(tree, where="published", card=Card.of("a100-40"))
    assert plan.card
    assert (plan.total - CUDA_BYTES) / plan.card.free == pytest.approx(0.96, abs=0.01)


@pytest.mark.parametrize(
    ("model", "elements", "batches", "hours"),
    [("omniASR_CTC_300M_v2", 2_560_000, 4, 7.72), ("omniASR_CTC_1B_v2", 1_920_000, 8, 38.2)],
)
def test_the_plans_hours_are_those_of_published_runs(
    model: str, elements: int, batches: int, hours: float
) -> None:
    tree: dict[str, Any] = {
        "model": {"name": model},
        "dataset": {"name": "none", "asr_task_config": {"max_num_elements": elements}},
        "trainer": {"grad_accumulation": {"num_batches": batches}},
        "regime": {"num_steps": 50_000},
    }
    plan = make_plan(tree, where="published", card=Card.of("a100-40"))
    assert plan.hours == pytest.approx((hours, hours), rel=0.13)
    tree["trainer"]["activation_checkpointing"] = {"mode": "layerwise"}
    fast = make_plan(tree, where="published", card=Card.of("h100"), gpus=2)
    assert fast.audio_hours
    assert fast.hours == pytest.approx(
        (2 * 0.32 * 2 / 3 * hours, 2 * 0.46 * 2 / 3 * hours), rel=0.15
    )


@pytest.mark.parametrize(
    ("device", "gib", "name"),
    [
        ("NVIDIA A100-SXM4-40GB", 39.5, "a100-40"),
        ("NVIDIA A100 80GB PCIe", 79.2, "a100-80"),
        ("NVIDIA L40S", 44.5, "l40s"),
        ("NVIDIA H200", 139.8, "h200"),
        ("Tesla V100-PCIE-32GB", 31.7, "v100-32"),
        ("NVIDIA GeForce RTX 3060 Ti", 7.7, "rtx3060ti"),
        ("NVIDIA GeForce RTX 4090", 23.6, "rtx4090"),
        ("NVIDIA RTX A4000", 15.7, None),
    ],
)
def test_a_gpu_of_this_machine_has_the_speed_of_its_name(
    device: str, gib: float, name: str | None
) -> None:
    card = Card.found(device, int(gib * 2**30))
    assert card == (device, int(gib * 2**30), name and Card.of(name).speed)


@pytest.mark.parametrize(
    ("schedule", "share"),
    [
        ({}, None),
        ({"config": {"stage_ratio": [0.3, 0.2, 0.5]}}, "30%"),
        ({"name": "cosine_annealing", "config": {"num_warmup_steps": 8_000}}, "40%"),
        ({"name": "cosine_annealing", "config": {"num_warmup_steps": 2_000}}, None),
    ],
)
def test_a_warm_up_of_more_than_a_tenth_of_the_run_is_noted(
    schedule: dict[str, Any], share: str | None
) -> None:
    tree = {"model": {"arch": "tiny"}, "dataset": {"name": "none"}, "lr_scheduler": schedule}
    notes = [note for note in make_plan(tree, where="x").notes if "rises for" in note]
    assert len(notes) == (share is not None)
    assert not notes or f"rises for {share} of the 20,000 steps" in notes[0]


def test_the_plan_of_a_smaller_model_has_the_layers_that_it_keeps() -> None:
    tree = {"model": {"name": "omniASR_CTC_300M"}, "dataset": {"name": "none"}}
    half = merge(tree, {"model": {"keep_layers": [*range(0, 24, 2)]}})
    every, kept = (make_plan(each, where="x") for each in (tree, half))
    assert 2 * kept.memory["activations, encoder"] < 1.2 * every.memory["activations, encoder"]
    assert kept.parameters["encoder"][0] < 0.51 * every.parameters["encoder"][0]


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
