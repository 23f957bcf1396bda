from pathlib import Path

import pytest

from tests.builders import build_dataset


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built dataset of a few tones, named ``tiny``."""
    root = tmp_path_factory.mktemp("dataset") / "tiny"
    build_dataset(root, name="tiny", train=24, dev=6, test=8)
    return root


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory, dataset: Path) -> Path:
    """A run of four steps, validated and saved at steps 2 and 4. Not to be changed."""
    from tests.recipe.running import train  # noqa: PLC0415 - imports torch

    run = tmp_path_factory.mktemp("runs") / "finished"
    assert train(run, dataset) == 0
    return run
