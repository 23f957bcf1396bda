"""The symbols of a tokenizer, in the files of other programs."""

import json
from pathlib import Path
from typing import Final

import torch
from fairseq2.data.tokenizers import Tokenizer

from danish_asr.errors import RunError
from danish_asr.files import publish_text

BLANK: Final = "<pad>"
"""In transformers, the padding symbol is CTC's blank."""

_CONTROL: Final = (BLANK, "<s>", "</s>")


class Vocabulary:
    """What each symbol adds to a text: nothing (control symbols), a space or characters.

    Raises:
        RunError: The tokenizer's model has another size than the head of the network.
    """

    def __init__(self, tokenizer: Tokenizer, size: int) -> None:
        info = tokenizer.vocab_info
        if info.size != size:
            raise RunError(f"the tokenizer has {info.size} symbols, but the model has {size}")
        letter = int(tokenizer.create_encoder()("a")[-1])
        decode = tokenizer.create_decoder()
        # Between two letters, because a decoder drops a space at the ends.
        triples = (torch.tensor([letter, symbol, letter]) for symbol in range(size))
        self.texts: list[str] = [decode(triple)[1:-1] for triple in triples]
        self.unknown = None if info.unk_idx is None else self.texts[info.unk_idx].strip()
        self.texts = [t if t == " " else t.strip() for t in self.texts]
        self.delimiter = "|" if "|" not in self.texts else "▁"

    def names(self, space: str) -> list[str]:
        """Return a unique name for each symbol, ``space`` for the space."""
        names: dict[str, None] = {}
        for number, text in enumerate(self.texts):
            name = {" ": space, "": f"<{number}>"}.get(text, text)
            if not text and number < len(_CONTROL):
                name = _CONTROL[number]
            names[f"<{number}>" if name in names else name] = None
        return list(names)

    def write_vocab(self, folder: Path) -> None:
        """Write ``vocab.json``, from symbol to index, as ``Wav2Vec2CTCTokenizer`` reads it."""
        vocab = {name: number for number, name in enumerate(self.names(self.delimiter))}
        publish_text(folder / "vocab.json", json.dumps(vocab, ensure_ascii=False, indent=0) + "\n")

    def write_tokens(self, folder: Path) -> None:
        """Write ``tokens.txt``, a line per symbol with its index, as sherpa-onnx reads it."""
        lines = (f"{name} {number}\n" for number, name in enumerate(self.names("▁")))
        publish_text(folder / "tokens.txt", "".join(lines))

    def text(self, symbols: list[int]) -> str:
        """Join the texts of symbols whose repeats and blanks are left out."""
        return "".join(self.texts[symbol] for symbol in symbols).strip()
