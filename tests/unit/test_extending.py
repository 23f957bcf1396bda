"""What fails in the code of users becomes a message that says where."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from danish_asr.base.errors import (
    ConfigError,
    DanishAsrError,
    ExtensionError,
    SourceError,
)
from danish_asr.corpus.convert import convert
from danish_asr.corpus.sources import open_source
from danish_asr.decoding.decoders import decode, find_decoder, make_decoder

SOURCE = """
from danish_asr.corpus.sources import Source, SourceFile, Utterance

class Mine(Source):
    def read(self, file, start, stop):
        for row in range(start, stop{short}):
            yield Utterance(row=row{shift}, id=str(row), text={text}, audio={audio})

def open_mine(where, options):
    file = SourceFile(name="f", corpus="c", split="{split}", row_groups=(3,), fingerprint="1")
    return Mine(name=where, files=(file,)){nothing}

def no_arguments():
    pass
"""
RIGHT = {
    "split": "train",
    "short": "",
    "shift": "",
    "text": "'x'",
    "audio": "b'x'",
    "nothing": "",
}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"split": "training"}, "unknown split 'training'; expected one of train, dev, test"),
        ({"short": " - 1"}, "row 2 was expected next, of the 3 rows"),
        ({"shift": " - start + 1"}, "row 0 was expected next"),
        ({"text": "missing"}, r"Mine failed, .*NameError: .*missing.* \(.*own_\d+.py, line 7\)"),
        ({"audio": "[1.0]"}, "row 0: expected audio as bytes or a Path"),
        ({"nothing": " and None"}, "expected a Source, found None"),
        ({"nothing": ")"}, "SyntaxError"),
    ],
)
def test_a_faulty_source_is_a_message(
    wrong: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"own_{abs(hash(str(wrong)))}"
    code = SOURCE.format(**(RIGHT | wrong))
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(DanishAsrError, match=message):
        convert(open_source(f"{name}.open_mine:there"), tmp_path / "out", name="own")


def test_a_source_that_takes_no_arguments_or_is_not_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = SOURCE.format(**RIGHT)
    (tmp_path / "own_source.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ExtensionError, match="no_arguments failed, opening there: TypeError"):
        open_source("own_source.no_arguments:there")
    with pytest.raises(SourceError, match=r"own_source\.open_yours"):
        open_source("own_source.open_yours:there")


class Faulty:
    """A decoder that returns what it is given."""

    def __init__(self, _tokenizer: object, result: object) -> None:
        self.result = result

    def __call__(self, _log_probs: list[Tensor]) -> object:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


Faulty.__module__ = "users_module"


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (ValueError("loud"), "users_module.Faulty failed, decoding 2 utterances: ValueError: loud"),
        (["a"], "returned 1 values"),
        ([1, 2], r"returned 2 values \(int\)"),
    ],
)
def test_a_faulty_decoder_is_a_message(result: object, message: str) -> None:
    with pytest.raises(ExtensionError, match=message):
        decode(Faulty(None, result), [torch.zeros(3, 4), torch.zeros(2, 4)])  # type: ignore[arg-type]


def test_a_decoders_parameters_are_checked_before_it_is_made() -> None:
    name = f"{__name__}:Faulty"
    assert callable(make_decoder(name, {"result": []}, None))
    with pytest.raises(ConfigError, match=r"decoder.config.reslut .*did you mean result\?"):
        find_decoder(name, {"reslut": []})
    with pytest.raises(ConfigError, match=r"decoder.config does not fit .*'result'"):
        find_decoder(name, {})
    with pytest.raises(ConfigError, match=r"does not fit greedy.*'lm'"):
        find_decoder("greedy", {"lm": "lm"})
    with pytest.raises(ConfigError, match=r"decoder.config does not fit .*not a callable"):
        find_decoder("math:pi", {})
