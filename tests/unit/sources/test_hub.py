"""CoRal read from a hub over HTTP, by the command itself; only the hub's address is ours."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from danish_asr.conversion import ConvertOptions
from danish_asr.conversion.convert import convert
from danish_asr.sources import open_source
from tests.builders import build_source, tree
from tests.hub_server import COMMIT, GATED, Hub, serve_hub

REPO = "CoRal-project/coral-v2"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = build_source(tmp_path_factory.mktemp("hub") / "coral", train=30, row_group_size=10)
    with serve_hub(REPO, folder) as hub:
        yield hub


def run_convert(hub: Hub, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = "from danish_asr.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, "convert", "--name", "tiny", *arguments],
        env=os.environ | {"HF_ENDPOINT": hub.url, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0"},
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_the_hub_gives_the_same_shards_as_a_local_copy(hub: Hub, tmp_path: Path) -> None:
    out, here = tmp_path / "hub", tmp_path / "here"
    options = ("--out", str(out), "--shard-rows", "10", "--workers", "2")
    done = run_convert(hub, tmp_path, f"hf:{REPO}@main", *options)
    assert done.returncode == 0, done.stderr
    convert(open_source(str(hub.folder)), here, name="tiny", options=ConvertOptions(shard_rows=10))
    both = [
        {name: sha for name, sha in tree(root).items() if "manifest" not in name}
        for root in (out, here)
    ]
    assert both[0] == both[1]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (f"hf:{GATED}", f"hf:{GATED} is gated: accept its terms at http.*/datasets/{GATED}, then"),
        ("hf:CoRal-project/coral-v9", "no such dataset, or it is private and needs HF_TOKEN"),
        (f"hf:{REPO}:radio@{COMMIT}", "CoRal has no subset 'radio'"),
    ],
)
def test_a_refusal_is_printed_without_a_traceback(
    hub: Hub, tmp_path: Path, source: str, message: str
) -> None:
    done = run_convert(hub, tmp_path, source, "--out", str(tmp_path / "ds"))
    assert done.returncode == 1
    assert re.search(message, done.stderr), done.stderr
    assert "Traceback" not in done.stderr
