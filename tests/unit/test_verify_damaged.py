from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from danish_asr.conversion.verify import verify
from danish_asr.errors import DatasetError
from tests.spoiled import (
    CARD,
    FIRST,
    LEDGER,
    MODEL,
    SECOND,
    TEST,
    TOKENIZER,
    TSV,
    build,
)

FILES = (FIRST, TEST, LEDGER, TSV, "manifest.json", CARD, TOKENIZER, MODEL)
WRITTEN = (b"", b"\0" * 99, b"[]", b"{}", b"3", b"null", b"- a\n- b\n", b"\xff\xfe", b"PAR1PAR1")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset that lacks a shard: whatever else is damaged, that must still be reported."""
    root = build(tmp_path_factory.mktemp("damaged") / "ds")
    (root / SECOND).unlink()
    return root


def faults_but_one(root: Path) -> list[str]:
    try:
        faults = list(verify(root).faults)
    except DatasetError as error:
        named = "manifest.json" in str(error)
        return [f"manifest.json: {error}"] if named else []
    faults.remove(f"{SECOND}: is missing")
    assert all(fault.isprintable() for fault in faults)
    return faults


def cut(content: bytes) -> Iterator[bytes]:
    for length in (1, 7, len(content) // 3, len(content) // 2, len(content) - 9):
        yield content[:length]


def written(content: bytes) -> Iterator[bytes]:
    yield from (other for other in WRITTEN if other != content)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [cut, written])
def test_a_damaged_file_is_named(
    root: Path, name: str, damage: Callable[[bytes], Iterator[bytes]]
) -> None:
    whole = (root / name).read_bytes()
    try:
        for content in damage(whole):
            (root / name).write_bytes(content)
            assert any(fault.startswith(f"{name}: ") for fault in faults_but_one(root)), content
    finally:
        (root / name).write_bytes(whole)
    assert faults_but_one(root) == []


def gone(path: Path) -> None:
    path.unlink()


def a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_link_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def forbidden(path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    path.chmod(0)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [gone, a_directory, a_link_to_itself, forbidden])
def test_a_file_that_cannot_be_opened_is_named(
    root: Path, name: str, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copy2(root / name, copy)
    try:
        damage(root / name)
        assert any(fault.startswith(f"{name}: ") for fault in faults_but_one(root))
    finally:
        if (root / name).is_dir():
            (root / name).rmdir()
        else:
            (root / name).unlink(missing_ok=True)
        shutil.copy2(copy, root / name)
    assert faults_but_one(root) == []


@pytest.mark.parametrize("name", FILES)
def test_flipped_bytes_are_survived(root: Path, name: str) -> None:
    """Not all are found: a score in the tokenizer's model, say, is compared with nothing."""
    whole = (root / name).read_bytes()
    random = Random(name)
    try:
        for _ in range(30):
            content = bytearray(whole)
            for _ in range(random.randint(1, 4)):
                content[random.randrange(len(content))] = random.randrange(256)
            (root / name).write_bytes(content)
            faults_but_one(root)
    finally:
        (root / name).write_bytes(whole)
