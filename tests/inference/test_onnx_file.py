from pathlib import Path

import onnx
import pytest

from danish_asr.base.errors import RunError
from danish_asr.inference import onnx_file
from danish_asr.inference.model import load_model
from danish_asr.inference.onnx_file import write_onnx


def test_sherpa_onnx_finds_a_static_vocabulary_and_the_kind_of_model(exports: Path) -> None:
    folder = exports / "onnx"
    names = {"model.onnx", "model.int8.onnx", "tokens.txt", "README.md"}
    assert {file.name for file in folder.iterdir()} == names
    proto = onnx.load(folder / "model.onnx")
    frames, symbols = proto.graph.output[0].type.tensor_type.shape.dim[1:]
    assert (frames.dim_param, symbols.dim_value) == ("num_frames", 47)
    about = {p.key: p.value for p in proto.metadata_props}
    assert about["model_type"] == "omnilingual-asr"
    assert (about["vocab_size"], about["sample_rate"]) == ("47", "16000")
    tokens = [line.split(" ") for line in (folder / "tokens.txt").read_text().splitlines()]
    assert [number for _, number in tokens] == [str(number) for number in range(47)]
    assert tokens[1][0] == "SIL"  # <s>, which sherpa-onnx would write
    sizes = [(folder / f"model{kind}.onnx").stat().st_size for kind in (".int8", "")]
    assert sizes[0] < 0.6 * sizes[1]
    nodes = onnx.load(folder / "model.int8.onnx").graph.node
    assert [n.op_type for n in nodes if "lm_head" in n.name and "MatMul" in n.op_type] == ["MatMul"]


def test_weights_of_more_than_2_gb_go_into_a_file_of_their_own(
    special: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_file, "_LARGE", 0)
    write_onnx(load_model(special, device="cpu"), tmp_path, int8=True)
    assert (tmp_path / "model.weights").stat().st_size > 1_000_000
    assert (tmp_path / "model.onnx").stat().st_size < 1_000_000


def test_a_model_of_audio_as_it_is_is_refused(
    special: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load_model(special, device="cpu")
    monkeypatch.setattr(loaded, "normalizes", False)
    with pytest.raises(RunError, match="--to hf"):
        write_onnx(loaded, tmp_path, int8=False)
    assert not list(tmp_path.iterdir())
