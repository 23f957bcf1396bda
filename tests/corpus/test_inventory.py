"""The shards of a dataset are those that its manifest lists, by the keys of their paths."""

import json
from pathlib import Path
from typing import Any

import pytest

from danish_asr.base.errors import DatasetError, IncompleteDatasetError
from danish_asr.corpus.inventory import (
    KEY_FILE,
    content_of,
    files_of,
    find_shards,
    missing_split,
    name_of,
    read_inventory,
    shards_of_split,
    share_people_of,
    splits_of,
    unlisted,
)


def place(corpus: str, split: str, number: int = 0) -> str:
    return f"version=0/corpus={corpus}/split={split}/language=dan_Latn/part-{number}.parquet"


PLACES = [place("a", "test"), place("a", "train", 0), place("a", "train", 1), place("b", "test")]


def write_dataset(root: Path, places: list[str], **manifest: Any) -> Path:
    """A dataset whose shards are empty files."""
    for name in places:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    shards = [{"path": name, "rows": 3, "seconds": 900.0, "sha256": ""} for name in places]
    values: dict[str, Any] = dict.fromkeys(
        ("name", "source", "key", "ledger_sha256", "suspects_sha256"), "x"
    )
    values |= {"source_rows": 15, "dropped": {"no audio": 2, "empty text": 1}, "suspects": {}}
    values |= {"summary": [], "shards": shards} | manifest
    (root / "manifest.json").write_text(json.dumps(values))
    return root


def test_an_inventory_counts_rows_hours_and_drops(tmp_path: Path) -> None:
    inventory = read_inventory(write_dataset(tmp_path, PLACES))
    assert (inventory.rows, inventory.hours, inventory.dropped_rows) == (12, 1.0, 3)
    assert content_of(tmp_path)[0] == tmp_path / "manifest.json"
    shard = inventory.shards[3]
    keys = "corpus", "split", "language", "x"
    assert [shard.partition(key) for key in keys] == ["b", "test", "dan_Latn", ""]


def test_a_dataset_without_a_sound_inventory_is_none(tmp_path: Path) -> None:
    (tmp_path / "version=0").mkdir()
    with pytest.raises(DatasetError, match=r"manifest\.json .*convert"):
        read_inventory(tmp_path)
    for damaged in (b"", b"[]", b'{"shards": []}', b'{"shards": [{}]}', b"\xff"):
        (tmp_path / "manifest.json").write_bytes(damaged)
        with pytest.raises(DatasetError, match=r"manifest\.json is damaged"):
            read_inventory(tmp_path)
    (tmp_path / "manifest.json").unlink()
    (tmp_path / KEY_FILE).parent.mkdir()
    (tmp_path / KEY_FILE).write_text("key\ndanish-asr convert x --name y")
    with pytest.raises(DatasetError, match=r"not finished.*: danish-asr convert x --name y$"):
        read_inventory(tmp_path)
    with pytest.raises(DatasetError, match="none: no such folder"):
        read_inventory(tmp_path / "none")
    (tmp_path / "file").touch()
    with pytest.raises(DatasetError, match="file: not a folder"):
        read_inventory(tmp_path / "file")


@pytest.mark.parametrize("below", ["", "version=0"])
@pytest.mark.parametrize("is_ours", [True, False])
def test_shards_are_found_by_keys_of_paths(tmp_path: Path, below: str, *, is_ours: bool) -> None:
    write_dataset(tmp_path, PLACES, share_people=[["a", "b"]])
    if not is_ours:  # another program's, which may have other files
        (tmp_path / "manifest.json").unlink()
        (tmp_path / "version=0" / "corpus=a" / "other.parquet").touch()
    found = find_shards(tmp_path / below)
    assert [shard.path for shard in found] == [(tmp_path / name).resolve() for name in PLACES]
    assert found[0].keys == {"corpus": "a", "split": "test", "language": "dan_Latn"}
    numbers = {name: [*map(found.index, own)] for name, own in splits_of(tmp_path).items()}
    test = {"test": [0, 3], "test_a": [0], "test_b": [3]}
    assert numbers == test | {"train": [1, 2], "train_a": [1, 2]}
    assert shards_of_split(tmp_path / below, "test_b") == [found[3]]
    assert name_of(tmp_path / below) == ("x" if is_ours else tmp_path.name)
    assert share_people_of(tmp_path / below) == ([["a", "b"]] if is_ours else [])


def test_a_folder_without_shards_is_no_dataset(tmp_path: Path) -> None:
    (tmp_path / "version=0").mkdir()
    with pytest.raises(DatasetError, match="no dataset"):
        find_shards(tmp_path)


@pytest.mark.parametrize(("count", "shown"), [(1, 1), (5, 5), (6, 5)])
def test_shards_too_many_and_too_few_are_named(tmp_path: Path, count: int, shown: int) -> None:
    write_dataset(tmp_path, PLACES)
    (tmp_path / PLACES[0]).unlink()
    stray = [place("a", "dev", number) for number in range(count - 1)]
    for name in stray:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    faults = unlisted(read_inventory(tmp_path), files_of(tmp_path))
    assert [fault.partition(":")[0] for fault in faults] == [*stray, PLACES[0]]
    with pytest.raises(IncompleteDatasetError) as error:
        find_shards(tmp_path)
    lines = str(error.value).splitlines()
    assert lines[0].endswith(f": {count}")
    named = [line.removeprefix("  - ").partition(":")[0] for line in lines[1:]]
    assert named == [*stray, PLACES[0]][:shown] + ["..."] * (count > shown)


def test_a_missing_split_is_refused_and_beside_train_alone_with_advice(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"'dev'.*test, test_a, test_b, train, train_a$"):
        shards_of_split(write_dataset(tmp_path, PLACES), "dev")
    advice = "--split-by-speaker"
    assert advice in missing_split("test", ["train", "train_a"])
    assert advice not in missing_split("tset", ["train"])
