"""`danish-asr train --prepare`: the corpus of a missing dataset is converted before the run."""

from pathlib import Path

import pytest

from danish_asr.corpus.sources import parquet
from danish_asr.recipe.run.run import Run
from tests.builders import build_source
from tests.documented import run
from tests.running import arguments


def _command(run_directory: Path, name: str, *options: str) -> list[str]:
    directory, _, config, _, *values = arguments(run_directory, Path("none"))
    kept = [value for value in values if not value.startswith(("common.assets", "dataset.name"))]
    return ["danish-asr", "train", directory, "-c", config, *options, *kept, f"dataset.name={name}"]


@pytest.fixture
def coral(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small CoRal, in place of the hub."""
    folder = tmp_path / "coral"
    build_source(folder, train=24)
    monkeypatch.setattr(parquet, "source_of_dataset", lambda _: str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


def test_a_missing_coral_is_converted_once(
    tmp_path: Path, coral: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RuntimeError, match="status 2"):
        run(_command(tmp_path / "run", "coral_v2_tiny"))
    assert "danish-asr convert hf:" in capsys.readouterr().err
    run(_command(tmp_path / "run", "coral_v2_tiny", "--prepare"))
    assert Run(tmp_path / "run").steps == [2, 4]
    coral.rename(tmp_path / "gone")
    run(_command(tmp_path / "again", "coral_v2_tiny", "--prepare"))
    assert Run(tmp_path / "again").steps == [2, 4]
