"""Divide the rows of a source into splits by speaker, and find sentences that splits share."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from danish_asr.base.errors import SourceError
from danish_asr.base.schema import SPLITS
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.sources.base import Source, SourceFile
from danish_asr.corpus.texts import text_profiles
from danish_asr.text.profiles import normalizer

SHARED_SENTENCE: Final = "sentence in dev or test"
"""The reason in the ledger."""

_TRAIN: Final = SPLITS.index("train")
_GROUP: Final = ("dialect", "gender", "age_group")
_ROWS: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("speaker_id", *_GROUP, "sentence")),
        ("seconds", pa.float64()),
    ]
)
Splits = NDArray[np.int8]
"""The split of each row of a file, as an index of `SPLITS`."""


class Division(NamedTuple):
    """What is decided about rows before they are converted."""

    splits: dict[str, Splits]  # by file, positions in `SPLITS`; empty: the source's own splits
    shared: dict[str, frozenset[int]]  # by file, the rows of train to leave out
    notes: list[str]  # for people

    def rows_of(self, file: SourceFile, part: int) -> NDArray[np.int64]:
        """The positions of a file's rows in a part."""
        return np.flatnonzero(self.splits[file.name] == part)


def sentence_of(spoken: str) -> str | None:
    """What is compared between splits, of a normalised text; None if it is short.

    Short sentences ("ja tak") occur everywhere, so sharing them is no leak.
    """
    return spoken if len(spoken.split()) >= 3 else None


def shares_of(text: str) -> tuple[tuple[float, ...], int]:
    """Parse ``80/10/10`` or ``80/10/10:SEED``; no shares if it is something else, or not 100 %."""
    number = r"(\d+(?:\.\d+)?)"
    match = re.fullmatch(rf"{number}/{number}/{number}(?::(\d+))?", text)
    if match is None:
        return (), 0
    train, dev, test, seed = match.groups("0")
    shares = float(train), float(dev), float(test)
    if not shares[0] > 0 or not math.isclose(sum(shares), 100):
        return (), 0
    return shares, int(seed)


def divide(source: Source, options: ConvertOptions) -> Division:
    """Decide by the options; reads all rows without their audio if one of them asks for it."""
    if not (options.split_by_speaker or options.drop_shared_sentences):
        return Division({}, {}, [])
    own = sorted({file.split for file in source.files} - {SPLITS[_TRAIN]})
    if options.split_by_speaker and own:
        raise SourceError(
            f"--split-by-speaker: the source has its own {' and '.join(own)}; leave the option out "
            "to keep them, or divide all rows anew with --split train (not CoRal)"
        )
    rows = {file.name: _read(source, file, options) for file in source.files}
    splits = {file.name: np.full(file.rows, SPLITS.index(file.split)) for file in source.files}
    notes = []
    if options.split_by_speaker:
        shares, seed = shares_of(options.split_by_speaker)
        assigned = assign_speakers(pa.concat_tables(rows.values()), shares, seed)
        for name, table in rows.items():
            speakers = table["speaker_id"].to_pylist()
            splits[name] = np.array([assigned.get(speaker, _TRAIN) for speaker in speakers], int)
        how = f"split by speaker (seed {seed})"
        notes = list(_division_notes(rows, splits, assigned, how))
    shared = _shared_rows(rows, splits)
    if count := sum(map(len, shared.values())):
        done = "have a sentence of dev or test; --drop-shared-sentences leaves them out"
        if options.drop_shared_sentences:
            done = "are left out: their sentence is in dev or test"
        notes.append(f"{count:,} rows of train {done}")
    return Division(
        {name: split.astype(np.int8) for name, split in splits.items()}
        if options.split_by_speaker
        else {},
        shared if options.drop_shared_sentences else {},
        notes,
    )


class _Speaker(NamedTuple):
    name: str
    dialect: str
    group: tuple[str, ...]  # dialect, gender and age group
    weight: float  # seconds of speech, or rows


def assign_speakers(rows: pa.Table, shares: Sequence[float], seed: int) -> dict[str, int]:
    """Assign each speaker to a split, an index of ``shares``, by its share of the speech.

    Each dialect is divided by itself: its speakers, in an order that mixes genders and age groups
    evenly, go to the split with the most room. A split with share 0 gets nobody. If no row has a
    length above 0, train gets all speakers but one for each other split.

    Raises:
        SourceError: There are fewer speakers than splits.
    """
    speakers = _speakers_of(rows)
    wanted = [split for split, share in enumerate(shares) if share]
    if len(speakers) < len(wanted):
        raise SourceError(
            f"--split-by-speaker: {len(speakers)} known speakers cannot fill {len(wanted)} splits; "
            "name their column (--column speaker_id=THEIRS), put the recordings of each speaker "
            "into a folder, or convert with --split train"
        )
    speakers.sort(key=lambda speaker: (speaker.group, _shuffled_place(speaker, seed)))
    fractions = np.array(shares) / sum(shares)
    # How much speech each split still lacks, negative if it has too much. A split with share 0 is
    # never the one with the most room.
    room = np.where(fractions > 0, 0.0, -np.inf)
    assigned: dict[str, int] = {}
    # Groups begin with the dialect, so the sorted speakers of a dialect are adjacent.
    for _, members in groupby(speakers, attrgetter("dialect")):
        of_dialect = list(members)
        due = fractions * sum(speaker.weight for speaker in of_dialect)
        room += due
        for speaker in _large_ones_first(_mix_groups(of_dialect), smallest_due=min(due[wanted])):
            roomiest = int(np.argmax(room))
            assigned[speaker.name] = roomiest
            room[roomiest] -= speaker.weight
        # A split that got too little of this dialect gets more of the next one, so that errors
        # cancel. Only half counts there, so that each dialect keeps nearly its own shares.
        room /= 2
    _fill_empty_splits(assigned, speakers, wanted)
    return assigned


def _shuffled_place(speaker: _Speaker, seed: int) -> bytes:
    """A key that sorts speakers at random by the seed, whoever else there is."""
    return sha256(f"{seed}:{speaker.name}".encode()).digest()


def _large_ones_first(speakers: Sequence[_Speaker], smallest_due: float) -> list[_Speaker]:
    """Put speakers first that are too large for the smallest split, while train has room."""

    def fits_everywhere(speaker: _Speaker) -> bool:
        return speaker.weight <= smallest_due

    return sorted(speakers, key=fits_everywhere)  # False is before True; otherwise in their order


def _fill_empty_splits(
    assigned: dict[str, int], speakers: Sequence[_Speaker], wanted: Sequence[int]
) -> None:
    """Give each empty split one speaker: the lightest of the split with the most speakers.

    That split has two or more, because there are no fewer speakers than splits.
    """
    for split in wanted:
        if split not in assigned.values():
            fullest = Counter(assigned.values()).most_common(1)[0][0]
            movable = [speaker for speaker in speakers if assigned[speaker.name] == fullest]
            lightest = min(movable, key=attrgetter("weight"))
            assigned[lightest.name] = split


def _speakers_of(rows: pa.Table) -> list[_Speaker]:
    """The known speakers, weighted by the lengths of their rows, or by rows if one is missing."""
    by_length = not rows["seconds"].null_count
    weights: Counter[str] = Counter()
    groups: dict[str, tuple[str, ...]] = {}
    for row in rows.drop_columns(["sentence"]).to_pylist():
        name = row["speaker_id"]
        if name is not None:
            weights[name] += row["seconds"] if by_length else 1
            groups.setdefault(name, tuple(row[key] or "" for key in _GROUP))
    return [
        _Speaker(name, groups[name][0], groups[name], weight) for name, weight in weights.items()
    ]


def _mix_groups(speakers: Sequence[_Speaker]) -> list[_Speaker]:
    """Order speakers so that every part of the list has its share of each group."""
    sizes = Counter(speaker.group for speaker in speakers)
    seen: Counter[tuple[str, ...]] = Counter()
    places: dict[str, float] = {}
    for speaker in speakers:
        seen[speaker.group] += 1
        places[speaker.name] = seen[speaker.group] / sizes[speaker.group]
    return sorted(speakers, key=lambda speaker: (places[speaker.name], speaker.name))


def _read(source: Source, file: SourceFile, options: ConvertOptions) -> pa.Table:
    rows, spoken = [], normalizer(text_profiles(options.language)[0])
    for row in source.without_audio(file):
        speaker = {key: getattr(row.speaker, key) for key in ("speaker_id", *_GROUP)}
        sentence = sentence_of(spoken(row.text or ""))
        rows.append({**speaker, "seconds": row.seconds, "sentence": sentence})
    return pa.Table.from_pylist(rows, _ROWS)


def _shared_rows(
    rows: Mapping[str, pa.Table], splits: Mapping[str, NDArray[np.int64]]
) -> dict[str, frozenset[int]]:
    held_out = pa.concat_tables(
        table.filter(splits[name] != _TRAIN) for name, table in rows.items()
    )["sentence"].unique()
    shared = {}
    for name, table in rows.items():
        is_shared = pc.is_in(table["sentence"], held_out.drop_null()).to_numpy()
        shared[name] = frozenset(np.flatnonzero(is_shared & (splits[name] == _TRAIN)).tolist())
    return shared


def _division_notes(
    rows: Mapping[str, pa.Table],
    splits: Mapping[str, NDArray[np.int64]],
    assigned: Mapping[str, int],
    how: str,
) -> Iterator[str]:
    table = pa.concat_tables(rows.values())
    split_of_row = np.concatenate(list(splits.values()))
    counts, speakers = Counter(split_of_row.tolist()), Counter(assigned.values())
    parts = [f"{SPLITS[n]} {speakers[n]:,} with {counts[n]:,} rows" for n in range(len(SPLITS))]
    yield f"{how}, speakers: {', '.join(parts)}"
    dialects = {*table["dialect"].drop_null().to_pylist()}
    for number in sorted(speakers):
        here = table["dialect"].filter(pa.array(split_of_row == number)).to_pylist()
        if missing := sorted(dialects.difference(here)):
            yield f"no speaker in {SPLITS[number]} has the dialect {', '.join(missing)}"
    if unknown := table["speaker_id"].null_count:
        yield f"{unknown:,} rows without a speaker are in train; it may be one of dev or test"
