"""What upstream's users have: their storage, their keys and the same loss."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from fairseq2.datasets import Seq2SeqBatch
from fairseq2.device import CPU
from fairseq2.metrics import MetricBag
from fairseq2.metrics.aggregation import Mean
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig
from fairseq2.models.wav2vec2.asr.factory import create_wav2vec2_asr_model
from fairseq2.recipe.composition import _register_train_recipe
from fairseq2.utils.device_stat import DeviceStatTracker

from danish_asr.base.errors import RunFailedError
from danish_asr.base.fairseq2_private import library_container
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.extension import tiny
from danish_asr.recipe.train.criterion import CtcCriterion
from danish_asr.recipe.train.training import AsrRecipe
from tests.recipe.running import metrics, train


class Model:
    """The part of fairseq2's RecipeModel that the criterion needs."""

    def __init__(self, config: Wav2Vec2AsrConfig) -> None:
        torch.manual_seed(0)
        self.module = self.base_module = create_wav2vec2_asr_model(config).eval()


def batch() -> Seq2SeqBatch:
    torch.manual_seed(1)
    return Seq2SeqBatch(
        torch.randn(2, 16_000),
        [16_000, 12_000],
        torch.randint(4, 32, (2, 9)),
        [9, 5],
        example={"id": ["one", "two"]},
    )


def bag_of(criterion: CtcCriterion) -> MetricBag:
    bag = MetricBag(CPU)
    criterion.prepare_metric_bag(bag)
    return bag


def test_the_loss_is_fairseq2s_own_to_the_bit() -> None:
    model = Model(tiny())
    example = batch()
    own = model.module(*example.as_source_input(), *example.as_target_input())
    criterion = CtcCriterion(model)  # type: ignore[arg-type]
    bag = bag_of(criterion)
    assert torch.equal(criterion(example, bag), own)
    assert bag.get("loss", Mean).compute().item() == pytest.approx(own.item() / 14)


def test_upstreams_recipe_runs_on_a_cpu_too() -> None:
    """TRAPS, data reading: without a tracker it fails, and then aborts with status 134."""
    container = library_container()
    _register_train_recipe(container, AsrRecipe(cast(Any, SimpleNamespace(config=AsrConfig()))))
    assert container.resolve_optional(DeviceStatTracker, key="cpu") is not None


@pytest.mark.parametrize("cause", ["audio", "loss", "weights"])
def test_a_loss_that_is_not_finite_ends_the_run_and_names_the_utterances(cause: str) -> None:
    """TRAPS, training: one bad recording looks like a learning rate that is too high."""
    model, example = Model(tiny()), batch()
    if cause == "weights":
        model.module.get_parameter("final_proj.weight").data.fill_(float("nan"))
        expected = "utterances: one, two. Lower the learning rate"
    else:
        # The largest number is finite, but its square is not.
        example.source_seqs[1, 500] = float("nan") if cause == "audio" else 3e38
        expected = "the audio of two holds NaN" if cause == "audio" else "the loss of two is NaN"
    criterion = CtcCriterion(model)  # type: ignore[arg-type]
    with pytest.raises(RunFailedError, match=expected):
        criterion(example, bag_of(criterion))


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
