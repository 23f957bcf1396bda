import subprocess
import sys
from pathlib import Path

import pytest
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig

from danish_asr.recipe.data.dataset import DanishAsrDataset
from danish_asr.recipe.data.index import Index
from danish_asr.recipe.data.index_file import INDEX_DIR
from tests.shards import utterance, write_dataset, write_shard


def index_of(root: Path, split: str) -> Index:
    return DanishAsrDataset(root).read_index(split)


def test_a_dataset_without_ids_and_metadata_is_read_with_ids_of_its_own(tmp_path: Path) -> None:
    # Upstream's converters write text, audio_bytes and audio_size only.
    drop = ("id", "speaker_id", "dialect", "age_group", "gender")
    write_shard(tmp_path, [utterance(n) for n in range(3)], drop=drop)

    index = index_of(tmp_path, "train")

    assert index.values("id", [2]) == ["a/train/dan_Latn/part-00000-of-00001.parquet#2"]
    assert index.values("dialect", [0]) == [None]
    assert index.dialects()[1] == ["unknown"]


def files(root: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in (root / INDEX_DIR).iterdir()}


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
from danish_asr.recipe.data import index_file as module
from danish_asr.recipe.data.dataset import DanishAsrDataset
built, build = [], module._build
module._build = lambda *arguments: (built.append(1), build(*arguments))
index = DanishAsrDataset(Path(sys.argv[1])).read_index("train")
print(len(built), index.digest(np.arange(500, dtype=np.int32)))
"""

KILLED = """
import os, sys
from pathlib import Path
from danish_asr.recipe.data import index_file as module
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
