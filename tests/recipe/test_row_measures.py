"""What an evaluation measures of each row, also of the rows that were trained on."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from danish_asr.decoding.ctc import GreedyDecoder
from danish_asr.inference.model import load_model
from danish_asr.recipe.data.audio import decode
from danish_asr.recipe.data.index import DanishAsrDataset
from danish_asr.scoring.predictions import Prediction, read_predictions
from tests.recipe.running import evaluate

FOLDER = Path("eval", "best", "train")
TRAIN = "evaluator.split=train"


def predictions(run: Path) -> list[Prediction]:
    return list(read_predictions(run / FOLDER / "predictions.jsonl"))


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory, dataset: Path, finished_run: Path) -> Path:
    """A run with an evaluation of its training split, which has two more columns."""
    folder = tmp_path_factory.mktemp("runs")
    run = shutil.copytree(finished_run, folder / "evaluated")
    root = shutil.copytree(dataset, folder / "tiny")
    for path in root.glob("version=0/*/split=train/**/*.parquet"):
        table = pq.read_table(path, partitioning=None)
        places = pa.array(f"place {number}" for number in range(len(table)))
        table = table.append_column("place", places).append_column("_row", places)
        pq.write_table(table, path)
    assert evaluate(run, dataset, TRAIN, f"dataset.config_overrides={{data: {root}}}") == 0
    return run


def test_a_column_of_the_dataset_passes_through_to_the_predictions(evaluated: Path) -> None:
    extra = [row.extra for row in predictions(evaluated)]
    assert all({*values} == {"place"} for values in extra)
    assert "place 1" in [values["place"] for values in extra]


def test_an_evaluation_has_the_corpora_of_its_dataset_that_share_people(evaluated: Path) -> None:
    about = json.loads((evaluated / FOLDER / "evaluation.json").read_text())
    assert about["share_people"] == [["coral_conversation", "coral_read_aloud"]]


def test_the_losses_of_the_rows_of_train_add_up_to_the_loss_of_the_split(evaluated: Path) -> None:
    rows = predictions(evaluated)
    about = json.loads((evaluated / FOLDER / "evaluation.json").read_text())
    metrics = json.loads((evaluated / FOLDER / "metrics" / "eval.jsonl").read_text())
    assert len(rows) == about["rows"]["train"]
    characters = [round((row.duration or 0) / (row.seconds_per_character or 1)) for row in rows]
    pairs = [(row.loss, count) for row, count in zip(rows, characters, strict=True)]
    with_loss = [(loss, count) for loss, count in pairs if loss is not None]
    total = sum(loss * count for loss, count in with_loss)
    assert total / sum(count for _, count in with_loss) == pytest.approx(
        metrics["Loss (nats per character)"], rel=1e-3
    )
    assert all(0 < (row.confidence or 0) <= 1 for row in rows)


def test_the_texts_of_an_evaluation_are_those_of_the_models_log_probs(
    evaluated: Path, dataset: Path
) -> None:
    """transcribe and evaluate have one forward pass; they once read different audio."""
    index = DanishAsrDataset(dataset).read_index("train")
    waveforms = [np.empty(samples, np.float32) for samples in index.lengths]
    for row, waveform in enumerate(waveforms):
        decode(index.audio.read(row), waveform)
    model = load_model(evaluated, device="cpu")
    texts = GreedyDecoder(model.tokenizer)(model.log_probs(waveforms))
    assert dict(zip(index.rows["id"], texts, strict=True)) == {
        row.id: row.hypothesis for row in predictions(evaluated)
    }
