"""What docs/own-data.md prints: its script and its configurations."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from danish_asr import convert
from danish_asr.base.config_tree import merge, read_yaml
from danish_asr.base.files import from_yaml
from danish_asr.decoding.transcript import Segment, Transcript, Word
from danish_asr.recipe.config.config import AsrConfig
from danish_asr.recipe.config.loading import load_with_faults
from tests.builders import tone

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "own-data.md").read_text(encoding="utf-8")


def test_the_segments_of_transcripts_become_a_table_to_convert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    Path("in/anna.wav").write_bytes(tone(6.0))
    parts = [Segment(n, n + 1.5, [Word("ja, tak", n, n + 1.5)]) for n in (0.0, 4.0)]
    transcript = Transcript(6.0, parts, "in/anna.wav").to_dict()
    Path("in/anna.json").write_text(json.dumps(transcript), encoding="utf-8")
    script, _ = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", script, "in"], capture_output=True, text=True, check=True
    )
    Path("in.csv").write_text(done.stdout, encoding="utf-8")
    inventory = convert("in.csv", "out", name="x", corpus="own", split="train")
    assert inventory.rows == 2
    assert inventory.hours * 3600 == pytest.approx(3.0)


def test_the_configurations_have_no_fault() -> None:
    blocks = map(from_yaml, re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
    assert not load_with_faults(
        AsrConfig, merge(read_yaml(ROOT / "configs" / "demo.yaml"), *blocks)
    )[1]
