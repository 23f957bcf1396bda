"""What other programs make of an exported model: the same texts as fairseq2."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import soundfile
import torch
from rich.console import Console

from danish_asr.base.errors import ConfigError, DanishAsrError, RunError
from danish_asr.decoding.greedy import GreedyDecoder
from danish_asr.inference.export import export_model, to_onnx, verify
from danish_asr.inference.export.export import FORMATS
from danish_asr.inference.model import load_model
from danish_asr.metrics import compute_cer
from tests.random_models import build_model

ROOT = Path(__file__).parents[3]


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
    """Five sounds as FLAC files, one with a text beside it."""
    folder = tmp_path_factory.mktemp("audio")
    (folder / "readme.md").write_text("# Sounds")
    for number, sound in enumerate(verify.read_utterances([])):
        soundfile.write(folder / f"{number}.flac", sound.waveform, 16_000, subtype="PCM_24")
    (folder / "0.txt").write_text("det er forkert")
    return folder


@pytest.fixture(scope="module")
def exports(
    tmp_path_factory: pytest.TempPathFactory, model: Path, audio: Path
) -> tuple[Path, dict[str, str]]:
    """All formats of the model, and what was printed for each."""
    folder, printed = tmp_path_factory.mktemp("exports"), {}
    for to in FORMATS:
        console = Console(file=io.StringIO())
        int8 = to != "hf"
        export_model(
            str(model), to, folder / to, int8=int8, audio=[audio] if int8 else [], console=console
        )
        printed[to] = console.file.getvalue()  # type: ignore[attr-defined]
    return folder, printed


def fairseq2_texts(model: Path, audio: Path) -> dict[str, str]:
    loaded = load_model(model, device="cpu")
    files = sorted(audio.glob("*.flac"))
    rows = loaded.log_probs([soundfile.read(file, dtype="float32")[0] for file in files])
    decode = GreedyDecoder(loaded.tokenizer)
    texts = (decode(row[None], [len(row)])[0].strip() for row in rows)
    return {file.stem: text for file, text in zip(files, texts, strict=True)}


@pytest.mark.parametrize("to", FORMATS)
def test_programs_without_this_project_write_the_same_texts(
    to: str, exports: tuple[Path, dict[str, str]], model: Path, audio: Path, tmp_path: Path
) -> None:
    script, site = ROOT / "tests" / "plain_programs.py", sysconfig.get_paths()["purelib"]
    output = tmp_path / "texts.json"
    subprocess.run(
        [sys.executable, "-I", "-S", script, site, exports[0] / to, audio, output.name],
        check=True,
        cwd=tmp_path,
        env={**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"},
        timeout=300,
    )
    expected = fairseq2_texts(model, audio)
    assert len(together := "".join(expected.values())) > 100
    assert "  " in together
    found = json.loads(output.read_text())
    assert found.pop() == expected
    for texts in found:  # the pipeline of transformers makes the quiet sound louder
        usual = sorted({*expected} - {"2"})
        written = [re.sub("</?s>", "", texts[n]) for n in usual]
        assert compute_cer(written, [expected[n] for n in usual]) < 0.02
    assert len(found) == (to == "hf")


def test_each_export_is_compared_and_int8_measured(exports: tuple[Path, dict[str, str]]) -> None:
    """TRAPS, validation and scoring: transformers normalises audio with another constant."""
    for to, printed in exports[1].items():
        largest = float(re.findall(r"largest difference of a log-probability (\S+),", printed)[0])
        assert largest < 1e-4
        assert "0 texts differ" in printed
        assert f"utterances, {verify.AWKWARD}: largest" in printed
        if to == "hf":
            assert "feature extractor of transformers itself" in printed
            assert "synthetic sounds" in printed
        else:
            assert re.search(r"int8: .* % of \d+ frames changed.*WER .* in int8", printed)


def test_padding_and_other_rows_of_a_batch_change_nothing_in_onnx(
    exports: tuple[Path, dict[str, str]], model: Path
) -> None:
    session = onnxruntime.InferenceSession(exports[0] / "onnx" / "model.onnx")
    waveforms = [sound.waveform for sound in verify.read_utterances([])]
    lengths = np.array([len(each) for each in waveforms])
    batch = np.full((len(lengths), max(lengths)), 0.3, np.float32)
    for row, waveform in zip(batch, waveforms, strict=True):
        row[: len(waveform)] = waveform
    logits, frames = session.run(None, {"waveforms": batch, "lengths": lengths})
    expected = load_model(model, device="cpu").log_probs(waveforms)
    for row, count, alone in zip(logits, frames, expected, strict=True):
        found = torch.from_numpy(row[:count]).log_softmax(-1)
        torch.testing.assert_close(found, alone, atol=1e-4, rtol=0)


def test_frames_in_onnx_stay_within_the_row(
    exports: tuple[Path, dict[str, str]], model: Path
) -> None:
    shortest = load_model(model, device="cpu").frames.shortest_input()
    session = onnxruntime.InferenceSession(exports[0] / "onnx" / "model.onnx")
    for samples in (shortest, 16_000):
        lengths = np.array([-5, 0, 1, shortest - 1, shortest, samples, 10 * samples])
        batch = np.full((len(lengths), samples), 0.3, np.float32)
        logits, frames = session.run(None, {"waveforms": batch, "lengths": lengths})
        assert frames.tolist() == [0, 0, 0, 0, 1, *[logits.shape[1]] * 2]


def test_rows_of_a_padded_batch_in_transformers_are_cut_as_the_card_says(
    exports: tuple[Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(exports[0] / "hf")
    readme = (exports[0] / "hf" / "README.md").read_text()
    alone, _, exact, batch = re.findall(r"```py(?:thon)?\n(.*?)```", readme, re.DOTALL)
    sounds = [sound.waveform for sound in verify.read_utterances([])]
    names: dict[str, Any] = {"samples": sounds[0], "more": sounds[-1]}
    exec(exact + batch, names)  # noqa: S102
    found = names["texts"]
    for samples, text in zip((sounds[0], sounds[-1]), found, strict=True):
        names["samples"] = samples
        exec(alone, names)  # noqa: S102
        assert re.sub("</?s>", "", names["text"]) == text
    assert min(map(len, found)) > 3


def test_the_pipeline_cuts_long_recordings_and_times_words_as_the_card_says(
    exports: tuple[Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The space is read from the file in which transformers 5 looks for it, as in 4.57."""
    monkeypatch.chdir(exports[0] / "hf")
    readme = Path("README.md").read_text()
    alone, long = re.findall(r"```py(?:thon)?\n(.*?)```", readme, re.DOTALL)[:2]
    sounds = [sound.waveform for sound in verify.read_utterances([])]
    samples = np.concatenate([sounds[-1], sounds[-2], sounds[-1]])
    names: dict[str, Any] = {"samples": samples}
    exec(alone + long, names)  # noqa: S102
    assert " ".join(word["text"] for word in names["words"]) == " ".join(names["text"].split())
    starts = [word["timestamp"][0] for word in names["words"]]
    assert starts == sorted(starts)
    assert len(starts) > 3
    assert 0 <= starts[0] < starts[-1] < len(samples) / 16_000
    special = json.loads(Path("special_tokens_map.json").read_text())
    assert "▁" in special.values()  # as "|" is a symbol of this model


def test_hot_words_end_a_process_of_sherpa_onnx_as_the_card_says(
    exports: tuple[Path, dict[str, str]],
) -> None:
    folder = exports[0] / "sherpa-onnx"
    readme = (folder / "README.md").read_text()
    assert "`hotwords` ends the process" in readme
    setup = re.findall(r"```python\n(.*?)\n\nstream", readme, re.DOTALL)[0]
    code = f"{setup}\nrecognizer.create_stream('krone')\nprint('taken')"
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, cwd=folder, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "taken" not in done.stdout
    assert "Only transducer models" in done.stderr


def test_sherpa_onnx_finds_a_static_vocabulary_and_the_kind_of_model(
    exports: tuple[Path, dict[str, str]],
) -> None:
    file = exports[0] / "sherpa-onnx" / "model.onnx"
    proto = onnx.load(file)
    assert proto.graph.output[0].type.tensor_type.shape.dim[2].dim_value == 47
    assert {p.key: p.value for p in proto.metadata_props}["model_type"] == "omnilingual-asr"
    assert len((file.parent / "tokens.txt").read_text().splitlines()) == 47
    assert file.with_name("model.int8.onnx").stat().st_size < file.stat().st_size


def test_weights_of_more_than_2_gb_go_into_a_file_of_their_own(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(to_onnx, "_LARGE", 0)
    export_model(str(model), "sherpa-onnx", tmp_path / "large", int8=True)
    assert (tmp_path / "large" / "model.weights").stat().st_size > 1_000_000
    assert (tmp_path / "large" / "model.onnx").stat().st_size < 1_000_000


def test_an_export_that_differs_is_not_published(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "LIMIT", 1e-9)
    with pytest.raises(RunError, match=r"not published: .*e-0.* in (one of|a synthetic)"):
        export_model(str(model), "onnx", tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_model_without_a_counterpart_is_refused_with_the_reason(tmp_path: Path) -> None:
    other = build_model(tmp_path / "other", layer_norm_features=True)
    with pytest.raises(RunError, match="layer_norm_features must be False, but is True"):
        export_model(str(other), "hf", tmp_path / "out")


def test_options_that_do_not_fit_are_refused_at_once(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        export_model(str(model), "onnx", model, lm=tmp_path)
    assert "--lm" in str(error.value)
    assert f"{model} exists" in str(error.value)
    for name in ("danish", "me/", "me/a/b", "me/dansk model", ""):
        with pytest.raises(ConfigError, match="--push must be OWNER/NAME"):
            export_model("no such model", "onnx", tmp_path / "out", push=name)
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match=f"^{tmp_path}/file/out cannot be written"):
        export_model("no such model", "onnx", tmp_path / "file" / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DanishAsrError, match=f"{tmp_path}/empty: no audio file"):
        export_model("no such model", "onnx", tmp_path / "out", audio=[tmp_path / "empty"])
