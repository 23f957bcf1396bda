from pathlib import Path

import pytest

from danish_asr.recipe.data.index import DanishAsrDataset
from tests.shards import utterance, write_dataset, write_shard


def test_a_dataset_without_ids_and_metadata_is_read_with_ids_of_its_own(tmp_path: Path) -> None:
    # Upstream's converters write text, audio_bytes and audio_size only.
    drop = ("id", "speaker_id", "dialect", "age_group", "gender", "encoded_size")
    write_shard(tmp_path, [utterance(n) for n in range(3)], drop=drop)

    index = DanishAsrDataset(tmp_path).read_index("train")

    assert index.rows["id"][2] == "a/train/dan_Latn/part-00000-of-00001.parquet#2"
    assert index.rows["dialect"][0] is None


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> DanishAsrDataset:
    counts = {("a", "train"): 12, ("b", "train"): 7}
    return DanishAsrDataset(write_dataset(tmp_path_factory.mktemp("dataset"), counts))


@pytest.mark.parametrize(
    ("where", "chosen"),
    [
        ("corpus = 'b' and gender = 'male'", [f"b-train-{n}" for n in (1, 3, 5)]),
        ("audio_size < 9000", ["a-train-0", "b-train-0"]),
        ("corpus = 'b'", [f"b-train-{n}" for n in range(7)]),
        ("dialect is null and split = 'train' and id like 'b%'", ["b-train-2", "b-train-5"]),
    ],
)
def test_a_condition_may_name_any_column_of_rows_and_paths(
    dataset: DanishAsrDataset, where: str, chosen: list[str]
) -> None:
    every, index = dataset.read_index("train"), dataset.read_index("train", where)

    assert index.rows["id"].to_list() == chosen
    for row, name in enumerate(chosen):
        place = every.rows["id"].to_list().index(name)
        assert index.lengths[row] == every.lengths[place]
        assert index.rows["_group"][row] == every.rows["_group"][place]
        assert index.audio.read(row) == every.audio.read(place)
