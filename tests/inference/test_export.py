"""What other programs make of an exported model: the same texts as fairseq2."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import soundfile
import torch

from danish_asr.base.errors import ConfigError, RunError
from danish_asr.inference import export, onnx_file
from danish_asr.inference.export import export_model
from danish_asr.inference.model import load_model
from tests.documented import ROOT
from tests.random_models import build_model

RATE = 16_000


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose best symbols are also <pad>, </s>, and two spaces in a row."""
    folder = build_model(tmp_path_factory.mktemp("special") / "random")
    weights = folder / "cards" / "model.pt"
    state = torch.load(weights)
    for name in ("final_proj.weight", "final_proj.bias"):
        state[name][[1, 2, 4, 7, 9, 18]] = state[name][[18, 7, 9, 2, 4, 1]]
    torch.save(state, weights)
    return folder


@pytest.fixture(scope="module")
def audio(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sounds as FLAC files: of usual level, quiet, silent, and shorter than a frame."""
    folder = tmp_path_factory.mktemp("audio")
    rng = np.random.default_rng(0)
    for number, (seconds, level) in enumerate([(0.6, 0.1), (2.9, 0.003), (4, 0.2), (1, 0)]):
        times = np.arange(int(seconds * RATE)) / RATE
        syllables = np.clip(np.sin(2 * np.pi * 4 * times), 0.05, None)
        sound = level * syllables * rng.standard_normal(len(times))
        soundfile.write(folder / f"{number}.flac", sound, RATE, subtype="PCM_24")
    return folder


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory, model: Path, audio: Path) -> Path:
    """Both forms of the model."""
    folder = tmp_path_factory.mktemp("exports")
    export_model(str(model), "hf", folder / "hf", audio=[audio])
    export_model(str(model), "onnx", folder / "onnx", int8=True, audio=[audio])
    return folder


def fairseq2_texts(model: Path, audio: Path) -> dict[str, str]:
    loaded = load_model(model, device="cpu")
    files = sorted(audio.glob("*.flac"))
    rows = loaded.log_probs([soundfile.read(file, dtype="float32")[0] for file in files])
    texts = loaded.decoder(rows)
    return {file.stem: text.strip() for file, text in zip(files, texts, strict=True)}


@pytest.mark.parametrize(("to", "program"), [("hf", 0), ("onnx", 0), ("onnx", 1)])
def test_the_lines_of_the_card_write_the_same_texts_without_this_project(
    to: str,
    program: int,
    *,
    exports: Path,
    model: Path,
    audio: Path,
    tmp_path: Path,
) -> None:
    script, site = ROOT / "tests" / "plain_programs.py", sysconfig.get_paths()["purelib"]
    output = tmp_path / "texts.json"
    subprocess.run(
        [sys.executable, "-I", "-S", script, site, exports / to, str(program), audio, output],
        check=True,
        cwd=tmp_path,
        env={**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"},
        timeout=300,
    )
    expected = fairseq2_texts(model, audio)
    assert len("".join(expected.values())) > 50
    assert json.loads(output.read_text()) == expected


def test_the_pipeline_of_transformers_times_words_as_the_card_says(
    exports: Path, audio: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The space is read from the file in which transformers 5 looks for it, as in 4.57."""
    monkeypatch.chdir(exports / "hf")
    code = re.findall(r"```python\n(.*?)```", Path("README.md").read_text("utf-8"), re.DOTALL)
    names: dict[str, Any] = {"samples": soundfile.read(audio / "2.flac", dtype="float32")[0]}
    exec(code[0] + code[1], names)  # noqa: S102
    assert " ".join(word["text"] for word in names["words"]) == " ".join(names["text"].split())
    starts = [word["timestamp"][0] for word in names["words"]]
    assert starts == sorted(starts)
    assert 0 <= starts[0] < starts[-1] < 4
    special = json.loads(Path("special_tokens_map.json").read_text())
    assert "▁" in special.values()  # as "|" is a symbol of this model


def test_sherpa_onnx_finds_a_static_vocabulary_and_the_kind_of_model(
    exports: Path,
) -> None:
    file = exports / "onnx" / "model.onnx"
    proto = onnx.load(file)
    assert proto.graph.output[0].type.tensor_type.shape.dim[2].dim_value == 47
    assert {p.key: p.value for p in proto.metadata_props}["model_type"] == "omnilingual-asr"
    assert len((file.parent / "tokens.txt").read_text().splitlines()) == 47
    assert file.with_name("model.int8.onnx").stat().st_size < file.stat().st_size


def test_weights_of_more_than_2_gb_go_into_a_file_of_their_own(
    model: Path, audio: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_file, "_LARGE", 0)
    export_model(str(model), "onnx", tmp_path / "large", int8=True, audio=[audio])
    assert (tmp_path / "large" / "model.weights").stat().st_size > 1_000_000
    assert (tmp_path / "large" / "model.onnx").stat().st_size < 1_000_000


def test_an_export_that_differs_is_not_published(
    model: Path, audio: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "LIMIT", 1e-9)
    with pytest.raises(RunError, match="not published"):
        export_model(str(model), "onnx", tmp_path / "out", audio=[audio])
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_exported_is_refused_with_the_reason(
    model: Path, audio: Path, tmp_path: Path
) -> None:
    other = build_model(tmp_path / "other", layer_norm_features=True)
    with pytest.raises(RunError, match="layer_norm_features must be False, but is True"):
        export_model(str(other), "hf", tmp_path / "out", audio=[audio])
    with pytest.raises(RunError, match="--audio"):  # it is no run, so it has no rows
        export_model(str(model), "hf", tmp_path / "out")
    with pytest.raises(RunError, match=f"{model} exists"):
        export_model(str(model), "hf", model)


@pytest.mark.parametrize("read", ["audio", "model"])
def test_what_an_export_reads_is_not_in_the_folder_that_it_clears(
    tmp_path: Path, model: Path, audio: Path, read: str
) -> None:
    inside = tmp_path / ".new.partial"
    shutil.copytree(audio if read == "audio" else model, inside / read)
    options = {"model": model, "audio": audio} | {read: inside / read}
    with pytest.raises(ConfigError, match=str(inside)):
        export_model(str(options["model"]), "hf", tmp_path / "new", audio=[options["audio"]])
    assert [*(inside / read).iterdir()]
