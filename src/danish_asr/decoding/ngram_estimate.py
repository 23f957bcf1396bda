"""Interpolated modified Kneser-Ney smoothing on arrays, and the ARPA file.

The estimate is that of KenLM's ``lmplz`` (Heafield et al. 2013, Scalable Modified Kneser-Ney
Language Model Estimation; Chen and Goodman 1998): adjusted counts below the highest order,
discounts from counts of counts, unigrams interpolated with the uniform distribution, of which
``<unk>`` gets its share. Probabilities of a context sum to 1.
"""

from collections.abc import Iterator, Sequence
from typing import IO, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

UNKNOWN, BEGIN, END = 0, 1, 2
SPECIAL: Final = ("<unk>", "<s>", "</s>")
"""The words with the numbers above."""

_FALLBACK: Final = np.array([0.0, 0.5, 1.0, 1.5])
"""Discounts where the counts of counts of a small text give none, as ``lmplz`` has them."""

_AT_ONCE: Final = 100_000
_Ints = NDArray[np.int64]


class _Counts(NamedTuple):
    """The different n-grams of one length n; those of length n - 1 have numbers of their own."""

    prefix: _Ints  # number of the n-gram without its last word, (n-grams,)
    suffix: _Ints  # and without its first one
    last: _Ints  # the last word
    counts: _Ints  # occurrences


class Order(NamedTuple):
    """The probabilities of the n-grams of one length, numbered as they were counted."""

    prefix: _Ints
    last: _Ints
    log_p: NDArray[np.float64]  # log10 P(last | prefix)
    log_backoff: NDArray[np.float64]  # log10 of the weight of shorter contexts after the n-gram


def estimate(tokens: _Ints, vocabulary: int, order: int) -> list[Order]:
    """Return the n-grams of each length from 1 to ``order``, with Kneser-Ney's probabilities.

    For a context h and a word w: ``P(w | h) = (c(hw) - D) / c(h) + backoff(h) * P(w | h')``. Here c
    are adjusted counts, D is the discount of c(hw), and h' is h without its first word. So each
    length needs the probabilities of the one below, and gives the contexts there their backoff.

    Args:
        tokens: Numbers of words, each sentence between `BEGIN` and `END`, (tokens,).
        vocabulary: Words, `SPECIAL` included; their numbers are smaller.
        order: The greatest length, from 2.
    """
    counted = _count(tokens, vocabulary, order)
    orders: list[Order] = []
    for n, (prefix, suffix, last, counts) in enumerate(counted, 1):
        adjusted = counts
        if n < order:
            # The number of different words before it; nothing comes before <s>.
            adjusted = np.bincount(counted[n].suffix, minlength=len(counts))
            adjusted = np.where(adjusted == 0, counts, adjusted)
        if n == 1:
            adjusted[[UNKNOWN, BEGIN]] = 0
        contexts = len(orders[-1].last) if orders else 1
        total = np.bincount(prefix, adjusted, contexts)
        total = np.where(total == 0, 1, total)
        discounted = adjusted - _discounts(adjusted)[np.minimum(adjusted, 3)]
        backoff = 1.0 - np.bincount(prefix, discounted, contexts) / total
        if orders:
            lower = 10 ** orders[-1].log_p[suffix]
            seen = np.bincount(prefix, minlength=contexts) > 0
            # h is an n-gram of the length below.
            orders[-1].log_backoff[:] = np.where(seen, np.log10(np.maximum(backoff, 1e-12)), 0.0)
        else:
            # Every word but <s> can come next.
            lower = np.full(vocabulary, 1 / (vocabulary - 1))
        p = discounted / total[prefix] + backoff[prefix] * lower
        with np.errstate(divide="ignore"):
            log_p = np.log10(p)
        if n == 1:
            log_p[BEGIN] = -99
        orders.append(Order(prefix, last, log_p, np.zeros(len(last))))
    return orders


def _count(tokens: _Ints, vocabulary: int, order: int) -> list[_Counts]:
    """Count the different n-grams of each length."""
    counts = np.bincount(tokens, minlength=vocabulary)
    zeros = np.zeros(vocabulary, np.int64)
    counted = [_Counts(zeros, zeros, np.arange(vocabulary), counts)]
    numbers = tokens  # of the n-gram that begins at each token
    begins = np.arange(len(tokens))  # where n-grams begin that no sentence ends in
    for n in range(2, order + 1):
        ended = tokens[begins + n - 2] == END
        begins = begins[~ended]
        keys = numbers[begins] * vocabulary + tokens[begins + n - 1]
        unique, position, inverse, times = np.unique(
            keys, return_index=True, return_inverse=True, return_counts=True
        )
        # The n-gram without its first word is the shorter one that begins a token later.
        suffix = numbers[begins[position] + 1]
        counted.append(_Counts(unique // vocabulary, suffix, unique % vocabulary, times))
        numbers = np.zeros_like(tokens)
        numbers[begins] = inverse
    return counted


def _discounts(adjusted: _Ints) -> NDArray[np.float64]:
    """Discounts of counts 0, 1, 2 and 3 or more (Chen and Goodman 1998, equation 26)."""
    times = np.bincount(np.minimum(adjusted, 5), minlength=6).astype(np.float64)
    if not times[1:5].all():
        return _FALLBACK
    y = times[1] / (times[1] + 2 * times[2])
    counts = np.arange(1, 4)
    discounts = counts - (counts + 1) * y * times[2:5] / times[1:4]
    if not ((discounts > 0) & (discounts < counts)).all():
        return _FALLBACK
    return np.concatenate([[0.0], discounts])


def write_arpa(stream: IO[bytes], orders: Sequence[Order], words: Sequence[str]) -> None:
    """Write all n-grams; ``words`` are the texts of the numbers."""
    head = [f"ngram {n}={len(order.last)}" for n, order in enumerate(orders, 1)]
    stream.write("\n".join(["\\data\\", *head, ""]).encode())
    for n in range(1, len(orders) + 1):
        stream.write(f"\n\\{n}-grams:\n".encode())
        numbers = np.arange(len(orders[n - 1].last))
        for begin in range(0, len(numbers), _AT_ONCE):
            stream.writelines(_lines(orders[:n], words, numbers[begin : begin + _AT_ONCE]))
    stream.write(b"\n\\end\\\n")


def _lines(orders: Sequence[Order], words: Sequence[str], numbers: _Ints) -> Iterator[bytes]:
    log_p = orders[-1].log_p[numbers].tolist()
    backoff = orders[-1].log_backoff[numbers].tolist()
    columns = []
    for order in reversed(orders):  # from the last word of each n-gram to its first
        columns.append([words[word] for word in order.last[numbers].tolist()])
        numbers = order.prefix[numbers]
    for *ngram, p, weight in zip(*reversed(columns), log_p, backoff, strict=True):
        tail = f"\t{weight:.6f}" if weight else ""
        yield f"{p:.6f}\t{' '.join(ngram)}{tail}\n".encode()
