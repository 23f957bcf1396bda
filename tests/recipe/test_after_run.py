"""A finished run: a model with a name, and a record of its environment."""

import json
import re
import shutil
from pathlib import Path

import pytest
import soundfile
import torch

from danish_asr.base.config_tree import read_yaml
from danish_asr.corpus.cards import build_char_tokenizer
from danish_asr.recipe.data.index import DanishAsrDataset
from danish_asr.scoring.predictions import read_predictions
from tests.forks import in_processes
from tests.recipe.running import copy_until, evaluate, metrics, train, weights


def transcribe_with_omnilingual(args: list[str]) -> None:
    from omnilingual_asr.models.inference.pipeline import (  # noqa: PLC0415 - in a new process
        ASRInferencePipeline,
    )

    pipeline = ASRInferencePipeline(args[0], device="cpu", dtype=torch.float32)
    print(pipeline.transcribe(args[1:], batch_size=1))  # noqa: T201


def test_a_later_run_starts_from_the_finished_model_by_name(
    tmp_path: Path, dataset: Path, finished_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TRAPS, names: checkpoints of a run have neither a tokenizer nor a name."""
    monkeypatch.setenv("DANISH_ASR_ASSETS", str(finished_run / "cards"))
    run = tmp_path / "run"
    named = ["model={name: finished}", "regime.num_steps=2", "trainer.freeze_encoder_for_n_steps=2"]
    assert train(run, dataset, *named) == 0
    card = read_yaml(finished_run / "cards" / "finished.yaml")
    step = int(Path(card["checkpoint"]).parent.name.removeprefix("step_"))
    before, after = weights(finished_run, step), weights(run, 2)
    encoder = "encoder.layers.0.ffn.inner_proj.weight"
    assert torch.equal(before[encoder], after[encoder])
    assert not torch.equal(before["final_proj.weight"], after["final_proj.weight"])
    assert read_yaml(run / "config.yaml")["tokenizer"]["name"] == "finished"


def weight_files(run: Path) -> dict[Path, int]:
    """The files of a run's weights and their inodes: the same weights may be in a new file."""
    return {file: file.stat().st_ino for file in run.rglob("sdp_*.pt")}


def test_a_finished_run_of_models_only_is_complete_and_not_trained_over(
    tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, models = tmp_path / "run", "regime.save_model_only=true"
    assert train(run, dataset, models) == 0
    before, rows = weight_files(run), [metrics(run, kind) for kind in ("train", "valid")]
    tokenizer = (run / "checkpoints" / "tokenizer.model").stat().st_ino
    capsys.readouterr()
    assert train(run, dataset, models, "optimizer.config.lr=1e-2") == 2
    refused = capsys.readouterr().err
    assert f"model.path={run}" in refused
    assert "optimizer.config.lr" in refused
    assert train(run, dataset, models) == 0
    assert f"model.path={run}" in capsys.readouterr().err
    assert weight_files(run) == before
    assert [metrics(run, kind) for kind in ("train", "valid")] == rows
    assert (run / "checkpoints" / "tokenizer.model").stat().st_ino == tokenizer


def test_a_run_of_models_only_that_has_stopped_early_is_complete(
    tmp_path: Path, dataset: Path
) -> None:
    run, models = tmp_path / "run", "regime.save_model_only=true"
    assert train(run, dataset, models) == 0
    file = run / "metrics" / "valid.jsonl"
    rows = [row | {"Word Error Rate (WER)": 90 + row["Step"]} for row in metrics(run, "valid")]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    before, longer = weight_files(run), (models, "regime.num_steps=8")
    assert train(run, dataset, *longer, "regime.early_stopping_patience=2") == 2
    assert train(run, dataset, *longer, "regime.early_stopping_patience=1") == 0
    assert weight_files(run) == before


def test_a_run_says_that_it_is_complete_when_it_is_and_not_before(
    tmp_path: Path, dataset: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = copy_until(2, finished_run, tmp_path / "run")
    assert train(run, dataset) == 0
    assert "regime.num_steps" not in capsys.readouterr().err
    before = weight_files(run)
    assert train(run, dataset) == 0
    assert "regime.num_steps" in capsys.readouterr().err
    assert weight_files(run) == before


@pytest.mark.parametrize("place", ["", "checkpoints/step_2"])
def test_a_finished_run_and_each_of_its_checkpoints_is_a_model_path(
    tmp_path: Path, dataset: Path, finished_run: Path, place: str
) -> None:
    """TRAPS, names: upstream refuses a path without a family, and takes 32 symbols for granted."""
    own = [f"model={{path: {finished_run / place}}}", "regime.num_steps=2"]
    run, head = tmp_path / "run", "final_proj.weight"
    assert train(run, dataset, *own) == 0
    assert evaluate(run, dataset, *own, "evaluator.checkpoint=last") == 0
    assert weights(run, 2)[head].shape == weights(finished_run, 2)[head].shape


def test_a_tokenizer_that_does_not_fit_the_head_is_refused(
    tmp_path: Path, dataset: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """TRAPS, names: nothing upstream holds a tokenizer's symbols against the model's head."""
    file = tmp_path / "other.model"
    file.write_bytes(build_char_tokenizer("abc"))
    other = [f"tokenizer.path={file}", "tokenizer.family=char_tokenizer"]
    own = [f"model={{path: {finished_run}}}", *other]
    assert train(tmp_path / "run", dataset, *own) == 2
    error = capsys.readouterr().err
    assert re.search(r"tokenizer has \d+ symbols, but the head of 'finished' has \d+", error)


def test_omnilinguals_own_pipeline_gives_the_hypotheses_of_the_evaluation(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    run = tmp_path / "finished"
    shutil.copytree(finished_run, run)
    assert evaluate(run, dataset) == 0
    file = run / "eval" / "best" / "test" / "predictions.jsonl"
    hypotheses = {p.id: p.hypothesis for p in read_predictions(file)}
    index = DanishAsrDataset(dataset).read_index("test")
    identifier = index.rows["id"][0]
    audio = tmp_path / "speech.flac"
    audio.write_bytes(bytes(index.audio.read(0)))
    assert soundfile.info(audio).samplerate == 16_000
    cards, args = str(run / "cards"), ["finished", str(audio)]
    printed = in_processes(1, transcribe_with_omnilingual, args, DANISH_ASR_ASSETS=cards)
    assert printed.splitlines()[-1] == repr([hypotheses[identifier]])
