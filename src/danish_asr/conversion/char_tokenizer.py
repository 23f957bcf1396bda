"""Make the character tokenizer of a model that is trained from scratch.

fairseq2's family ``char_tokenizer`` is a SentencePiece model. The four special symbols have the
indices of fairseq and omniASR. CTC's blank is 0: ``<s>`` can share that index because encoding a
text never gives it.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Final

import sentencepiece

SPECIAL_SYMBOLS: Final = ("<s>", "<pad>", "</s>", "<unk>")
"""In the order of their indices; the first is also CTC's blank."""

_RESERVED: Final = {" ", "▁", "▅"}
"""The space, and what SentencePiece writes for it and for an unknown symbol."""


def alphabet_of(characters: Iterable[str]) -> list[str]:
    """The characters that become symbols, sorted; space and non-printing ones do not."""
    return sorted({char for char in characters if char.isprintable()} - _RESERVED)


def build_char_tokenizer(characters: Iterable[str]) -> bytes:
    """Return a SentencePiece model with a symbol per character of the training text.

    Texts are encoded as they are (no normalisation, no leading space), so that decoding gives the
    text back if single spaces separate its words.
    """
    alphabet = alphabet_of(characters)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(alphabet)]),
        model_writer=model,
        model_type="char",
        vocab_size=len(SPECIAL_SYMBOLS) + 1 + len(alphabet),
        character_coverage=1.0,
        normalization_rule_name="identity",
        add_dummy_prefix=False,
        bos_id=0,
        pad_id=1,
        eos_id=2,
        unk_id=3,
        unk_surface="⁇",
        num_threads=1,
        minloglevel=2,
    )
    return model.getvalue()
