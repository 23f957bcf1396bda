from __future__ import annotations

from pathlib import Path

import pytest
from fairseq2.data.tokenizers import Tokenizer

from tests.shards import char_tokenizer
from tests.spoiled import build, copied


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A converted dataset. Not to be changed."""
    return build(tmp_path_factory.mktemp("pristine") / "ds")


@pytest.fixture
def root(pristine: Path, tmp_path: Path) -> Path:
    """A converted dataset to spoil."""
    return copied(pristine, tmp_path / "ds")


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A tokenizer of the characters that `tests.shards` writes."""
    return char_tokenizer(tmp_path_factory.mktemp("tokenizer"))
