"""What other programs make of an exported model: the same texts as fairseq2."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

from danish_asr.base.errors import ConfigError, DanishAsrError, RunError
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.inference import export
from danish_asr.inference.export import export_model
from danish_asr.inference.model import load_model
from tests.documented import ROOT


def fairseq2_texts(model: Path, audio: Path) -> dict[str, str]:
    loaded = load_model(model, device="cpu")
    files = sorted(audio.glob("*.flac"))
    rows = loaded.log_probs([soundfile.read(file, dtype="float32")[0] for file in files])
    texts = loaded.decoder(rows)
    return {file.stem: text.strip() for file, text in zip(files, texts, strict=True)}


@pytest.mark.parametrize(
    ("to", "program"),
    [pytest.param("hf", 0, marks=pytest.mark.slow), ("onnx", 0), ("onnx", 1)],
)
def test_the_lines_of_the_card_write_the_same_texts_without_this_project(
    to: str, program: int, *, exports: Path, special: Path, sounds: Path, tmp_path: Path
) -> None:
    script, site = ROOT / "tests" / "plain_programs.py", sysconfig.get_paths()["purelib"]
    output = tmp_path / "texts.json"
    subprocess.run(
        [sys.executable, "-I", "-S", script, site, exports / to, str(program), sounds, output],
        check=True,
        cwd=tmp_path,
        env={**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"},
        timeout=300,
    )
    expected = fairseq2_texts(special, sounds)
    assert len("".join(expected.values())) > 50
    assert json.loads(output.read_text()) == expected


def test_a_long_recording_is_compared_in_parts_of_half_a_minute(
    special: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    soundfile.write(tmp_path / "long.flac", np.zeros(61 * SAMPLE_RATE), SAMPLE_RATE)
    export_model(str(special), "onnx", tmp_path / "out", audio=[tmp_path / "long.flac"])
    printed = capsys.readouterr().out
    assert "3 utterances" in printed
    assert str(tmp_path / "out") in printed


@pytest.mark.parametrize("to", ["hf", "onnx"])
def test_the_card_is_markdown_without_the_lines_of_its_template(exports: Path, to: str) -> None:
    card = (exports / to / "README.md").read_text()
    assert "\n\n\n" not in card
    assert card.startswith("---\nlibrary_name")


def test_an_export_that_differs_is_not_published(
    special: Path, sounds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "LIMIT", 1e-9)
    with pytest.raises(RunError, match="not published"):
        export_model(str(special), "onnx", tmp_path / "out", audio=[sounds])
    assert not list(tmp_path.iterdir())


def test_an_export_needs_a_model_speech_and_a_new_folder(special: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="--audio"):  # it is no run, so it has no rows
        export_model(str(special), "hf", tmp_path / "out")
    with pytest.raises(RunError, match=f"{special} exists"):
        export_model(str(special), "hf", special)
    with pytest.raises(RunError, match=f"model {tmp_path}:"):
        export_model(str(tmp_path), "hf", tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("fault", ["full", "below a file"])
def test_a_disk_without_room_is_known_before_anything_is_written(
    special: Path, sounds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    dest = tmp_path / "out"
    if fault == "full":
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1_000))
    else:
        dest.touch()
        dest /= "below"
    with pytest.raises(DanishAsrError, match=str(tmp_path)):
        export_model(str(special), "hf", dest, audio=[sounds])
    assert not dest.exists()


@pytest.mark.parametrize("read", ["audio", "model"])
def test_what_an_export_reads_is_not_in_the_folder_that_it_clears(
    tmp_path: Path, special: Path, sounds: Path, read: str
) -> None:
    inside = tmp_path / ".new.partial"
    shutil.copytree(sounds if read == "audio" else special, inside / read)
    options = {"model": special, "audio": sounds} | {read: inside / read}
    with pytest.raises(ConfigError, match=str(inside)):
        export_model(str(options["model"]), "hf", tmp_path / "new", audio=[options["audio"]])
    assert [*(inside / read).iterdir()]
