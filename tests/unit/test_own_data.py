"""What docs/howto/label-recordings.md does, and the configurations of docs/start/own-data.md."""

import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from danish_asr import convert
from danish_asr.base.config_tree import merge, read_yaml
from danish_asr.base.files import from_yaml
from danish_asr.corpus import ConvertOptions
from danish_asr.decoding.transcript import Segment, Transcript, Word
from danish_asr.inference.formats import FORMATS, SUFFIXES
from danish_asr.recipe.config.load import load
from tests.builders import tone

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "start" / "own-data.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("form", ["textgrid", "srt", "json"])
def test_transcripts_that_a_person_corrected_become_a_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """What `transcribe` writes, edited as text and converted."""
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    names = ("anna", "bo", "carl")
    for name in names:
        Path("in", f"{name}.wav").write_bytes(tone(8.0, rate=16_000))
        parts = [Segment(n, n + 1.5, [Word(f"fejl {n}", n, n + 1.5)]) for n in (0.0, 3.0, 6.0)]
        written = FORMATS[form](Transcript(8.0, parts, f"in/{name}.wav"))
        corrected = written.replace("fejl 3.0", f"på Ærø, {name}")
        Path("in", f"{name}{SUFFIXES[form]}").write_text(corrected, encoding="utf-8")
    inventory = convert("in", "out", ConvertOptions(name="x", split_by_speaker="40/30/30"))
    assert inventory.rows == 9
    assert inventory.hours * 3600 == pytest.approx(9 * 1.5)
    rows = pd.read_parquet("out/version=0")
    assert {*rows["text"]} == {
        "fejl 0.0",
        "fejl 6.0",
        *(f"på Ærø, {n}" for n in ("anna", "bo", "carl")),
    }
    assert {*rows["speaker_id"]} == {*names}
    assert {*rows["split"]} == {"train", "dev", "test"}


def test_the_configurations_have_no_fault() -> None:
    blocks = map(from_yaml, re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
    load(merge(read_yaml(ROOT / "configs" / "demo.yaml"), *blocks), where="the page")


def test_manifests_of_fairseq_become_a_dataset(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "howto" / "write-a-table.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    audio = tmp_path / "audio"
    audio.mkdir()
    for split in ("train", "dev"):
        names = [f"{split}{number}.wav" for number in range(2)]
        for name in names:
            (audio / name).write_bytes(tone(1.0, rate=16_000))
        lines = [str(audio), *(f"{name}\t16000" for name in names)]
        (tmp_path / f"{split}.tsv").write_text("\n".join(lines) + "\n")
        (tmp_path / f"{split}.wrd").write_text("på Ærø\nja, tak\n", encoding="utf-8")
    script = [sys.executable, "-c", code, str(tmp_path)]
    table = subprocess.run(script, check=True, capture_output=True).stdout
    (tmp_path / "recordings.csv").write_bytes(table)
    convert(tmp_path / "recordings.csv", tmp_path / "out", ConvertOptions(name="x"))
    rows = pd.read_parquet(tmp_path / "out" / "version=0")
    assert sorted(zip(rows["split"], rows["text"], strict=True)) == [
        *(("dev", "ja, tak"), ("dev", "på Ærø")),
        *(("train", "ja, tak"), ("train", "på Ærø")),
    ]
