"""``model.head: danish``: a trained head without the symbols that the training text does not use.

A row of the head gives the logit of one symbol of the tokenizer, so the kept rows give the logits
that they gave before, up to rounding; the loss differs by the normalisation over fewer symbols.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import sentencepiece
from fairseq2.nn import Linear
from torch.nn import Parameter

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzæøå"
_TOGETHER: Final = (_LETTERS, _LETTERS.upper(), "0123456789")
"""If one of them is used, all are kept: other texts may have what a training text lacks."""


def sliced_tokenizer(tokenizer: bytes, words: Iterable[str]) -> bytes:
    """Return a SentencePiece model with the pieces that the words need, in the same order.

    Control symbols, the unknown symbol and index 0, the CTC blank, stay; so do whole groups of
    letters and digits of which one is used. What it can write it encodes into the same pieces.
    """
    from sentencepiece import sentencepiece_model_pb2 as proto  # noqa: PLC0415 - slow

    encoder = sentencepiece.SentencePieceProcessor(model_proto=tokenizer)
    texts = list(words)
    characters = set().union(*texts)
    groups = [group for group in _TOGETHER if not characters.isdisjoint(group)]
    texts.append(" ".join(["", *"".join(groups), ""]))  # also the space
    used = {0}.union(*encoder.encode(texts))
    model: Any = proto.ModelProto.FromString(tokenizer)  # type: ignore[attr-defined]
    kept = [
        piece
        for number, piece in enumerate(model.pieces)
        if number in used or encoder.is_control(number) or encoder.is_unknown(number)
    ]
    del model.pieces[:]
    model.pieces.extend(kept)
    model.trainer_spec.vocab_size = len(kept)
    model.DiscardUnknownFields()  # self-tests, which may use other pieces
    return bytes(model.SerializeToString())


def keep_rows(head: Linear, tokenizer: Path, sliced: Path) -> None:
    """Reduce the head of a model with ``tokenizer``, in place, to the symbols of ``sliced``."""
    rows = {piece: row for row, piece in enumerate(_pieces(tokenizer))}
    kept = [rows[piece] for piece in _pieces(sliced)]
    for name, old in list(head.named_parameters()):
        setattr(head, name, Parameter(old.detach()[kept]))
    head.output_dim = len(kept)


def _pieces(file: Path) -> list[str]:
    model = sentencepiece.SentencePieceProcessor(model_file=str(file))
    return [model.id_to_piece(number) for number in range(model.get_piece_size())]
