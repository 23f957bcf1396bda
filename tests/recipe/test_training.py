"""Training on fairseq2's real trainer: what a run leaves behind, stops and continues."""

import json
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest

from danish_asr.base.config_tree import read_yaml
from danish_asr.base.files import to_yaml
from danish_asr.recipe.data.index import DanishAsrDataset
from danish_asr.recipe.run.advice import LOSS
from danish_asr.recipe.run.run_directory import checkpoint_scores, checkpoint_steps
from danish_asr.scoring.predictions import read_predictions
from tests.forks import in_processes
from tests.recipe.running import arguments, changed, eval_main, evaluate, metrics, train


def test_a_run_directory_is_complete(finished_run: Path) -> None:
    assert checkpoint_steps(finished_run) == [2, 4]
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
    kept = set(checkpoint_steps(run))
    assert {8, 10} <= kept
    assert len(kept) <= 3
    best = min(row["Word Error Rate (WER)"] for row in metrics(run, "valid"))
    assert max(checkpoint_scores(run).values()) == -best


def test_each_evaluation_writes_every_row_once_with_its_id_and_raw_text(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    """TRAPS, validation: upstream writes no ids and decodes references from tokens."""
    run, two = tmp_path / "run", tmp_path / "two"
    for copy in (run, two):
        shutil.copytree(finished_run, copy)
    for split, count in {"dev": 12, "test": 16, "test_coral_conversation": 8}.items():
        assert evaluate(run, dataset, f"evaluator.split={split}") == 0
        predictions = list(read_predictions(run / "eval" / "best" / split / "predictions.jsonl"))
        index = DanishAsrDataset(dataset).read_index(split)
        expected = dict(index.rows.select("id", "text").iter_rows())
        assert {p.id: p.reference for p in predictions} == expected
        assert len(predictions) == count
        assert {p.split for p in predictions} == {split}
        assert any(p.reference != p.reference.lower() for p in predictions)
    # Two processes score the same rows as one.
    in_processes(2, eval_main, arguments(two, dataset))
    file = Path("eval", "best", "test", "predictions.jsonl")
    assert (run / file).read_bytes() == (two / file).read_bytes()


def test_another_dataset_of_the_same_name_is_evaluated_beside_the_runs_own(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    run, other = tmp_path / "run", tmp_path / "other"
    shutil.copytree(finished_run, run)
    shutil.copytree(dataset, other)
    config = read_yaml(run / "config.yaml")
    config["dataset"]["config_overrides"] = {"data": f"{dataset}/version=0"}
    (run / "config.yaml").write_text(to_yaml(config))
    assert evaluate(run, dataset, f"dataset.config_overrides={{data: {other}/version=0}}") == 0
    assert [path.name for path in (run / "eval" / "best").iterdir()] == ["test@other"]
