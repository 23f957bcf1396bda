"""Assets are found wherever they lie."""

from pathlib import Path

import pytest
from fairseq2.assets import AssetDownloadManager
from fairseq2.utils.uri import Uri

from tests.fairseq2_context import fairseq2_context


@pytest.mark.parametrize("name", ["plain", "my runs", "søren", "run #1, 50% of it?"])
def test_a_local_file_is_found_whatever_its_path(tmp_path: Path, name: str) -> None:
    file = tmp_path / name / "tokenizer.model"
    manager = fairseq2_context().resolve(AssetDownloadManager)
    assert manager.download_tokenizer(Uri.from_path(file), "a tokenizer") == file
