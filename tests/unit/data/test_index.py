import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig

from danish_asr.base.errors import DatasetError
from danish_asr.base.schema import VERSION_DIR
from danish_asr.corpus.shards import find_shards, split_names
from danish_asr.recipe.data import index as index_module
from danish_asr.recipe.data.dataset import DanishAsrDataset
from danish_asr.recipe.data.index import INDEX_DIR, Index
from tests.shards import utterance, write_dataset, write_shard


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    counts = {("a", "train"): 23, ("b", "train"): 7, ("a", "test"): 6, ("b_c", "test"): 4}
    return write_dataset(tmp_path_factory.mktemp("dataset"), counts)


def index_of(root: Path, split: str) -> Index:
    return DanishAsrDataset(root).read_index(split)


def test_an_index_holds_every_row_as_the_shards_have_it(root: Path) -> None:
    index = index_of(root, "train")

    wanted = [utterance(n) for n in range(23)] + [utterance(n, corpus="b") for n in range(7)]
    for name in ("id", "text", "speaker_id", "dialect", "age_group", "gender"):
        assert index.values(name, range(30)) == [row[name] for row in wanted]
    assert index.lengths.tolist() == [row["audio_size"] for row in wanted]
    corpora = [index.partitions[code].corpus for code in index.partition_of]
    assert corpora == ["a"] * 23 + ["b"] * 7
    assert np.bincount(index.row_group_of).tolist() == [5, 5, 5, 5, 3, 5, 2]


@pytest.mark.parametrize(
    ("split", "rows"), [("test", 10), ("test_a", 6), ("test_b_c", 4), ("train_b", 7)]
)
def test_a_corpus_of_a_split_is_named_after_the_first_underscore(
    root: Path, split: str, rows: int
) -> None:
    index = index_of(root, split)

    assert (len(index), index.name, index.split) == (rows, split, split.partition("_")[0])


@pytest.mark.parametrize("split", ["dev", "test_b", "tests"])
def test_an_unknown_split_is_refused_with_the_names_that_exist(root: Path, split: str) -> None:
    exist = "test, train, test_a, test_b_c, train_a, train_b"

    with pytest.raises(DatasetError, match=f"split '{split}' has no rows; .*: {exist}$"):
        index_of(root, split)
    assert ", ".join(split_names(find_shards(root))) == exist


def test_a_dataset_without_ids_and_metadata_is_read_with_ids_of_its_own(tmp_path: Path) -> None:
    # Upstream's converters write text, audio_bytes and audio_size only.
    drop = ("id", "speaker_id", "dialect", "age_group", "gender")
    write_shard(tmp_path, [utterance(n) for n in range(3)], drop=drop)

    index = index_of(tmp_path, "train")

    assert index.values("id", [2]) == ["a/train/dan_Latn/part-00000-of-00001.parquet#2"]
    assert index.values("dialect", [0]) == [None]
    assert index.dialects()[1] == ["unknown"]


def test_an_empty_shard_adds_nothing(tmp_path: Path) -> None:
    write_shard(tmp_path, [], name="part-00000.parquet")
    write_shard(tmp_path, [utterance(0), utterance(1)], name="part-00001.parquet")

    index = index_of(tmp_path, "train")

    assert index.values("id", range(len(index))) == ["a-train-0", "a-train-1"]


def test_a_broken_shard_and_a_missing_column_are_named(tmp_path: Path) -> None:
    path = write_shard(tmp_path, [utterance(0)], drop=["audio_size"])
    with pytest.raises(DatasetError, match=r"part-0.*column audio_size is missing; found \['id'"):
        index_of(tmp_path, "train")

    path.write_bytes(b"not Parquet")
    with pytest.raises(DatasetError, match=r"part-00000.*cannot be read as Parquet"):
        index_of(tmp_path, "train")


def test_a_path_that_holds_no_dataset_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(DatasetError, match="danish-asr convert"):
            find_shards(folder)


@pytest.mark.parametrize("column", ["text", "audio_size"])
def test_a_null_where_none_may_be_is_an_error(tmp_path: Path, column: str) -> None:
    path = write_shard(tmp_path, [utterance(0), utterance(1)])
    table = pq.read_table(path, partitioning=None)
    place = table.schema.get_field_index(column)
    nulls = pa.array([table.column(column)[0].as_py(), None])
    pq.write_table(table.set_column(place, column, nulls), path)

    with pytest.raises(DatasetError, match=f"column {column} has 1 nulls; expected none"):
        index_of(tmp_path, "train")


def files(root: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in (root / INDEX_DIR).iterdir()}


def test_the_index_is_written_once_and_read_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_shard(tmp_path, [utterance(n) for n in range(12)])
    first, written = index_of(tmp_path, "train"), files(tmp_path)
    monkeypatch.setattr(index_module, "_build", None)

    for path in (tmp_path, tmp_path / VERSION_DIR):
        again, rows = index_of(path, "train"), np.arange(12, dtype=np.int32)
        assert again.digest(rows) == first.digest(rows)
        assert again.audio.read(7) == utterance(7)["audio_bytes"]
    assert files(tmp_path) == written
    assert len(written) == 1


def test_changed_shards_and_other_filters_have_an_index_of_their_own(tmp_path: Path) -> None:
    write_shard(tmp_path, [utterance(n) for n in range(12)])
    storage = MixtureParquetStorageConfig()
    storage.fragment_loading.filters = 'pc.field("gender") == "male"'
    dataset = DanishAsrDataset(tmp_path)
    sizes = [len(dataset.read_index("train")), len(dataset.read_index("train", storage))]

    write_shard(tmp_path, [utterance(n) for n in range(4)])

    assert [*sizes, len(dataset.read_index("train"))] == [12, 6, 4]
    assert len(files(tmp_path)) == 3


@pytest.mark.parametrize("writable", [True, False])
def test_a_read_only_dataset_has_its_index_in_the_users_cache_or_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, writable: bool
) -> None:
    root, cache = tmp_path / "dataset", tmp_path / "cache"
    write_shard(root, [utterance(n) for n in range(12)])
    (root / INDEX_DIR).write_text("not a directory, so nothing can be written there")
    if not writable:
        cache.write_text("not a directory either")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))

    found = index_of(root, "train")

    assert found.values("id", [11]) == ["a-train-11"]
    assert len(list(cache.rglob("*.arrow"))) == writable


COUNT_BUILDS = """
import sys
import numpy as np
from pathlib import Path
from danish_asr.recipe.data import index as module
from danish_asr.recipe.data.dataset import DanishAsrDataset
built, build = [], module._build
module._build = lambda *arguments: (built.append(1), build(*arguments))
index = DanishAsrDataset(Path(sys.argv[1])).read_index("train")
print(len(built), index.digest(np.arange(500, dtype=np.int32)))
"""

KILLED = """
import os, sys
from pathlib import Path
from danish_asr.recipe.data import index as module
from danish_asr.recipe.data.dataset import DanishAsrDataset
module._build = lambda *_: os.kill(os.getpid(), 9)
DanishAsrDataset(Path(sys.argv[1])).read_index("train")
"""


def test_of_processes_that_start_together_one_builds_also_after_one_that_was_killed(
    tmp_path: Path,
) -> None:
    write_dataset(tmp_path, {("a", "train"): 500})
    subprocess.run([sys.executable, "-c", KILLED, tmp_path], check=False)
    assert sorted(Path(name).suffix for name in files(tmp_path)) == [".lock", ".partial"]
    command = [sys.executable, "-c", COUNT_BUILDS, str(tmp_path)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]

    printed = [process.communicate()[0].split() for process in started]

    assert [process.returncode for process in started] == [0] * 2
    assert sum(int(builds) for builds, _ in printed) == 1
    assert len({digest for _, digest in printed}) == 1
    assert [Path(name).suffix for name in files(tmp_path)] == [".arrow"]
