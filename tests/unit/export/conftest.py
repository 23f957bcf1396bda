from __future__ import annotations

from pathlib import Path

import pytest

from tests.random_models import build_model


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a model with random weights. Not to be changed."""
    return build_model(tmp_path_factory.mktemp("models") / "random")
