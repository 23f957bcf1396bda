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
