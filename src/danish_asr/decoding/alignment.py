"""When each word of a text is spoken, by the best CTC path through a model's log-probabilities.

torchaudio finds the path; for long audio, a search in linear memory.
"""

import warnings
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Self

import numpy as np
import torch
from fairseq2.data.tokenizers import Tokenizer
from numpy.typing import NDArray
from torch import Tensor
from torchaudio.functional import forced_align

from danish_asr.base.errors import AlignmentError
from danish_asr.decoding.greedy import BLANK
from danish_asr.decoding.transcript import Word

FRAME_SECONDS: Final = 0.02
"""A frame of omniASR's models: 320 samples at 16 kHz."""

_EXACT: Final = 1 << 27
"""Frames times states for which torchaudio is called: 128 MiB, five minutes of speech."""

_BEAM: Final = 20_000.0
"""Longer audio: paths whose log-probability is so much below the best are given up.
The larger, the longer the stretches of speech that the text may lack: about 2 minutes."""

_BLOCK: Final = 1024

_MARGIN: Final = 0.04
"""At most so many seconds of the blanks around a word are added to each of its ends; chosen on the
dev voices of benchmarks/quality_word_times.py."""


def align_words(
    log_probs: Tensor, text: str, tokenizer: Tokenizer, *, offset: float = 0.0
) -> list[Word]:
    """Return the words of a text with times and confidence.

    ``log_probs`` are of a single utterance, (S, V), on the CPU; the tokenizer has a token per
    character; ``offset`` is the time of the first frame in seconds.

    Raises:
        AlignmentError: The tokenizer lacks a character, or the text needs more frames.
    """
    return SpokenText.of(text, tokenizer).align(log_probs, offset=offset)


def separator_of(tokenizer: Tokenizer) -> int:
    """Return the token between two words."""
    return int(tokenizer.create_encoder()("a a")[-2])


@dataclass(frozen=True)
class SpokenText:
    """Words and their tokens, (tokens,), with a separator between two words."""

    words: list[str]
    tokens: Tensor
    separator: int

    @classmethod
    def of(cls, text: str, tokenizer: Tokenizer) -> Self:
        """Encode a text; raises AlignmentError if the tokenizer lacks a character."""
        encode, unknown = tokenizer.create_encoder(), tokenizer.vocab_info.unk_idx
        words = text.split()
        tokens = encode(" ".join(words))
        if unknown is not None and bool((tokens == unknown).any()):
            missing = (c for c in sorted({*"".join(words)}) if bool((encode(c) == unknown).any()))
            raise AlignmentError(
                f"the tokenizer lacks the characters {' '.join(missing)} of the text "
                f"'{' '.join(words):.60}'"
            )
        return cls(words, tokens, separator_of(tokenizer))

    def compact(self) -> tuple[Tensor, Self]:
        """Return the symbols that an alignment needs, (symbols,), and the text in terms of them.

        For long audio: only these columns of the log-probabilities have to be kept.
        """
        symbols = torch.unique(torch.cat([torch.tensor([BLANK, self.separator]), self.tokens]))
        tokens = torch.searchsorted(symbols, self.tokens)
        separator = int(torch.searchsorted(symbols, self.separator))
        return symbols, replace(self, tokens=tokens, separator=separator)

    def align(self, log_probs: Tensor, *, offset: float = 0.0) -> list[Word]:
        """Return what `align_words` does.

        Two words divide the frames between their symbols equally. The confidence is the product of
        the probabilities of the word's symbols and of the separators around it, each at its peak.
        """
        if not self.words:
            return []
        firsts, lasts, peaks = token_times(log_probs, self.tokens)
        between = self.tokens == self.separator
        around = torch.tensor([-1, *torch.nonzero(between)[:, 0], len(self.tokens)])

        starts = firsts[around[:-1] + 1].double() * FRAME_SECONDS
        ends = (lasts[around[1:] - 1].double() + 1) * FRAME_SECONDS
        gaps = (starts[1:] - ends[:-1]) / 2
        rest = len(log_probs) * FRAME_SECONDS - ends[-1:]
        before = torch.cat([starts[:1], gaps]).clamp(max=_MARGIN)
        after = torch.cat([gaps, rest]).clamp(max=_MARGIN)

        sums = torch.zeros(len(self.words)).index_add_(0, torch.cumsum(between, 0), peaks)
        sums[:-1] += peaks[between]  # which count for the word after them already
        spans = zip(self.words, (starts - before).tolist(), (ends + after).tolist(), strict=True)
        return [
            Word(word, offset + start, offset + end, confidence)
            for (word, start, end), confidence in zip(spans, sums.exp().tolist(), strict=True)
        ]


class TokenTimes(NamedTuple):
    """Where the path has each token, (tokens,): frames, and the highest log-probability."""

    first: Tensor
    last: Tensor
    peak: Tensor


def token_times(log_probs: Tensor, tokens: Tensor) -> TokenTimes:
    """Return when each token is emitted on the best path that has all of them.

    ``log_probs`` are (S, V), on the CPU; ``tokens`` at least one, without blanks. Raises
    AlignmentError if there are too few frames.
    """
    repeats = int(torch.count_nonzero(tokens[1:] == tokens[:-1]))
    if len(log_probs) < len(tokens) + repeats:
        raise AlignmentError(
            f"a text of {len(tokens)} characters needs at least "
            f"{(len(tokens) + repeats) * FRAME_SECONDS:.2f} s of audio; there are "
            f"{len(log_probs) * FRAME_SECONDS:.2f} s"
        )
    if len(log_probs) * (2 * len(tokens) + 1) <= _EXACT:
        owners = _exact_path(log_probs, tokens)
    else:
        owners = torch.from_numpy(_Search(log_probs.numpy(), tokens.numpy()).path())
    frames = torch.nonzero(owners >= 0)[:, 0]
    owners = owners[frames]
    counts = torch.bincount(owners, minlength=len(tokens))
    ends = torch.cumsum(counts, 0)
    peaks = torch.full((len(tokens),), -torch.inf)
    peaks.scatter_reduce_(0, owners, log_probs[frames, tokens[owners]], "amax")
    return TokenTimes(frames[ends - counts], frames[ends - 1], peaks)


def _exact_path(log_probs: Tensor, tokens: Tensor) -> Tensor:
    """Return the index into ``tokens`` of each frame, -1 for blank."""
    with warnings.catch_warnings():
        # torchaudio 2.8 announces its removal in 2.9, but later versions (2.10) keep it.
        warnings.filterwarnings("ignore", message=".*forced_align has been deprecated")
        path, _ = forced_align(log_probs[None], tokens[None], blank=BLANK)
    symbols = path[0]
    new = symbols != BLANK
    new[1:] &= symbols[1:] != symbols[:-1]
    return torch.where(symbols == BLANK, -1, torch.cumsum(new, 0) - 1)


class _Beam(NamedTuple):
    """The states of a frame that are kept: from ``low`` on, with their scores."""

    low: int
    scores: NDArray[np.float64]


class _Search:
    """A Viterbi search over the states blank, token, blank, ..., token, blank, near the best path.

    The states of a frame are kept from the first to the last whose score is within `_BEAM`, so
    that time grows with frames times kept states. Their scores are stored for every 1024th frame
    only; the steps between are computed again when the path is traced back.
    """

    def __init__(self, log_probs: NDArray[np.float32], tokens: NDArray[np.int64]) -> None:
        self._log_probs = log_probs
        self._states = 2 * len(tokens) + 1
        self._symbols = np.full(self._states, BLANK)
        self._symbols[1::2] = tokens
        # A step over a blank leads to a token that differs from the one before it.
        repeats = tokens[1:] == tokens[:-1]
        self._skip = np.full(self._states, -np.inf)
        self._skip[3::2] = np.where(repeats, -np.inf, 0)
        # The frames that the tokens after a state need: with fewer left, the path cannot end.
        self._rest = np.zeros(self._states, np.int64)
        self._rest[1:-2:2] = np.cumsum(1 + repeats[::-1])[::-1]
        self._rest[:-1:2] = self._rest[1::2] + 1

    def path(self) -> NDArray[np.int64]:
        """Return what `_exact_path` does."""
        frames = len(self._log_probs)
        starts, beam = [], _Beam(0, np.zeros(1))  # the beam before each block
        for frame in range(frames):
            if frame % _BLOCK == 0:
                starts.append(beam)
            beam, _ = self._advance(frame, beam)
        state = beam.low + int(np.argmax(beam.scores))
        path = np.empty(frames, np.int64)
        for block, start in reversed(list(enumerate(starts))):
            beam, steps = start, []
            block_frames = range(block * _BLOCK, min(frames, (block + 1) * _BLOCK))
            for frame in block_frames:
                low = beam.low
                beam, taken = self._advance(frame, beam)
                steps.append((low, taken))
            for frame, (low, taken) in zip(reversed(block_frames), reversed(steps), strict=True):
                path[frame] = state
                state -= int(taken[state - low])
        return np.where(path % 2, path // 2, -1)

    def _advance(self, frame: int, beam: _Beam) -> tuple[_Beam, NDArray[np.uint8]]:
        """One step of the search: the best way to each state of a frame.

        Each state is reached from itself (step 0), from the state before it (1), or over a blank
        from the token before it (2). Returns the states near the best one, and the step taken to
        each state from ``beam.low`` on, (states,).
        """
        low, scores = beam
        size = min(len(scores) + (2 if frame else 1), self._states - low)
        stay, step, skip = np.full((3, size), -np.inf)
        stay[: len(scores)] = scores
        step[1 : len(scores) + 1] = scores[: size - 1]
        skip[2 : len(scores) + 2] = scores[: max(0, size - 2)]
        skip += self._skip[low : low + size]
        best = np.maximum(stay, step)
        taken = np.where(skip > best, 2, step > stay).astype(np.uint8)
        best = np.maximum(best, skip) + self._log_probs[frame, self._symbols[low : low + size]]
        frames_left = len(self._log_probs) - 1 - frame
        best[self._rest[low : low + size] > frames_left] = -np.inf
        highest = best.max()
        kept = np.flatnonzero(best > highest - _BEAM)
        begin, end = int(kept[0]), int(kept[-1]) + 1
        return _Beam(low + begin, best[begin:end] - highest), taken
