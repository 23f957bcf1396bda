"""The plan: memory by a formula, the sampler's numbers, hours, what makes a run fit."""

import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from danish_asr.base.config_tree import merge, nested, parse_override, read_yaml
from danish_asr.base.errors import ConfigError, DatasetError
from danish_asr.planning import plan as plan_module
from danish_asr.planning.gpus import Card, card_of
from danish_asr.planning.memory import CUDA_BYTES
from danish_asr.planning.plan import check_machine, make_plan, show_plan
from danish_asr.recipe.entry import Request
from tests.plans import GIB, planned, preset
from tests.running import ROOT, weights

PARTS = [f"{part}/pp_00/tp_00/sdp_00.pt" for part in ("model", "optimizer")]
FILES = [ROOT / "configs" / "ctc-finetune-danish.yaml"]
GUIDE = read_yaml(FILES[0])


def test_hints_come_in_a_fixed_order_and_do_what_they_say(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
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
        after = make_plan(pasted, where="pasted")
        assert (after.total, after.minutes) == (hint.total, plan.minutes)
    leaner = planned(preset("standard", "lean"), card="8GB")  # what it has is no hint
    assert [hint.name for hint in leaner.hints] == [half.name]
    monkeypatch.setattr("danish_asr.planning.plan.make_plan", lambda *_, **__: plan)
    assert not show_plan(Request(output_dir=None, config_files=FILES), "12GB", 1)
    assert half.values in capsys.readouterr().out


def hours(*trees: dict[str, Any], card: str = "a100-40") -> tuple[float, float]:
    least, most = planned({"regime": {"num_steps": 50_000}}, *trees, card=card).hours or (0, 0)
    return least, most


PUBLISHED = [("300M", 2_560_000, 4, 7.72), ("1B", 1_920_000, 8, 38.2)]


@pytest.mark.parametrize(("size", "elements", "batches", "published"), PUBLISHED)
def test_the_hours_of_published_runs_are_in_the_range(
    size: str, elements: int, batches: int, published: float
) -> None:
    tree: dict[str, Any] = {
        "model": {"name": f"omniASR_CTC_{size}_v2"},
        "dataset": {"asr_task_config": {"max_num_elements": elements}},
        "trainer": {"grad_accumulation": {"num_batches": batches}},
    }
    least, most = hours(tree)
    assert least < published < most < 1.4 * least


def test_hours_depend_on_the_passes_and_on_the_card() -> None:
    least, most = hours()
    slower, _ = hours({"trainer": {"activation_checkpointing": {"mode": "layerwise"}}})
    assert slower == pytest.approx(4 / 3 * least, rel=0.01)
    frozen, _ = hours({"trainer": {"freeze_encoder_layers": 12}})
    assert 0.6 * least < frozen < 0.9 * least
    fast = hours(card="h100")
    assert fast == pytest.approx((least * 312 / 989, most * 1_555 / 3_350), rel=0.01)
    assert hours(card="12GB") == (0, 0)  # of unknown speed


def test_the_plan_is_printed_with_what_its_gpus_cost_together(capsys: Any) -> None:
    request = Request(output_dir=None, config_files=FILES)
    assert show_plan(request, "a100-40", 2, price_per_hour=3.0)
    names = "parameters|a step|in all|disk|hours|cost"
    facts = dict(re.findall(rf"(?m)^({names}) +(.*)$", capsys.readouterr().out))
    plan = make_plan(GUIDE, where="guide", card=card_of("a100-40"), gpus=2)
    assert plan.hours
    least, most = plan.hours
    assert re.findall(r"[\d.]+ M", facts["parameters"]) == ["325.5 M", "321.3 M"]
    assert facts["hours"].startswith(f"{least:.2g} to {most:.2g}, ")
    assert facts["cost"].startswith(f"{6 * least:,.0f} to {6 * most:,.0f}, at 3 ")
    assert facts["a step"].startswith(f"at most {plan.minutes:.3g} min")
    assert f"at most {plan.audio_hours:,.0f} h" in facts["in all"]
    sizes = f"{plan.disk.one / GIB:.2f}, of which the model is {plan.disk.model / GIB:.2f}"
    total = f"{plan.disk.total / GIB:.2f} GiB"
    assert facts["disk"] == f"{total}: {plan.disk.number} checkpoints of {sizes}"
    steps = GUIDE["regime"]["num_steps"]
    assert (plan.audio_hours, plan.epochs) == (steps * plan.minutes / 60, 0)


def test_a_plan_says_how_much_of_the_card_it_takes(capsys: Any) -> None:
    request = Request(output_dir=None, config_files=FILES)
    show_plan(request, "12GB", 1)
    printed = capsys.readouterr().out
    plan = make_plan(GUIDE, where="guide", card=card_of("12GB"))
    assert plan.card
    assert f"{plan.total / GIB:.1f} of {plan.card.gib:.1f} GiB" in printed
    for hint in plan.hints:
        fits = "fits" if hint.total <= plan.card.gib * GIB else "does not fit"
        assert f"{plan.total / GIB:.1f} becomes {hint.total / GIB:.1f} GiB, which {fits}" in printed


@pytest.mark.parametrize(("epochs", "noted"), [(200, False), (201, True)])
def test_many_epochs_are_noted_with_the_steps_of_thirty(
    dataset: Path, *, epochs: int, noted: bool
) -> None:
    assets = {"extra_paths": [str(dataset / "cards")]}
    own = {"dataset": {"name": "tiny"}, "common": {"assets": assets}}

    def plan_of(steps: int) -> plan_module.Plan:
        tree = merge(preset("demo"), own, {"regime": {"num_steps": steps}})
        return make_plan(tree, where="x")

    epoch = plan_of(1).epoch
    assert epoch
    plan = plan_of(epochs * epoch.steps)
    assert any(f"regime.num_steps={30 * epoch.steps}" in note for note in plan.notes) is noted


def test_a_plan_with_a_dataset_knows_its_epoch_and_says_whether_it_fits(
    dataset: Path, capsys: Any
) -> None:
    files = [ROOT / "configs" / "demo.yaml"]
    request = Request(output_dir=None, config_files=files, dataset=dataset)
    verdicts = {"8GB": "It fits", "1GB": "It does not fit"}
    for card, verdict in verdicts.items():
        assert show_plan(request, card, 1) is (verdict == "It fits")
        printed = capsys.readouterr().out
        assert re.findall(r"It (?:fits|does not fit)", printed)[0] == verdict
        facts = dict(re.findall(r"(?m)^(a step|an epoch|in all|hours) +(.*)$", printed))
        assert re.match(r"[\d.]+ min", facts["a step"])
        assert re.fullmatch(r"[\d,]+ steps, [\d.]+ h, [\d.]+% padding", facts["an epoch"])
        assert re.match(r"[\d,]+ steps, [\d.]+ h of audio, [\d.,]+ epochs", facts["in all"])
        assert facts["hours"].startswith("not known")


@pytest.mark.parametrize(
    ("card", "ratio", "word", "is_noted"),
    [
        ("t4", [0.1, 0.4, 0.5], "evaluator.amp_dtype=float16", True),
        ("a10", [0.1, 0.4, 0.5], "float16", False),
        ("a10", [0.3, 0.2, 0.5], "30%", True),
    ],
)
def test_a_card_without_bfloat16_and_a_long_warm_up_are_noted(
    card: str, ratio: list[float], word: str, is_noted: bool
) -> None:
    notes = planned({"lr_scheduler": {"config": {"stage_ratio": ratio}}}, card=card).notes
    assert any(word in note for note in notes) is is_noted


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("regime.checkpoint_every_n_steps", 600),  # validations come every 300 steps
        ("regime.num_data_epochs", 1),
        ("trainer.stages", {2000: {"lr": 1e-5}}),
    ],
)
def test_what_a_training_would_say_at_its_start_is_noted(
    dataset: Path, key: str, value: object
) -> None:
    assets = {"extra_paths": [str(dataset / "cards")]}
    own = {"dataset": {"name": "tiny"}, "common": {"assets": assets}, "regime": {"num_steps": 900}}
    tree = merge(preset("demo"), own, nested(key, value))
    assert any(key in note for note in make_plan(tree, where="x").notes)


def test_a_dataset_that_lost_a_shard_is_refused(dataset: Path, tmp_path: Path) -> None:
    root = shutil.copytree(dataset, tmp_path / "lost")
    shard = next(root.rglob("split=train/*/*.parquet"))
    shard.unlink()
    with pytest.raises(DatasetError, match=shard.name):
        show_plan(Request(output_dir=None, config_files=FILES, dataset=root), "h100", 1)


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
    assert f"{plan.epoch.steps} steps" in dict(plan_module._facts(plan, None))["an epoch"]
    folder = finished_run / "checkpoints" / "step_4"
    written = sum((folder / part).stat().st_size for part in PARTS)
    assert plan.disk.one == pytest.approx(written, rel=0.1)
    assert plan.parameters == sum(map(torch.numel, weights(finished_run, 4).values()))
    del tree["model"]["config_overrides"]["target_vocab_size"]  # the tokenizer has as many symbols
    assert make_plan(tree, where="run").parameters == plan.parameters
    two = make_plan(tree, where="run", gpus=2)
    assert two.epoch
    assert two.epoch.steps == -(-plan.epoch.steps // 2)


def test_a_plan_without_its_dataset_or_steps_says_what_is_unknown() -> None:
    own = {"regime": {"num_steps": None, "num_data_epochs": 2}}
    plan = planned(own, {"lr_scheduler": {"name": "passthrough"}})
    assert any(note.endswith("Steps and padding of an epoch are unknown") for note in plan.notes)
    assert (plan.epoch, plan.epochs, plan.audio_hours, plan.hours) == (None, 0, 0, None)


@pytest.fixture(autouse=True)
def _large_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000 * GIB))


def works(dataset: Path, gpus: int = 1, **values: Any) -> bool:
    """Whether a run of a tiny model with these values would work here."""
    assets = {"extra_paths": [str(dataset / "cards")]}
    own = {"dataset": {"name": "tiny"}, "common": {"assets": assets}}
    tree = merge(preset("demo"), own, values)
    return check_machine(make_plan(tree, where="x", card=Card("a card", 40), gpus=gpus))


def test_a_machine_without_a_requested_gpu_has_an_error(
    dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert check_machine()
    assert works(dataset)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert not check_machine()


def test_a_name_that_is_not_here_is_an_error_and_weights_are_a_warning(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        works(dataset, pretrained_encoder={"name": "nowhere"})
    monkeypatch.setenv("FAIRSEQ2_CACHE_DIR", str(tmp_path / "cache"))
    encoder = {"name": "omniASR_W2V_300M"}
    assert works(dataset, model={"arch": "300m"}, pretrained_encoder=encoder)
    assert "omniASR_W2V_300M" in capsys.readouterr().out


@pytest.mark.parametrize(("free", "gpus", "enough"), [(40, 1, True), (4, 1, False), (5, 8, True)])
def test_the_memory_that_other_programs_leave_must_be_enough_on_each_gpu(
    dataset: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
    *,
    free: int,
    gpus: int,
    enough: bool,
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "a card")
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda: (free * GIB, 40 * GIB))
    settings: dict[str, Any] = {"mixed_precision": {"mode": "static"}, "data_parallelism": "fsdp"}
    settings["freeze_feature_extractor"] = True
    assert works(dataset, gpus, model={"arch": "300m"}, trainer=settings) == enough
    named = f"{free + CUDA_BYTES / GIB:.1f} GiB"
    assert (named in capsys.readouterr().out) is not enough


def test_too_little_disk_for_the_checkpoints_is_an_error(
    dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    assert not works(dataset)
