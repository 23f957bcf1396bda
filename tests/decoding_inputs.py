import torch
from fairseq2.data.tokenizers import Tokenizer
from torch import Tensor

from danish_asr.decoding.beam import symbols
from danish_asr.decoding.ctc import BLANK
from tests.builders import arpa_text

ARPA = arpa_text("en", "ko")

SURE = 0.9
"""The probability of the symbol that a model emits."""


def log_probs_of(path: str, tokenizer: Tokenizer, *, probability: float = SURE) -> Tensor:
    """Log-probabilities of a model that emits a symbol of ``path`` per frame; "_" is the blank."""
    encode, size = tokenizer.create_encoder(), tokenizer.vocab_info.size
    space = int(encode("a a")[1])
    symbols = [BLANK if c == "_" else space if c == " " else int(encode(c)[0]) for c in path]
    probabilities = torch.full((len(path), size), (1 - probability) / (size - 1))
    probabilities[torch.arange(len(path)), torch.tensor(symbols)] = probability
    return probabilities.log()


def logits_of(text: str, tokenizer: Tokenizer, seed: int = 0, noise: float = 1.0) -> Tensor:
    """Log-probabilities that favour a text, two frames per character: (S, V)."""
    labels = symbols(tokenizer)
    generator = torch.Generator().manual_seed(seed)
    logits = noise * torch.randn(2 * len(text), len(labels), generator=generator)
    for at, character in enumerate(text):
        logits[2 * at, labels.index(character)] += 4
        logits[2 * at + 1, 0] += 4
    logits[:, [index for index, label in enumerate(labels) if label is None]] = -1e4
    return logits.log_softmax(dim=-1)
