from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from danish_asr.conversion.verify import verify
from danish_asr.errors import DatasetError
from tests.spoiled import CARD, FIRST, LEDGER, MODEL, SECOND, TEST, TOKENIZER, TSV, build

FILES = (FIRST, TEST, LEDGER, TSV, "manifest.json", CARD, TOKENIZER, MODEL)


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
        return [f"manifest.json: {error}"] if "manifest.json" in str(error) else []
    faults.remove(f"{SECOND}: is missing")
    assert all(fault.isprintable() for fault in faults)
    return faults


def test_damaged_files_are_named(root: Path) -> None:
    """Flipped bytes need not be found, but must not stop the check with another error."""
    for name in FILES:
        whole = (root / name).read_bytes()
        for content in (b"", b"[]", b"null", b"\xff\xfe", b"PAR1PAR1", whole[:7], whole[:-9]):
            (root / name).write_bytes(content)
            assert any(fault.startswith(f"{name}: ") for fault in faults_but_one(root)), content
        random = Random(name)
        for _ in range(5):
            flipped = bytearray(whole)
            flipped[random.randrange(len(whole))] = random.randrange(256)
            (root / name).write_bytes(flipped)
            with suppress(DatasetError):
                verify(root)
        (root / name).write_bytes(whole)
        assert faults_but_one(root) == []


def remove(path: Path) -> None:
    path.unlink()


def replace_by_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def forbid(path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    path.chmod(0)


@pytest.mark.parametrize("damage", [remove, replace_by_directory, forbid])
def test_files_that_cannot_be_opened_are_named(
    root: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    copy = tmp_path / "copy"
    for name in FILES:
        shutil.copytree(root, copy)
        damage(copy / name)
        assert any(fault.startswith(f"{name}: ") for fault in faults_but_one(copy))
        shutil.rmtree(copy)
