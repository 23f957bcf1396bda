"""When each word of a text is spoken: the best CTC path through a model's log-probabilities."""

import warnings
from typing import Final

import torch
from fairseq2.data.tokenizers import Tokenizer
from torch import Tensor
from torchaudio.functional import forced_align

from danish_asr.decoding.greedy import BLANK
from danish_asr.errors import AlignmentError
from danish_asr.transcript import Word

FRAME_SECONDS: Final = 0.02
"""A frame of omniASR's models: 320 samples at 16 kHz."""

_MARGIN: Final = 0.04
"""At most so many seconds are added to each end of a word. A CTC model emits symbols inside of a
word, so words take the blanks around them; chosen on the dev voices of benchmarks/word_times.py."""


def align_words(
    log_probs: Tensor, text: str, tokenizer: Tokenizer, *, offset: float = 0.0
) -> list[Word]:
    """Return the words of a text, which spaces separate, with times and confidence.

    Two words divide the frames between their symbols equally, and each takes at most 40 ms. The
    confidence is the product of the probabilities of the word's symbols and of the separators
    around it, each in the frame of its peak on the path.

    Args:
        log_probs: Log-probabilities of a single utterance, (S, V), on the CPU.
        text: What is spoken, in characters of the tokenizer.
        tokenizer: The model's, with a token per character.
        offset: Time of the first frame in seconds, added to all times.

    Raises:
        AlignmentError: The tokenizer lacks a character, or the text needs more frames.
    """
    words = text.split()
    if not words:
        return []
    tokens, separator = _tokens(words, tokenizer)
    firsts, lasts, peaks = _best_path(log_probs, tokens)
    between = tokens == separator

    ends_before = torch.tensor([-1, *torch.nonzero(between)[:, 0], len(tokens)])
    starts = firsts[ends_before[:-1] + 1].double() * FRAME_SECONDS
    ends = (lasts[ends_before[1:] - 1].double() + 1) * FRAME_SECONDS
    gaps = (starts[1:] - ends[:-1]) / 2
    whole = ends.new_tensor([len(log_probs) * FRAME_SECONDS])
    before = torch.cat([starts[:1], gaps]).clamp(max=_MARGIN)
    after = torch.cat([gaps, whole - ends[-1:]]).clamp(max=_MARGIN)

    sums = torch.zeros(len(words)).index_add_(0, torch.cumsum(between, 0), peaks)
    sums[:-1] += peaks[between]  # which count for the word after them already
    spans = zip(words, (starts - before).tolist(), (ends + after).tolist(), strict=True)
    return [
        Word(word, offset + start, offset + end, confidence)
        for (word, start, end), confidence in zip(spans, sums.exp().tolist(), strict=True)
    ]


def _tokens(words: list[str], tokenizer: Tokenizer) -> tuple[Tensor, int]:
    """Return the tokens of the words, and the one between two words."""
    encode, unknown = tokenizer.create_encoder(), tokenizer.vocab_info.unk_idx
    tokens = encode(" ".join(words))
    if unknown is not None and bool((tokens == unknown).any()):
        missing = (c for c in sorted({*"".join(words)}) if bool((encode(c) == unknown).any()))
        raise AlignmentError(
            f"the tokenizer lacks the characters {' '.join(missing)} of the text "
            f"'{' '.join(words):.60}'; write it in the characters that the model was trained on"
        )
    return tokens, int(encode("a a")[-2])


def _best_path(log_probs: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the first and the last frame of each token, and its highest log-probability."""
    repeats = int(torch.count_nonzero(tokens[1:] == tokens[:-1]))
    if len(log_probs) < len(tokens) + repeats:
        raise AlignmentError(
            f"a text of {len(tokens)} characters needs {len(tokens) + repeats} frames of "
            f"{FRAME_SECONDS * 1000:.0f} ms, but the audio has {len(log_probs)}; check that the "
            "text belongs to the audio"
        )
    with warnings.catch_warnings():
        # torchaudio 2.8 announces its removal from 2.9; torch 2.8 is what fairseq2 0.6 needs.
        warnings.filterwarnings("ignore", message=".*forced_align has been deprecated")
        path, scores = forced_align(log_probs[None], tokens[None], blank=BLANK)
    symbols = path[0]
    new = symbols != BLANK
    new[1:] &= symbols[1:] != symbols[:-1]
    frames = torch.nonzero(symbols != BLANK)[:, 0]
    owners = (torch.cumsum(new, 0) - 1)[frames]
    counts = torch.bincount(owners, minlength=len(tokens))
    peaks = torch.full((len(tokens),), -torch.inf)
    peaks.scatter_reduce_(0, owners, scores[0][frames], "amax")
    lasts = frames[torch.cumsum(counts, 0) - 1]
    return torch.nonzero(new)[:, 0], lasts, peaks
