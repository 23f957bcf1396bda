"""A hub over HTTP on this machine."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from huggingface_hub import HfFileSystem, constants, file_download

from danish_asr.base.errors import SourceError
from danish_asr.corpus.convert import convert
from danish_asr.corpus.sources import open_source
from tests.builders import build_source
from tests.corpora import options, read_rows
from tests.hub_server import GATED, Hub, serve_hub

REPO = "CoRal-project/coral-v2"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = build_source(tmp_path_factory.mktemp("hub") / "coral", train=30, row_group_size=10)
    with serve_hub(REPO, folder) as hub:
        yield hub


@pytest.mark.slow
def test_the_hub_gives_what_a_copy_gives(hub: Hub, tmp_path: Path) -> None:
    program = "from danish_asr.cli import main; main()"
    source = f"hf:{REPO}:conversation@refs/convert/parquet"
    options_of_run = ("--name", "own", "--out", str(tmp_path / "hub"), "--workers", "2")
    done = subprocess.run(
        [sys.executable, "-c", program, "convert", source, *options_of_run],
        env=os.environ
        | {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "0"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    convert(hub.folder / "conversation", tmp_path / "here", options())
    there, here = (pq.read_table(tmp_path / root / "version=0") for root in ("hub", "here"))
    assert there.drop_columns("source_id").equals(here.drop_columns("source_id"))


@pytest.fixture
def online(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The hub's address, which the package reads when it is imported."""
    template = f"{hub.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(file_download, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    HfFileSystem.clear_instance_cache()
    return monkeypatch


@pytest.mark.usefixtures("online")
def test_without_a_subset_all_rows_of_a_revision_are_read(hub: Hub) -> None:
    there, here = (
        read_rows(open_source(location, options()))
        for location in (f"hf:{REPO}@main", str(hub.folder))
    )
    assert [row["audio"] for row in there] == [row["audio"] for row in here]
    assert [row["id"] for row in there] == [row["id"] for row in here]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (None, f"hf:{GATED}@.*If it is gated, accept its terms"),
        ("http://127.0.0.1:9", f"Without a network, .* {REPO} --local-dir"),
    ],
)
def test_a_dataset_that_cannot_be_read_is_refused(
    online: pytest.MonkeyPatch, address: str | None, message: str
) -> None:
    if address:
        online.setattr(constants, "ENDPOINT", address)
    with pytest.raises(SourceError, match=message):
        read_rows(open_source(f"hf:{REPO if address else GATED}", options()))
