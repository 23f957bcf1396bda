"""Assets are found wherever they lie; nothing is left in the temporary folder."""

import sys
from pathlib import Path

import pytest
from fairseq2.assets import AssetDownloadManager
from fairseq2.utils.uri import Uri
from torch.distributed.nn.jit import instantiator

from tests.fairseq2_context import fairseq2_context


@pytest.mark.parametrize("name", ["plain", "my runs", "søren", "run #1, 50% of it?"])
def test_a_local_file_is_found_whatever_its_path(tmp_path: Path, name: str) -> None:
    file = tmp_path / name / "tokenizer.model"
    manager = fairseq2_context().resolve(AssetDownloadManager)
    assert manager.download_tokenizer(Uri.from_path(file), "a tokenizer") == file


def test_torch_leaves_no_temporary_folder() -> None:
    fairseq2_context()
    folder = instantiator.INSTANTIATED_TEMPLATE_DIR_PATH
    assert (Path(folder).exists(), folder in sys.path) == (False, False)
