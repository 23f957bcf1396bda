"""Uploads go to a hub on this machine."""

from __future__ import annotations

import filecmp
import os
import subprocess
import sys
from pathlib import Path

from tests.hub_server import serve_hub


def push(model: Path, dest: Path, url: str, repo: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "danish_asr", "export", model, dest, "--to", "onnx", "--push", repo],
        env=os.environ
        | {
            "HF_ENDPOINT": url,
            "HF_HOME": f"{dest}.hf",
            "HF_HUB_OFFLINE": "0",
            "HF_TOKEN": "secret",
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_export_is_uploaded_to_a_private_repository(model: Path, tmp_path: Path) -> None:
    dest, remote = tmp_path / "out", tmp_path / "remote"
    remote.mkdir()
    with serve_hub("", remote) as hub:
        result = push(model, dest, hub.url, "me/danish")
        assert result.returncode == 0, result.stderr
        assert f"pushed to {hub.url}/me/danish" in result.stdout
        assert hub.created[0].items() >= {"name": "danish", "private": True}.items()
    names = [path.name for path in dest.iterdir()]
    assert {"README.md", "model.onnx", "tokens.txt"} == {*names}
    assert filecmp.cmpfiles(dest, remote, names, shallow=False) == (names, [], [])
    assert "# me/danish" in (remote / "README.md").read_text("utf-8")


def test_a_refused_upload_leaves_the_export_and_says_how_to_continue(
    model: Path, tmp_path: Path
) -> None:
    with serve_hub("", tmp_path) as hub:
        result = push(model, tmp_path / "out", hub.url, "other/danish")
    assert result.returncode == 1
    assert "you may not write there" in result.stderr
    assert "hf auth login" in result.stderr
    assert f"hf upload other/danish {tmp_path}/out" in result.stderr
    assert (tmp_path / "out" / "model.onnx").is_file()
