"""What upstream's users have: their storage, their keys and the same loss."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fairseq2.recipe.composition import _register_train_recipe
from fairseq2.utils.device_stat import DeviceStatTracker

from danish_asr.base.config_tree import read_yaml
from danish_asr.base.errors import EXIT_REFUSED
from danish_asr.base.fairseq2_private import library_container
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.run.advice import LOSS
from danish_asr.recipe.run.locks import locked
from danish_asr.recipe.run.run import Run
from danish_asr.recipe.train import training
from danish_asr.recipe.train.training import AsrRecipe
from tests.forks import in_processes
from tests.running import (
    arguments,
    changed,
    copy_until,
    eval_main,
    metrics,
    train,
    train_main,
)

WANDB = "common.metric_recorders.wandb.enabled=true"


def test_wandb_records_a_run_and_continues_it_and_an_evaluation(
    tmp_path: Path, dataset: Path, finished_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = copy_until(2, finished_run, tmp_path / "run")
    (run / "wandb_run_id").write_text("abc12345")
    in_processes(1, train_main, arguments(run, dataset, WANDB))
    assert len(list(run.glob("wandb/offline-run-*-abc12345/run-abc12345.wandb"))) == 1
    in_processes(1, eval_main, arguments(run, dataset, WANDB))
    assert len(list(run.glob("eval/best/test/wandb/offline-run-*/run-*.wandb"))) == 1


def test_a_run_that_another_process_has_saved_meanwhile_keeps_its_settings(
    tmp_path: Path,
    dataset: Path,
    finished_run: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = tmp_path / "run"

    @contextmanager
    def locked_late(directory: Path, rank: int) -> Iterator[None]:
        copy_until(2, finished_run, directory)
        with locked(directory, rank):
            yield

    monkeypatch.setattr(training, "locked", locked_late)
    assert train(run, dataset, "optimizer.config.lr=0.5") == EXIT_REFUSED
    assert "optimizer.config.lr" in capsys.readouterr().err
    assert Run(run).steps == [2]


def test_upstreams_recipe_runs_on_a_cpu_too() -> None:
    """TRAPS, data reading: without a tracker it fails, and then aborts with status 134."""
    container = library_container()
    _register_train_recipe(
        container, AsrRecipe(cast(Any, SimpleNamespace(config=AsrConfig(), placed=[])))
    )
    assert container.resolve_optional(DeviceStatTracker, key="cpu") is not None


def test_a_dataset_of_upstreams_tools_trains(tmp_path: Path, dataset: Path) -> None:
    """They write the columns text, audio_bytes as lists of int8, and audio_size."""
    root = shutil.copytree(dataset, tmp_path / "tiny")
    for path in root.glob("version=0/**/*.parquet"):
        table = pq.read_table(path, partitioning=None).select(["text", "audio_bytes", "audio_size"])
        audio = [np.frombuffer(value.as_py(), np.int8) for value in table["audio_bytes"]]
        table = table.set_column(1, "audio_bytes", pa.array(audio, pa.list_(pa.int8())))
        pq.write_table(table, path, row_group_size=10)
    data = f"dataset.config_overrides={{data: {root}}}"
    assert train(tmp_path / "run", dataset, data, "regime.num_steps=2") == 0
    assert [row["Step"] for row in metrics(tmp_path / "run", "train")] == [1, 2]


def test_a_run_directory_is_complete(finished_run: Path) -> None:
    assert Run(finished_run).steps == [2, 4]
    assert [row["Step"] for row in metrics(finished_run, "train")] == [1, 2, 3, 4]
    assert [row["Step"] for row in metrics(finished_run, "valid")] == [2, 4]
    assert list((finished_run / "tb").rglob("events.out.tfevents.*"))
    config = read_yaml(finished_run / "config.yaml")
    assert config["tokenizer"]["name"] == "tiny_char"
    card = read_yaml(finished_run / "checkpoints" / "model.yaml")
    assert (card["tokenizer"], card["danish_asr"]["text_profile"]) == ("tokenizer.model", "coral")
    row = metrics(finished_run, "valid")[-1]
    assert {"Word Error Rate (WER)", "Character Error Rate (CER)", LOSS} <= row.keys()
    dialects = [key for key in row if key.startswith("wer/dialect/")]
    assert len(dialects) > 1
    assert row["WER of the worst dialect"] == max(row[key] for key in dialects)
    (begun,) = json.loads((finished_run / "environment.json").read_text())
    assert begun["packages"]["torch"] == version("torch")
    assert set(begun) >= {"danish_asr", "command", "python", "platform", "gpus"}


def test_a_model_from_scratch_trains_its_feature_extractor_unless_it_is_frozen(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    """TRAPS, training: upstream always freezes it, which cripples learning from scratch."""
    run = tmp_path / "run"
    frozen = ["trainer.freeze_feature_extractor=true", "trainer.freeze_encoder_for_n_steps=2"]
    assert train(run, dataset, *frozen) == 0
    for folder, learns in ((finished_run, True), (run, False)):
        names = changed(folder, 2, 4)
        assert any("feature_extractor" in name for name in names) == learns
        assert "encoder.layers.0.ffn.inner_proj.weight" in names


def test_gradients_are_clipped_unless_a_run_says_otherwise(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    """TRAPS, training: upstream clips nothing, so that one bad batch can undo a run."""
    assert train(tmp_path / "run", dataset, "trainer.max_grad_norm=null") == 0
    clipped, free = metrics(finished_run, "train"), metrics(tmp_path / "run", "train")
    assert clipped[0][LOSS] == free[0][LOSS]
    assert all(row["Gradient Norm"] > 1 for row in clipped), "nothing to clip"
    assert clipped[-1][LOSS] != free[-1][LOSS]


def test_the_learning_rate_ends_with_the_last_step(finished_run: Path) -> None:
    """TRAPS, training: in other stacks the schedule has a length of its own."""
    config = read_yaml(finished_run / "config.yaml")
    last = config["optimizer"]["config"]["lr"] * config["lr_scheduler"]["config"]["final_lr_scale"]
    assert metrics(finished_run, "train")[-1]["Learning Rate"] == pytest.approx(last)


def test_a_finished_run_stays_as_it_is_and_refuses_another_configuration(
    tmp_path: Path, dataset: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(finished_run, tmp_path / "run"))
    assert train(run, dataset, "regime.publish_metrics_every_n_steps=2") == 0
    assert "a larger regime.num_steps" in capsys.readouterr().err
    assert metrics(run, "train") == metrics(finished_run, "train")
    assert train(run, dataset, "optimizer.config.lr=1.0", "dataset.text_profile=raw") == 2
    message = capsys.readouterr().err
    assert "optimizer.config.lr was 0.003 and is now 1.0" in message
    assert "dataset.text_profile was 'coral' and is now 'raw'" in message


def test_a_longer_run_keeps_the_best_and_the_last_two_checkpoints(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    """TRAPS, training: no checkpoint is ever deleted upstream, until the quota is full."""
    run = Path(shutil.copytree(finished_run, tmp_path / "run"))
    assert train(run, dataset, "regime.num_steps=10", "dataset.valid_subset=6") == 0
    assert [row["Step"] for row in metrics(run, "train")] == list(range(1, 11))
    kept = set(Run(run).steps)
    assert {8, 10} <= kept
    assert len(kept) <= 3
    best = min(row["Word Error Rate (WER)"] for row in metrics(run, "valid"))
    assert max(Run(run).scores.values()) == -best
