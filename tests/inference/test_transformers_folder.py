import json
import re
from pathlib import Path
from typing import Any

import pytest
import soundfile

from danish_asr.base.errors import RunError
from danish_asr.inference.model import load_model
from danish_asr.inference.transformers_folder import symbol_names, write_hugging_face
from tests.random_models import CHARACTERS, build_model


def test_the_pipeline_of_transformers_times_words_as_the_card_says(
    exports: Path, sounds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The space is read from the file in which transformers 5 looks for it, as in 4.57."""
    monkeypatch.chdir(exports / "hf")
    code = re.findall(r"```python\n(.*?)```", Path("README.md").read_text("utf-8"), re.DOTALL)
    names: dict[str, Any] = {"samples": soundfile.read(sounds / "2.flac", dtype="float32")[0]}
    exec(code[0] + code[1], names)  # noqa: S102
    assert " ".join(word["text"] for word in names["words"]) == " ".join(names["text"].split())
    starts = [word["timestamp"][0] for word in names["words"]]
    assert starts == sorted(starts)
    assert 0 <= starts[0] < starts[-1] < 4
    special = json.loads(Path("special_tokens_map.json").read_text())
    assert "▁" in special.values()  # as "|" is a symbol of this model


def test_transformers_prepares_speech_as_the_model_was_trained(exports: Path) -> None:
    from transformers import AutoProcessor  # noqa: PLC0415 - an extra

    processor = AutoProcessor.from_pretrained(exports / "hf")  # type: ignore[no-untyped-call]
    extractor, tokenizer = processor.feature_extractor, processor.tokenizer
    assert (extractor.feature_size, extractor.do_normalize) == (1, True)
    two = [[1.0, -1.0], [1.0, -1.0, 1.0, -1.0]]
    padded = extractor(two, sampling_rate=16_000, padding=True, return_tensors="np")
    assert padded["attention_mask"].tolist() == [[1, 1, 0, 0], [1, 1, 1, 1]]
    assert padded["input_values"][0][2:].tolist() == [0, 0]
    assert tokenizer.decode(tokenizer("å b").input_ids) == "å b"
    assert not tokenizer.do_lower_case
    assert not tokenizer.clean_up_tokenization_spaces
    weights, config = exports / "hf" / "model.safetensors", exports / "hf" / "config.json"
    assert weights.stat().st_mode == config.stat().st_mode


def test_each_symbol_has_a_name_of_its_own(special: Path) -> None:
    tokenizer = load_model(special, device="cpu").tokenizer
    names = symbol_names(tokenizer, "|")
    assert len(names) == len({*names}) == tokenizer.vocab_info.size
    assert names[:3] == ["<pad>", "<s>", "</s>"]
    assert {*CHARACTERS, "⁇"} <= {*names}
    (space,) = {*names} - {*symbol_names(tokenizer, "▁")}
    assert re.fullmatch(r"<\d+>", space)  # "|" is the name of another symbol


def test_a_model_without_a_counterpart_is_refused_with_what_it_would_have_to_be(
    tmp_path: Path,
) -> None:
    other = build_model(tmp_path / "other", layer_norm_features=True)
    with pytest.raises(RunError, match="layer_norm_features must be False, but is True"):
        write_hugging_face(load_model(other, device="cpu"), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["other"]
