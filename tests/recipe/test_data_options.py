"""The keys that choose and augment rows."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from danish_asr.data.dataset import DanishAsrDataset
from danish_asr.recipe.readers import stratified
from danish_asr.scoring.predictions import Prediction, read_predictions
from tests.recipe.running import evaluate, losses, metrics, train, weights

SPEEDS = "dataset.speed_factors=[0.9, 1.0, 1.1]"


def test_a_run_with_speed_perturbation_continues_bit_for_bit(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert train(whole, dataset, SPEEDS) == 0
    shutil.copytree(whole, stopped)
    shutil.rmtree(stopped / "checkpoints" / "step_4")
    assert train(stopped, dataset, SPEEDS) == 0
    assert losses(stopped) == losses(whole)
    assert losses(whole)[0] != losses(finished_run)[0]
    left, right = weights(whole, 4), weights(stopped, 4)
    assert all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize("size", [1, 7, 11, 30, 47])
def test_a_larger_training_subset_holds_the_smaller_ones(dataset: Path, size: int) -> None:
    index = DanishAsrDataset(dataset).read_index("train")
    codes, _ = index.dialects()
    rows = stratified(index, size, nested=True)
    assert sorted(set(rows.tolist())) == rows.tolist()
    assert set(codes[rows]) == set(codes)
    for larger in range(size, len(index) + 2):
        assert set(rows.tolist()) <= set(stratified(index, larger, nested=True).tolist())


def test_a_training_subset_has_the_dialects_and_corpora_in_their_shares(dataset: Path) -> None:
    index = DanishAsrDataset(dataset).read_index("train")
    # 48 rows become 9,600, in the order of their shards.
    index = index.take(np.repeat(np.arange(len(index)), 200))
    rows = stratified(index, 960, nested=True)
    assert len(rows) == 960
    for kind in (index.dialects()[0], index.partition_of):
        whole, part = np.bincount(kind), np.bincount(kind[rows])
        assert part == pytest.approx(whole / 10, abs=4)


def test_training_reads_its_subset(
    tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, subset = tmp_path / "run", "dataset.train_subset=10"
    rows = len(stratified(DanishAsrDataset(dataset).read_index("train"), 10, nested=True))
    every = ["dataset.asr_task_config.max_audio_len=640000", "regime.num_steps=2"]
    assert train(run, dataset, subset, *every) == 0
    (line,) = [text for text in capsys.readouterr().err.splitlines() if "for training" in text]
    used, gone = (int(word) for word in line.replace(",", "").split() if word.isdigit())
    assert used + gone == rows < 15


def predictions_of(run: Path) -> list[Prediction]:
    return list(read_predictions(run / "eval" / "best" / "test" / "predictions.jsonl"))


def test_scores_do_not_depend_on_the_size_of_evaluations_batches(
    tmp_path: Path, dataset: Path, finished_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for size in (1, 10_000_000):
        run = tmp_path / str(size)
        shutil.copytree(finished_run, run)
        override = f"dataset.valid_max_num_elements={size}"
        assert train(run, dataset, "regime.num_steps=6", override) == 0
        row = metrics(run, "valid")[-1]
        found.append((row["Batch Size"], row["CTC Loss"], row["Word Error Rate (WER)"]))
        assert losses(run)[:4] == losses(finished_run)
        assert evaluate(monkeypatch, run, dataset, override) == 0
    (alone, *one), (together, *all_) = found
    assert (alone, together) == (1, 12)
    assert one == pytest.approx(all_, rel=1e-5)
    assert predictions_of(tmp_path / "1") == predictions_of(tmp_path / "10000000")
