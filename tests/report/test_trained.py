from pathlib import Path
from typing import Any

import pytest

from danish_asr import compare, score
from danish_asr.base.files import to_yaml
from danish_asr.scoring.predictions import read_predictions, read_references, write_predictions
from tests.score_rows import write_evaluation
from tests.shards import utterance, write_shard


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Two speakers in train, of whom one is in test too."""
    for split, speakers in (("train", "aabb"), ("test", "bbc")):
        rows = [
            utterance(n, split=split, id=f"{split}-{n}", speaker_id=speaker)
            for n, speaker in enumerate(speakers)
        ]
        write_shard(tmp_path / "data", rows, split=split, corpus="x")
    return tmp_path / "data"


def _evaluated(run: Path, dataset: Path, split: str, **section: Any) -> Path:
    """A run that was trained on rows of the dataset, and has evaluated a split."""
    file = run / "eval" / split / "predictions.jsonl"
    file.parent.mkdir(parents=True)
    (run / "config.yaml").write_text(to_yaml({"dataset": {"name": "d", **section}}))
    rows = read_references(dataset, split).assign(hypothesis="")
    write_predictions(file, read_predictions(rows))
    write_evaluation(file, run=str(run / "checkpoints"), dataset="d", dataset_root=str(dataset))
    return file


@pytest.mark.parametrize(
    ("split", "section", "trained"),
    [
        ("test", {}, (0, 1)),
        ("train", {}, (4, 2)),
        ("train", {"train_where": "speaker_id = 'a'"}, (2, 1)),
        ("test", {"train_where": "speaker_id = 'a'"}, (0, 0)),
        ("test", {"name": "another"}, (None, None)),
        ("test", {"train_split": "gone"}, (None, None)),
    ],
)
def test_scores_say_how_many_rows_and_speakers_the_run_was_trained_on(
    tmp_path: Path, dataset: Path, split: str, section: dict[str, Any], trained: tuple[int, int]
) -> None:
    file = _evaluated(tmp_path / "run", dataset, split, **section)
    for rows in (score(file).rows, compare(file, file, by=None).rows[str(file)]):
        assert (rows.trained_rows, rows.trained_speakers) == trained
        assert any("trained on" in line for line in rows.warnings()) is any(map(bool, trained))


def test_a_fold_is_compared_with_the_training_of_its_own_run(tmp_path: Path, dataset: Path) -> None:
    a = _evaluated(tmp_path / "a", dataset, "train", train_split="test")
    b = _evaluated(tmp_path / "b", dataset, "test", train_split="train")
    rows = score([a, b]).rows
    assert (rows.trained_rows, rows.trained_speakers) == (0, 1)
    b.with_name("evaluation.json").unlink()
    assert score([a, b]).rows.trained_rows is None
