from pathlib import Path

import pytest

from tests.decoding_inputs import ARPA


@pytest.fixture
def arpa(tmp_path: Path) -> Path:
    file = tmp_path / "two.arpa"
    file.write_text(ARPA, encoding="utf-8")
    return file
