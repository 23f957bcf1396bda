"""The symbols of a tokenizer, in the files of other programs."""

import json
from pathlib import Path
from typing import Final

from fairseq2.data.tokenizers import Tokenizer

from danish_asr.base.errors import RunError
from danish_asr.base.files import publish_text
from danish_asr.decoding.beam import symbols

BLANK: Final = "<pad>"
"""In transformers, the padding symbol is CTC's blank."""

UNKNOWN: Final = "⁇"
"""What SentencePiece writes for the unknown symbol."""

_CONTROL: Final = (BLANK, "<s>", "</s>")

SILENT: Final = 2
"""The last of them: symbols up to it write nothing."""

TOKENS: Final = "tokens.txt"


class Vocabulary:
    """What each symbol adds to a text: nothing (control symbols), a space or characters.

    Raises:
        RunError: The tokenizer's model has another size than the head of the network.
    """

    def __init__(self, tokenizer: Tokenizer, size: int) -> None:
        info = tokenizer.vocab_info
        if info.size != size:
            raise RunError(f"the tokenizer has {info.size} symbols, but the model has {size}")
        self.texts = [text or "" for text in symbols(tokenizer)]
        if info.unk_idx is not None:
            self.texts[info.unk_idx] = UNKNOWN
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
        # sherpa-onnx leaves SIL and </s> out of texts, but not <s>.
        names = ("SIL" if name == "<s>" else name for name in self.names("▁"))
        lines = (f"{name} {number}\n" for number, name in enumerate(names))
        publish_text(folder / TOKENS, "".join(lines))
