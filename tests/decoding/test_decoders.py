"""What fails in the code of users becomes a message that says where."""

import pytest
import torch
from torch import Tensor

from danish_asr.base.errors import ConfigError, ExtensionError
from danish_asr.decoding.decoders import decode, find_decoder, log_probs_of, make_decoder


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
        ([1, 2], "returned 2 values"),
    ],
)
def test_a_faulty_decoder_is_a_message(result: object, message: str) -> None:
    with pytest.raises(ExtensionError, match=message):
        decode(Faulty(None, result), [torch.zeros(3, 4), torch.zeros(2, 4)])  # type: ignore[arg-type]


def test_a_decoder_gets_the_frames_of_each_utterance_and_gives_its_texts() -> None:
    logits = torch.randn(2, 5, 3)
    rows = log_probs_of(logits, [5, 2])
    assert [len(row) for row in rows] == [5, 2]
    assert torch.allclose(rows[1], logits[1, :2].log_softmax(dim=-1))
    assert decode(Faulty(None, ["a", "b"]), rows) == ["a", "b"]  # type: ignore[arg-type]


def test_a_decoders_parameters_are_checked_before_it_is_made() -> None:
    name = f"{__name__}:Faulty"
    assert callable(make_decoder(name, {"result": []}, None))
    with pytest.raises(ConfigError, match=r"decoder\.config\.bem"):
        find_decoder("beam", {"bem": 5})
    with pytest.raises(ConfigError, match=r"decoder.config does not fit .*'result'"):
        find_decoder(name, {})
    with pytest.raises(ConfigError, match=r"does not fit greedy.*'lm'"):
        find_decoder("greedy", {"lm": "lm"})
    with pytest.raises(ConfigError, match=r"decoder.config does not fit .*not a callable"):
        find_decoder("math:pi", {})
