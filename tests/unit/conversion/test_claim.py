from pathlib import Path

import pytest

from danish_asr.base.errors import DatasetError
from danish_asr.corpus.convert import claim, convert
from tests.builders import build_source
from tests.corpora import options


@pytest.mark.parametrize("theirs", ["README.md", "cards/tiny.yaml", "ledger.parquet"])
def test_files_that_no_conversion_wrote_are_not_overwritten(tmp_path: Path, theirs: str) -> None:
    (tmp_path / "cards").mkdir(parents=True)
    (tmp_path / theirs).write_text("theirs")
    source = build_source(tmp_path / "in")
    with pytest.raises(DatasetError, match=f"holds .*{theirs.partition('/')[0]}.* another --out"):
        convert(source, tmp_path, options())
    assert (tmp_path / theirs).read_text() == "theirs"
    assert not (tmp_path / "version=0").exists()


def test_an_unfinished_conversion_is_continued_by_one_with_its_key_only(tmp_path: Path) -> None:
    claim(tmp_path / "ds", "one")
    claim(tmp_path / "ds", "one")
    with pytest.raises(DatasetError, match="unfinished conversion of another source"):
        claim(tmp_path / "ds", "other")
