"""The rows of a built dataset as one table, what its columns tell, and audio of some rows.

In: the root of a dataset. Out: an Arrow table of all rows, sums per group, and clips for pages.
"""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from danish_asr.base.audio import decode, encode_flac, resampled
from danish_asr.base.errors import AudioError, DatasetError
from danish_asr.base.schema import METADATA_COLUMNS, MIN_SPEAKERS, SAMPLE_RATE, SPLITS
from danish_asr.corpus.inventory import find_shards, share_people_of
from danish_asr.corpus.people import persons_of
from danish_asr.recipe.data.index import TEXT, DanishAsrDataset, Index
from danish_asr.report.components import audio_url, left_out_lines
from danish_asr.scoring.intervals import FloatArray

UNKNOWN: Final = "unknown"

MAX_CLIP_SECONDS: Final = 20.0
MAX_PAGE_BYTES: Final = 20_000_000
"""FLAC on the page; base64 makes it a third larger."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of the splits, numbered from 0."""

    indexes: tuple[Index, ...]  # one per split
    table: pa.Table
    """id, text, speaker_id and person (may be null), dialect, age_group, gender, split, corpus,
    seconds."""

    def find(self, corpus: str | None, row_id: str) -> int | None:
        """The number of a row; None: there is none, or more than one if the corpus is unknown."""
        of_corpora = self._by_id.get(unicodedata.normalize("NFC", row_id), {})
        if corpus is None and len(of_corpora) == 1:
            return next(iter(of_corpora.values()))
        return of_corpora.get(corpus or "")

    @cached_property
    def _by_id(self) -> dict[str, dict[str, int]]:
        numbers = defaultdict[str, dict[str, int]](dict)
        corpora, ids = (self.table[name].to_pylist() for name in ("corpus", "id"))
        for number, (corpus, row_id) in enumerate(zip(corpora, ids, strict=True)):
            numbers[unicodedata.normalize("NFC", row_id)][corpus] = number
        return numbers

    @property
    def seconds(self) -> FloatArray:
        """The length of each row."""
        values: FloatArray = self.table["seconds"].to_numpy()
        return values

    def audio(self, row: int) -> bytes:
        """The FLAC file of a row; thread-safe. Raises `AudioError` if it cannot be read."""
        for index in self.indexes:
            if row < len(index):
                break
            row -= len(index)
        try:
            return index.audio.read(row)
        except DatasetError:
            raise AudioError("the audio cannot be read") from None

    def entry(self, row: int) -> dict[str, Any]:
        """What a page shows of a row, without its audio."""
        names = ("id", "text", "speaker_id", "dialect", "split", "seconds")
        return {name: self.table[name][row].as_py() for name in names}


def read_rows(root: Path, splits: Collection[str] | None = None) -> Rows:
    """Read the index of every split, or of some.

    Raises:
        DatasetError: There is no built dataset, it has no rows, or a shard is damaged.
    """
    names = {shard.keys["split"] for shard in find_shards(root)}
    names &= names if splits is None else {*splits}
    indexes = []
    for name in sorted(names, key=lambda name: (order(name), name)):
        try:
            indexes.append(DanishAsrDataset(root).read_index(name))
        except DatasetError as error:
            hint = f"`danish-asr verify {root}` lists all faults of a dataset"
            raise DatasetError(f"{error}; {hint}") from None
    if not indexes:
        raise DatasetError(f"{root}: no rows of {', '.join(splits or ())}")
    table = pa.concat_tables(map(_columns, indexes))
    corpora, speakers = (table[name].to_pylist() for name in ("corpus", "speaker_id"))
    persons = persons_of(corpora, speakers, share_people_of(root))
    return Rows(tuple(indexes), table.append_column("person", pa.array(persons, pa.string())))


def order(split: str) -> int:
    """The place of a split in tables."""
    return SPLITS.index(split) if split in SPLITS else len(SPLITS)


def _columns(index: Index) -> pa.Table:
    table = index.rows.select(*TEXT, "corpus", "split", "language").to_arrow()
    for name in set(METADATA_COLUMNS) - {"speaker_id"}:
        place = table.column_names.index(name)
        table = table.set_column(place, name, pc.fill_null(table[name], UNKNOWN))
    return table.append_column("seconds", pa.array(index.lengths / SAMPLE_RATE))


class Group(NamedTuple):
    """Sums over the rows with these values."""

    names: tuple[str, ...] = ()
    hours: float = 0.0
    rows: int = 0
    speakers: int = 0


def groups(table: pa.Table, *keys: str) -> list[Group]:
    """Sums per combination of values that occurs, in the order of tables."""
    sums = [("seconds", "sum"), ("id", "count"), ("person", "count_distinct")]
    summed = table.select([*keys, *(name for name, _ in sums)]).group_by(keys).aggregate(sums)
    made = [
        Group(
            names=tuple(line[key] for key in keys),
            hours=line["seconds_sum"] / 3600,
            rows=line["id_count"],
            speakers=line["person_count_distinct"],
        )
        for line in summed.to_pylist()
    ]
    return sorted(made, key=lambda group: [_place(name) for name in group.names])


def _place(name: str) -> tuple[bool, int, str]:
    return name == UNKNOWN, order(name), name


class Line(NamedTuple):
    """A group of the dataset with its hours per split, and what it lacks to be learnt or scored."""

    name: str
    rows: int
    speakers: int
    test_speakers: int
    hours: dict[str, float]
    lacks: str  # empty if nothing


def lines(table: pa.Table, key: str) -> list[Line]:
    """A line per value of a column that occurs.

    What the whole dataset lacks, a split or hours or speakers, is not said of each group.
    """
    parts = defaultdict[str, dict[str, Group]](dict)
    for group in groups(table, key, "split"):
        parts[group.names[0]][group.names[1]] = group
    of_split = {group.names[0]: group for group in groups(table, "split")}
    resolvable = of_split.get("test", Group()).speakers >= MIN_SPEAKERS
    made = []
    for group in groups(table, key):
        (name,) = group.names
        own = parts[name]
        speakers = own.get("test", Group()).speakers
        lacks = [
            f"no {split} data" for split in ("train", "test") if split in of_split.keys() - own
        ]
        if resolvable and 0 < speakers < MIN_SPEAKERS:
            lacks.append(f"fewer than {MIN_SPEAKERS} test speakers")
        faults = "" if name == UNKNOWN else ", ".join(lacks)
        hours = {split: part.hours for split, part in own.items()}
        made.append(Line(name, group.rows, group.speakers, speakers, hours, faults))
    return made


def has_values(table: pa.Table, key: str) -> bool:
    """Whether a column has a known value."""
    return bool({*table[key].unique().to_pylist()} - {None, UNKNOWN})


def vocabulary(rows: Rows) -> list[dict[str, Any]]:
    """Words, distinct words and the share that train lacks, per split."""
    lower = pc.utf8_lower(rows.table["text"])
    plain = pc.replace_substring_regex(lower, r"[^\p{L}\p{M}\p{N}]+", " ")
    made = []
    train: Counter[str] = Counter()
    for index in rows.indexes:  # train comes first
        own = plain.filter(pc.equal(rows.table["split"], index.name))
        counts = Counter(" ".join(own.to_pylist()).split())
        new = sum(count for word, count in counts.items() if word not in train)
        unseen = new / counts.total() if train and counts else None
        line = {"words": counts.total(), "distinct": len(counts), "unseen": unseen}
        made.append({"split": index.name, **line})
        if index.name == "train":
            train = counts
    return made


def characters(texts: pa.ChunkedArray) -> list[tuple[str, str, int]]:
    """Each character of raw texts with its Unicode name and count, the rarest first."""
    counts: Counter[str] = Counter()
    for chunk in texts.chunks:
        counts.update("".join(chunk.to_pylist()))
    return [
        (char, f"U+{ord(char):04X} {unicodedata.name(char, '')}", number)
        for char, number in sorted(counts.items(), key=lambda item: (item[1], item[0]))
    ]


def reasons(path: Path) -> list[tuple[str, str, int]]:
    """Reason, dialect and rows of the ledger, the most frequent first."""
    columns = ["reason", "dialect"]
    counted = _read(path, columns).group_by(columns).aggregate([([], "count_all")])
    made = [
        (line["reason"], line["dialect"] or UNKNOWN, line["count_all"])
        for line in counted.to_pylist()
    ]
    return sorted(made, key=lambda line: (-line[2], line))


def suspects(path: Path, rows: Rows) -> dict[str, list[tuple[int, str]]]:
    """The rows of the conversion's list, and what was measured, by reason, most frequent first."""
    listed = defaultdict[str, list[tuple[int, str]]](list)
    for line in _read(path, ["reason", "corpus", "id", "value"]).to_pylist():
        row = rows.find(line["corpus"], line["id"])
        if row is not None:
            listed[line["reason"]].append((row, f"{line['value']:.3g}"))
    return dict(sorted(listed.items(), key=lambda item: -len(item[1])))


def _read(path: Path, columns: list[str]) -> pa.Table:
    try:
        return pq.read_table(path, columns=columns).select(columns)
    except (OSError, KeyError, pa.ArrowException) as error:
        raise DatasetError(f"{path}: {error}; convert the dataset again") from error


class Clips:
    """Audio as ``data:`` URLs, each row's once, until the page is full.

    A clip that cannot be heard is left out, with its reason. Without ``audio`` there are no clips.
    """

    def __init__(self, rows: Rows, *, audio: bool = True) -> None:
        self.rows = rows
        self._audio = audio
        self._embedded: set[int] = set()
        self._size = 0  # bytes
        self._left_out: dict[Hashable, str] = {}

    @property
    def embedded(self) -> int:
        """How many clips the page holds."""
        return len(self._embedded)

    @property
    def left_out(self) -> list[str]:
        """A line per reason for which clips are left out, with their number."""
        return left_out_lines(self._left_out.values())

    def leave_out(self, clip: Hashable, reason: str) -> None:
        """Count a clip, which any value names, as left out."""
        self._left_out[clip] = reason

    def entry(self, row: int, value: str = "") -> dict[str, Any]:
        """Return what the page shows of a row, with its audio or, if that is above, a link."""
        is_above = row in self._embedded
        entry = self.rows.entry(row)
        entry |= {"row": row, "value": value, "url": "", "note": "", "above": is_above}
        if is_above or not self._audio:
            return entry
        try:
            audio, note = self._clip(row, entry["seconds"])
        except AudioError as error:
            self.leave_out(row, str(error))
            return entry | {"note": str(error)}
        self._size += len(audio)
        self._embedded.add(row)
        return entry | {"url": audio_url(audio), "note": note}

    def _clip(self, row: int, seconds: float) -> tuple[bytes, str]:
        """Return the audio of a row for the page, and a note on it.

        Raises:
            AudioError: It cannot be heard, or the page has no room for it.
        """
        audio = self.rows.audio(row)
        note = ""
        if seconds > MAX_CLIP_SECONDS:
            audio = encode_flac(resampled(*decode(audio, seconds=MAX_CLIP_SECONDS)))
            note = f"its first {MAX_CLIP_SECONDS:g} s"
        else:
            decode(audio)  # else a browser would be the first to find that it cannot
        if self._size + len(audio) > MAX_PAGE_BYTES:
            raise AudioError(f"the page is full, with {MAX_PAGE_BYTES / 1e6:g} MB of audio")
        return audio, note
