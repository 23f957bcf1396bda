"""The recipe on a GPU, from training to transcription.

Without a GPU the same tests run by hand on a CPU: `FAIRSEQ2_DEVICE=cpu pytest tests/gpu`.
"""

# ruff: noqa: E402 - without a GPU nothing slow is imported

import json
import os
from pathlib import Path

import pytest

DEVICE = os.environ.get("FAIRSEQ2_DEVICE", "cuda")
if DEVICE == "cuda" and not Path("/dev/nvidiactl").exists():
    pytest.skip("no NVIDIA GPU on this machine", allow_module_level=True)

import torch

from danish_asr import load_model
from tests.builders import tone
from tests.running import (
    RECIPE,
    arguments,
    copy_until,
    evaluate,
    finish,
    losses,
    metrics,
    start,
    train,
    weights,
)

CUDA = DEVICE != "cpu"
OPTIMIZERS = ("adamw", "adamw_8bit", "adamw_offload")
PLAIN = (
    "model.config_overrides={encoder_config: {num_encoder_layers: 2, model_dim: 64, dropout_p: 0}}",
    *("regime.num_steps=20", "regime.validate_every_n_steps=10", "lr_scheduler.name=passthrough"),
    *("regime.checkpoint_every_n_steps=10", "trainer.mixed_precision.mode=auto"),
    *("evaluator.amp=true", "trainer.grad_accumulation.num_batches=2"),
)
NEARLY = 5e-2 if CUDA else 1e-6
"""The CTC loss of a GPU sums gradients in any order."""


@pytest.fixture(scope="module")
def adamw(tmp_path_factory: pytest.TempPathFactory, dataset: Path) -> Path:
    """A run of 20 steps with autocast."""
    run = tmp_path_factory.mktemp("runs") / "adamw"
    assert train(run, dataset, *PLAIN) == 0
    return run


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_run_learns_and_continues_from_its_checkpoint(
    tmp_path: Path, dataset: Path, adamw: Path, optimizer: str
) -> None:
    run, chosen = adamw, f"optimizer.name={optimizer}"
    if optimizer != "adamw":
        run = tmp_path / "run"
        assert train(run, dataset, *PLAIN, chosen) == 0
    found = losses(run)
    assert len(found) == 20
    assert found[-1] < found[0]
    continued = copy_until(10, run, tmp_path / "continued")
    assert train(continued, dataset, *PLAIN, chosen) == 0
    assert losses(continued)[-1] == pytest.approx(found[-1], rel=NEARLY)


def test_it_scores_all_rows_and_transcribes(tmp_path: Path, dataset: Path, adamw: Path) -> None:
    assert evaluate(adamw, dataset, config=adamw / "config.yaml") == 0
    (file,) = (adamw / "eval").rglob("predictions.jsonl")
    assert len({json.loads(line)["id"] for line in file.read_text().splitlines()}) == 16
    (tmp_path / "a.wav").write_bytes(tone(2.0, rate=16_000))
    model = load_model(adamw, device=DEVICE)
    assert model.device.type == torch.device(DEVICE).type
    assert isinstance(model.transcribe(tmp_path / "a.wav").text, str)


def test_memory_is_reported_and_layerwise_checkpointing_and_fsdp_change_no_loss(
    tmp_path: Path, dataset: Path, adamw: Path
) -> None:
    run = tmp_path / "run"
    less = ("trainer.activation_checkpointing.mode=layerwise", "trainer.data_parallelism=fsdp")
    assert train(run, dataset, *PLAIN, *less) == 0
    assert losses(run) == pytest.approx(losses(adamw), rel=NEARLY)
    assert ("Peak Reserved Device Memory" in metrics(run, "train")[-1]) == CUDA


@pytest.mark.skipif(CUDA and torch.cuda.device_count() < 2, reason="fewer than two GPUs")
@pytest.mark.parametrize("parallelism", ["ddp", "fsdp"])
def test_two_processes_learn_what_one_learns_with_twice_the_accumulation(
    tmp_path: Path, dataset: Path, adamw: Path, parallelism: str
) -> None:
    run = tmp_path / "run"
    once = "trainer.grad_accumulation.num_batches=1"
    given = arguments(run, dataset, *PLAIN, once, f"trainer.data_parallelism={parallelism}")
    finish(start(RECIPE, given, processes=2, device=None if CUDA else DEVICE))
    assert losses(run) == pytest.approx(losses(adamw), rel=5e-2)
    assert weights(run, 20)
