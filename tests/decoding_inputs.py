import torch
from fairseq2.data.tokenizers import Tokenizer
from torch import Tensor

from danish_asr.decoding.beam import symbols
from tests.builders import arpa_text

ARPA = arpa_text("en", "ko")


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
