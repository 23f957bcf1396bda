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
    (tmp_path / "kaldi.py").write_text(reader)
    for split in ("train", "test"):
        folder = tmp_path / "in" / split
        folder.mkdir(parents=True)
        (folder / "text").write_text("u0 på Ærø\nu1 nej\nu2 ja\n".replace("u", f"{split}-u"))
        scp = "u0 u0.wav\nr r.wav\nu2 sox u2.wav |\n".replace("u0 ", f"{split}-u0 ")
        (folder / "wav.scp").write_text(scp)
        (folder / "segments").write_text(f"{split}-u1 r 0.1 0.3\n")
        (folder / "utt2spk").write_text(f"{split}-u0 s{split}\n")
    (tmp_path / "in" / "u0.wav").write_bytes(tone(0.2))
    (tmp_path / "in" / "r.wav").write_bytes(tone(0.5))
    command = "import sys; from danish_asr.cli import main; main()"
    arguments = ["convert", "kaldi.open_kaldi:in", "--corpus", "radio", "--name", "radio"]
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
        ("train-u0", "på Ærø", "strain", 3200),
        ("train-u1", "nej", None, 3200),
        ("test-u0", "på Ærø", "stest", 3200),
        ("test-u1", "nej", None, 3200),
    }
    with monkeypatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        patch.setitem(SOURCES, "kaldi", SOURCES["coral"])  # and removed afterwards
        exec(table, {})  # noqa: S102
        opened = open_source(f"kaldi:{tmp_path / 'in'}", SourceOptions(corpus="radio"))
    assert opened.ids(opened.files[0]).to_pylist() == ["train-u0", "train-u1", "train-u2"]
