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
"""Frames of omniASR's models, 320 samples at 16 kHz."""


def align_words(
    log_probs: Tensor, text: str, tokenizer: Tokenizer, *, offset: float = 0.0
) -> list[Word]:
    """Return the words of a text, which spaces separate, with times and confidence.

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
    tokens = _tokens(words, tokenizer)
    token_of_frame, scores = _best_path(log_probs, tokens)
    # The separator between two words has no word of its own.
    separator = _separator(tokenizer)
    word_of_token = torch.where(tokens == separator, -1, torch.cumsum(tokens == separator, 0))
    spoken = token_of_frame >= 0
    word_of_frame = torch.where(spoken, word_of_token[token_of_frame.clamp(min=0)], -1)

    frames = torch.nonzero(word_of_frame >= 0)[:, 0]
    owners = word_of_frame[frames]
    counts = torch.bincount(owners, minlength=len(words))
    first = frames[torch.cumsum(counts, 0) - counts]
    last = frames[torch.cumsum(counts, 0) - 1]
    sums = torch.zeros(len(words)).index_add_(0, owners, scores[frames].float())
    confidence = torch.exp(sums / counts)
    return [
        Word(
            text=word,
            start=offset + begin * FRAME_SECONDS,
            end=offset + (end + 1) * FRAME_SECONDS,
            confidence=min(1.0, sure),
        )
        for word, begin, end, sure in zip(
            words, first.tolist(), last.tolist(), confidence.tolist(), strict=True
        )
    ]


def _separator(tokenizer: Tokenizer) -> int:
    return int(tokenizer.create_encoder()("a a")[-2])


def _tokens(words: list[str], tokenizer: Tokenizer) -> Tensor:
    encode, unknown = tokenizer.create_encoder(), tokenizer.vocab_info.unk_idx
    tokens = encode(" ".join(words))
    if unknown is not None and bool((tokens == unknown).any()):
        missing = (c for c in sorted({*"".join(words)}) if bool((encode(c) == unknown).any()))
        raise AlignmentError(
            f"the tokenizer lacks the characters {' '.join(missing)} of the text "
            f"'{' '.join(words):.60}'; write it in the characters that the model was trained on"
        )
    return tokens


def _best_path(log_probs: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Return each frame's index into ``tokens``, (S,), -1 for blank, and its log-probability."""
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
    symbols, spoken = path[0], path[0] != BLANK
    starts = spoken.clone()
    starts[1:] &= symbols[1:] != symbols[:-1]
    return torch.where(spoken, torch.cumsum(starts, 0) - 1, -1), scores[0]
