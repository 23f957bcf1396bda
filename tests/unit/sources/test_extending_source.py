"""The example of docs/extending.md, run as the page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as pads
import pytest

from danish_asr.corpus.sources import SOURCES, SourceOptions, open_source
from tests.builders import tone

PAGE = Path(__file__).parents[3] / "docs" / "extending.md"


@pytest.mark.slow
def test_the_corpus_of_the_page_is_converted_by_worker_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = PAGE.read_text().split("\n## A corpus\n")[1].split("\n## ")[0]
    reader, table = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    (tmp_path / "radio.py").write_text(reader)
    for split in ("train", "test"):
        (tmp_path / "in" / split).mkdir(parents=True)
        for number in range(3):
            path = tmp_path / "in" / split / f"{number}.wav"
            path.write_bytes(tone(0.2))
            path.with_suffix(".txt").write_text("på Ærø\n")
    command = "import sys; from danish_asr.cli import main; main()"
    arguments = ["convert", "radio.open_radio:in", "--corpus", "radio", "--name", "radio"]
    done = subprocess.run(
        [sys.executable, "-c", command, *arguments, "--out", "ds", "--workers", "2"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    rows = pads.dataset(tmp_path / "ds" / "version=0", partitioning="hive").to_table().to_pylist()
    assert {(row["corpus"], row["split"], row["dialect"]) for row in rows} == {
        ("radio", "train", "Sjællandsk"),
        ("radio", "test", "Sjællandsk"),
    }
    assert {row["text"] for row in rows} == {"på Ærø"}
    assert len({row["id"] for row in rows}) == 6
    with monkeypatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        patch.setitem(SOURCES, "radio", SOURCES["coral"])  # and removed afterwards
        exec(table, {})  # noqa: S102
        opened = open_source(f"radio:{tmp_path / 'in'}", SourceOptions(corpus="radio"))
    assert opened.ids(opened.files[0]).to_pylist() == ["train/0", "train/1", "train/2"]
