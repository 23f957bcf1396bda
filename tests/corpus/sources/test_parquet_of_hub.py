"""A hub over HTTP on this machine."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from danish_asr.corpus.convert import convert
from tests.builders import build_source
from tests.corpora import options
from tests.hub_server import GATED, Hub, serve_hub

REPO = "CoRal-project/coral-v2"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = build_source(tmp_path_factory.mktemp("hub") / "coral", train=30, row_group_size=10)
    with serve_hub(REPO, folder) as hub:
        yield hub


def run_convert(url: str, out: Path, source: str) -> subprocess.CompletedProcess[str]:
    program = "from danish_asr.cli import main; main()"
    options = ("--name", "own", "--out", str(out), "--workers", "2")
    return subprocess.run(
        [sys.executable, "-c", program, "convert", source, *options],
        env=os.environ | {"HF_ENDPOINT": url, "HF_HOME": f"{out}.hf", "HF_HUB_OFFLINE": "0"},
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "folder"), [("@main", ""), (":conversation@refs/convert/parquet", "conversation")]
)
def test_the_hub_gives_what_a_copy_gives(hub: Hub, tmp_path: Path, place: str, folder: str) -> None:
    done = run_convert(hub.url, tmp_path / "hub", f"hf:{REPO}{place}")
    assert done.returncode == 0, done.stderr
    convert(hub.folder / folder, tmp_path / "here", options())
    there, here = (pq.read_table(tmp_path / root / "version=0") for root in ("hub", "here"))
    assert there.drop_columns("source_id").equals(here.drop_columns("source_id"))


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (None, f"hf:{GATED}@.*If it is gated, accept its terms"),
        ("http://127.0.0.1:9", f"Without a network, .* {REPO} --local-dir"),
    ],
)
def test_a_dataset_that_cannot_be_read_is_refused_without_a_traceback(
    hub: Hub, tmp_path: Path, address: str | None, message: str
) -> None:
    done = run_convert(address or hub.url, tmp_path / "ds", f"hf:{REPO if address else GATED}")
    assert done.returncode == 1
    assert re.search(message, done.stderr), done.stderr
    assert "Traceback" not in done.stderr
