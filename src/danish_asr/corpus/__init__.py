"""From a corpus to a built dataset, its check, and finding its shards again.

Comes in: a folder, a table or a corpus of the hub. ``sources/`` reads it once into one Arrow table
of rows (``rows.py``) and a function that fetches their audio.
Goes out: Parquet shards with FLAC, a ledger of what was left out, cards and ``manifest.json``, the
contract of which is ``data/README.md``.
Read first: ``convert.py``.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from danish_asr.base.errors import ConfigError
from danish_asr.corpus.columns import THEIR_NAMES, TIMES

DANISH: Final = "dan_Latn"
"""omniASR's code for Danish in Latin script, the language of a dataset that names no other."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_LANGUAGE: Final = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions:
    """All options of a conversion, with the defaults of ``danish-asr convert``.

    Raises:
        ConfigError: Values are impossible; it lists all of them.
    """

    name: str  # of the dataset's card
    corpus: str | None = None  # its name in the dataset; None: that of the card
    columns: Mapping[str, str] = field(default_factory=dict)  # the source's names by ours
    split: str | None = None  # of all rows; None: from a column, a folder or the file's name
    tiers: tuple[str, ...] = ()  # names or patterns, of TextGrid and ELAN
    language: str = DANISH  # omniASR's code: the partition of all rows
    channel: int | None = None  # from 1, for rows that name none; None for the mean of all
    split_by_speaker: str | None = None  # shares, such as 80/10/10; None keeps the source's splits
    drop_shared_sentences: bool = False  # rows of train whose sentence is in dev or test
    without: Path | None = None  # a table of corpus and id: rows to leave out
    max_drop: float = 0.05  # largest share of the rows that may go to the ledger
    max_seconds: float = 600.0  # longer utterances go to the ledger; this also bounds memory
    shard_rows: int = 1000  # most source rows per shard; row groups stay whole if they fit
    workers: int = 1  # processes
    ray: str | None = None  # address of a Ray cluster; "local" starts one here

    def __post_init__(self) -> None:
        if faults := [*self._faults()]:
            raise ConfigError(faults, where="this conversion")

    def _faults(self) -> Iterator[str]:
        for option, name in (("--name", self.name), ("--corpus", self.corpus)):
            if name is not None and not _NAME.fullmatch(name):
                yield f"{option}: up to 100 of A-Z, a-z, 0-9, '_', '-' and '.'; found {name!r}"
        if not _LANGUAGE.fullmatch(self.language):
            yield f"--language: a code such as dan_Latn or nob_Latn; found {self.language!r}"
        for ours, theirs in self.columns.items():
            if ours not in THEIR_NAMES or not (theirs or ours in TIMES):
                names = ", ".join(THEIR_NAMES)
                yield f"--column: OURS=THEIRS, OURS one of {names}; found {ours}={theirs}"
        if not 0 <= self.max_drop <= 1:
            yield f"--max-drop: a share of the rows, from 0 to 1; found {self.max_drop:g}"
        if self.split not in {None, "train", "dev", "test"}:
            yield f"--split: one of train, dev, test; found {self.split}"
        if self.split_by_speaker and shares_of(self.split_by_speaker) is None:
            yield (
                "--split-by-speaker: per cent of train, dev and test, which add up to 100, as in "
                f"80/10/10 or 80/10/10:SEED; found {self.split_by_speaker}"
            )
        if self.split_by_speaker and self.split in {"dev", "test"}:
            yield f"--split: only train goes with --split-by-speaker; found {self.split}"

    @property
    def corpus_name(self) -> str:
        """The name of the corpus, where its rows do not name one."""
        return self.corpus or self.name


def shares_of(text: str) -> tuple[tuple[float, ...], int] | None:
    """The shares and the seed of ``80/10/10`` or ``80/10/10:SEED``; None if they are not 100 %."""
    number = r"(\d+(?:\.\d+)?)"
    match = re.fullmatch(rf"{number}/{number}/{number}(?::(\d+))?", text)
    if match is None:
        return None
    shares = tuple(map(float, match.groups()[:3]))
    if not shares[0] > 0 or abs(sum(shares) - 100) > 1e-6:
        return None
    return shares, int(match[4] or 0)
