"""The example of docs/howto/add-a-corpus.md, run as the page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as pads
import pytest

from danish_asr.corpus.sources import SOURCES, SourceOptions, open_source
from tests.builders import tone

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "add-a-corpus.md"


@pytest.mark.slow
def test_the_corpus_of_the_page_is_converted_by_worker_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, table = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "my_corpus.py").write_text(reader)
    for split in ("train", "test"):
        folder = tmp_path / "in" / split
        folder.mkdir(parents=True)
        rows = ("0|a.wav|0|0.2|s|på Ærø", "1|a.wav|0.1|0.3||nej", "2|none.wav|0|1||ja")
        (folder / "list.txt").write_text("".join(f"{split}-{row}\n" for row in rows))
        (folder / "a.wav").write_bytes(tone(0.5))
    command = "import sys; from danish_asr.cli import main; main()"
    arguments = ["convert", "my_corpus.open_corpus:in", "--corpus", "radio", "--name", "radio"]
    options = ["--out", "ds", "--workers", "2", "--max-drop", "0.4"]
    done = subprocess.run(
        [sys.executable, "-c", command, *arguments, *options],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    rows = pads.dataset(tmp_path / "ds" / "version=0", partitioning="hive").to_table().to_pylist()
    assert {(row["id"], row["text"], row["speaker_id"], row["audio_size"]) for row in rows} == {
        ("train-0", "på Ærø", "s", 3200),
        ("train-1", "nej", None, 3200),
        ("test-0", "på Ærø", "s", 3200),
        ("test-1", "nej", None, 3200),
    }
    with monkeypatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        patch.setitem(SOURCES, "mine", SOURCES["coral"])  # and removed afterwards
        exec(table, {})  # noqa: S102
        opened = open_source(str(tmp_path / "in"), SourceOptions(corpus="radio"))
    assert opened.ids(opened.files[1]).to_pylist() == ["train-0", "train-1", "train-2"]
