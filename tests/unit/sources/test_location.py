"""The hub's cache without a network, and a hub over HTTP on this machine."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests
from huggingface_hub import constants
from huggingface_hub.errors import OfflineModeIsEnabled

from danish_asr.corpus.convert import convert
from danish_asr.corpus.sources import open_source
from tests.builders import build_source, tone, tree
from tests.corpora import options
from tests.hub_server import COMMIT, GATED, Hub, serve_hub

REPO = "CoRal-project/coral-v2"


@pytest.fixture(params=[OfflineModeIsEnabled, requests.ConnectionError])
def hub_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """A machine without a network whose hub cache holds one revision of CoRal."""
    repo = tmp_path / "hub" / "datasets--CoRal-project--coral-v2"
    blobs = build_source(repo / "blobs")
    snapshot = repo / "snapshots" / COMMIT
    for blob in sorted(blobs.rglob("*.parquet")):
        link = snapshot / blob.relative_to(blobs)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(blob)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(COMMIT)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))

    def no_network(*_: object, **__: object) -> None:
        raise request.param

    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", no_network)


@pytest.mark.usefixtures("hub_cache")
@pytest.mark.parametrize(
    ("where", "corpora"),
    [
        ("", {"coral_read_aloud", "coral_conversation"}),
        (":read_aloud@main", {"coral_read_aloud"}),
        (f":conversation@{COMMIT}", {"coral_conversation"}),
    ],
)
def test_the_hubs_cache_is_read_without_a_network(where: str, corpora: set[str]) -> None:
    rows = open_source(f"hf:{REPO}{where}", options()).rows
    assert {*rows["corpus"].to_pylist()} == corpora
    assert {*rows["split"].to_pylist()} == {"train", "dev", "test"}
    assert rows["file"][0].as_py().startswith(("conversation/", "read_aloud/"))


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = build_source(tmp_path_factory.mktemp("hub") / "coral", train=30, row_group_size=10)
    with serve_hub(REPO, folder) as hub:
        yield hub


def run_convert(hub: Hub, out: Path, source: str, *more: str) -> subprocess.CompletedProcess[str]:
    program = "from danish_asr.cli import main; main()"
    options = ("--name", "tiny", "--out", str(out), "--shard-rows", "10", "--workers", "2", *more)
    return subprocess.run(
        [sys.executable, "-c", program, "convert", source, *options],
        env=os.environ | {"HF_ENDPOINT": hub.url, "HF_HOME": f"{out}.hf", "HF_HUB_OFFLINE": "0"},
        check=False,
        capture_output=True,
        text=True,
    )


PAGE = Path(__file__).parents[3] / "docs" / "howto" / "write-a-table.md"
LINES = re.findall(r"danish-asr convert (hf:\S+) (.*?) --name", PAGE.read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize(("source", "options"), LINES, ids=lambda text: text)
def test_the_corpora_of_the_page_are_read_from_the_hub(
    tmp_path: Path, source: str, options: str
) -> None:
    repo, _, revision = source.removeprefix("hf:").partition("@")
    repo, _, subset = repo.partition(":")
    text = dict(re.findall(r"--column (\w+)=(\w+)", options)).get("text", "text")
    rows = [{"audio": {"bytes": tone(0.5), "path": f"{n}.wav"}, text: f"nr {n}"} for n in (1, 2)]
    folder = tmp_path / "hub" / subset / "train"
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / "0000.parquet")
    with serve_hub(repo, tmp_path / "hub") as hub:
        done = run_convert(hub, tmp_path / "out", source, *options.split())
    assert done.returncode == 0, (revision, done.stderr)
    assert "2 rows" in done.stdout


@pytest.mark.slow
def test_the_hub_gives_the_same_shards_as_a_local_copy(hub: Hub, tmp_path: Path) -> None:
    done = run_convert(hub, tmp_path / "hub", f"hf:{REPO}@main")
    assert done.returncode == 0, done.stderr
    convert(hub.folder, tmp_path / "here", options(name="tiny", shard_rows=10))
    there, here = (
        {
            name: sha
            for name, sha in tree(tmp_path / root).items()
            if not name.startswith(("manifest", "README"))
        }
        for root in ("hub", "here")
    )
    assert there == here


def test_a_gated_dataset_is_refused_without_a_traceback(hub: Hub, tmp_path: Path) -> None:
    done = run_convert(hub, tmp_path / "ds", f"hf:{GATED}")
    assert done.returncode == 1
    message = f"hf:{GATED} is gated: accept its terms at http.*/datasets/{GATED}, then"
    assert re.search(message, done.stderr), done.stderr
    assert "Traceback" not in done.stderr
