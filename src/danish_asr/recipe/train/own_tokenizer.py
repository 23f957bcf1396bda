"""The tokenizer of a run, ``OUTDIR/checkpoints/tokenizer.model``: a copy, or of a reduced head.

``model.head: danish`` keeps the rows of a trained head whose symbols the training text uses. The
kept rows give the same logits; the loss differs by the normalisation over fewer symbols.

Whatever takes the run takes this tokenizer, also where a configuration names another one.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import sentencepiece
from fairseq2.nn import Linear
from torch.nn import Parameter

from danish_asr.base.files import publish
from danish_asr.recipe.config.schema import FULL
from danish_asr.recipe.data.index import TARGET
from danish_asr.recipe.run.run_directory import CHECKPOINTS, TOKENIZER, resumable_steps
from danish_asr.recipe.train.console import log
from danish_asr.recipe.train.preflight import Resolved

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzæøå"
_TOGETHER: Final = (_LETTERS, _LETTERS.upper(), "0123456789")
"""If one of them is used, all are kept: other texts may have what a training text lacks."""


def write_own_tokenizer(run: Path, resolved: Resolved) -> None:
    """Write the tokenizer of a run that begins, on the first rank and before the others need it.

    A run that continues keeps the one that it has: its reader refuses other training data.
    """
    file = run / CHECKPOINTS / TOKENIZER
    if file.is_file() and resumable_steps(run):
        return
    content = resolved.tokenizer_file.read_bytes()
    if resolved.config.model.head != FULL:
        words = set[str]()
        for index in resolved.rows.train.values():
            for text in index.rows[TARGET]:
                words.update(text.split(" "))
        content = sliced_tokenizer(content, words)
    with publish(file) as stream:
        stream.write(content)


def slice_head(head: Linear, full: Path, own: Path) -> None:
    """Reduce a model's head from one tokenizer to another; before DDP or FSDP wraps it."""
    before, pieces = head.output_dim, _pieces(full)
    kept = [pieces.index(piece) for piece in _pieces(own)]
    for name, parameter in list(head.named_parameters()):
        setattr(head, name, Parameter(parameter.detach()[kept]))
    head.output_dim = len(kept)
    log.info("The head keeps {:,} of {:,} symbols; its tokenizer: {}", head.output_dim, before, own)


def sliced_tokenizer(tokenizer: bytes, words: Iterable[str]) -> bytes:
    """Return a SentencePiece model with the pieces that the words need, in the same order.

    Control symbols, the unknown symbol and index 0, the CTC blank, stay; so do whole groups of
    letters and digits of which one is used.
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


def _pieces(file: Path) -> list[str]:
    model = sentencepiece.SentencePieceProcessor(model_file=str(file))
    return [model.id_to_piece(number) for number in range(model.get_piece_size())]
