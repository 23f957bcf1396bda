"""What a conversion read, in lines for people: columns, dialects, speakers and splits.

Comes in: all rows and the ledger. Goes out: lines for ``manifest.json`` and the terminal.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from danish_asr.base.schema import SPLITS
from danish_asr.corpus import DANISH
from danish_asr.corpus.columns import COLUMNS
from danish_asr.corpus.people import DIALECTS, GENDERS, alike
from danish_asr.corpus.rows import Source, most_frequent
from danish_asr.corpus.task import LEFT_OUT

_IN_EACH_ROW: Final = {"split", "id", "start"}  # named only if they are read from a column
_SIGNS: Final = {
    "texts with brackets": r"[\[(]",
    "texts within quotes": r'^".*"$',
}
"""What people should know of texts, and what finds it."""
_UNKNOWN: Final = "no known {}, kept as it is"
_READ_AS: Final = 30  # lines about values that were read as others
_EXAMPLES: Final = 3  # names in a line


def summary_of(
    source: Source, rows: pa.Table, ledger: pa.Table, rates: Mapping[str, int], language: str
) -> list[str]:
    """The summary of the rows that are not in the ledger; ``rates`` are rows by sample rate."""
    dropped = pc.binary_join_element_wise(ledger["source"], ledger["row"].cast(pa.string()), "\t")
    places = pc.binary_join_element_wise(rows["file"], rows["row"].cast(pa.string()), "\t")
    written = rows.filter(pc.invert(pc.is_in(places, dropped.combine_chunks())))
    read_as = _read_as(written, language)
    lines = [*_columns(source, written), *read_as[:_READ_AS]]
    if len(read_as) > _READ_AS:
        lines.append(f"and {len(read_as) - _READ_AS:,} more such values")
    if source.ignored:
        lines.append(f"not read: {', '.join(source.ignored)} (--column OURS=THEIRS takes one)")
    counts = dict(source.counts)
    for what, sign in _SIGNS.items():
        counts[what] = pc.sum(pc.match_substring_regex(written["text"], sign)).as_py() or 0
    lines += [f"{what}: {count:,}" for what, count in counts.items() if count]
    for rate in sorted(rates, key=int):
        lines.append(f"sample rate of the source: {int(rate):,} Hz ({rates[rate]:,} rows)")
    lines += _of_speakers(source, written)
    if splits := "; ".join(_splits(written)):
        lines.append(splits)
    return lines


def left_out(suspects: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """How much sound the given ends of rows leave out, by the rows of ``suspects.parquet``."""
    seconds = [row["value"] for row in suspects if row["reason"] == LEFT_OUT]
    if seconds:
        yield (
            f"not in the dataset: {sum(seconds):,.1f} s of sound after the given end of "
            f"{len(seconds):,} rows. If these ends were rounded, --column seconds= (or end=) takes "
            "the recordings to their ends"
        )


def _columns(source: Source, rows: pa.Table) -> Iterator[str]:
    """How many rows have a value in each column, and the values that occur more than once."""
    for column in COLUMNS:
        name = column.name
        theirs = f", read from {source.columns[name]}" if name in source.columns else ""
        if not column.type and theirs:
            yield f"{name}{theirs}"
        if not column.read or not column.type or (name in _IN_EACH_ROW and not theirs):
            continue
        values = rows[name].drop_null()
        if pa.types.is_floating(values.type):  # differences of times
            values = pc.round(values, 3)
        if name == "age":  # of a decade the group alone is known
            values = pc.coalesce(rows["age"].cast(pa.string()), rows["age_group"]).drop_null()
        if name == "audio" and not len(values):
            values = rows["id"]  # it is embedded
        if not len(values) and not theirs:
            continue
        frequent = most_frequent(values, least=2)
        line = (
            f"{name}{theirs}: {len(values):,} rows, {pc.count_distinct(values).as_py():,} distinct"
        )
        yield f"{line}; most frequent: {frequent}" if frequent else line


def _of_speakers(source: Source, rows: pa.Table) -> Iterator[str]:
    """Names that may be of several people, and files that may be the speakers that are missing."""
    named = rows.filter(pc.and_(pc.is_valid(rows["speaker_id"]), pc.is_valid(rows["dialect"])))
    own = named.group_by("speaker_id", use_threads=False).aggregate([("dialect", "distinct")])
    several = own.filter(pc.greater(pc.list_value_length(own["dialect_distinct"]), 1))
    if len(several):
        firsts = sorted(zip(*several.to_pydict().values(), strict=True))[:_EXAMPLES]
        such = ", ".join(f"{name} ({', '.join(sorted(dialects))})" for name, dialects in firsts)
        yield (
            f"speakers of several dialects: {len(several):,}, such as {such}; if one name is that "
            "of different people, name them apart"
        )
    yield from alike(rows["speaker_id"].drop_null().unique().to_pylist())
    # Texts beside recordings can be named by their speaker; tables, which have a text column, not.
    is_beside = "text" not in source.columns and source.columns.get("speaker_id") == "speaker"
    if is_beside and not pc.count(rows["speaker_id"]).as_py():
        names = {PurePosixPath(file).stem for file in rows["file"].unique().to_pylist()}
        if len(names) > 1:
            yield (
                f"no speakers, but files of {len(names):,} names: if these are the speakers, "
                "--column speaker_id=file takes them"
            )


def _splits(rows: pa.Table) -> Iterator[str]:
    """How many rows and speakers each split has, and the dialects of others that it lacks."""
    dialects = {*rows["dialect"].drop_null().unique().to_pylist()}
    for split in SPLITS:
        own = rows.filter(pc.equal(rows["split"], split))
        if len(own):
            speakers = pc.count_distinct(own["speaker_id"]).as_py()
            lacks = sorted(dialects.difference(own["dialect"].unique().to_pylist()))
            if len(lacks) > _EXAMPLES:
                lacks = [f"{len(lacks)} dialects"]
            none = f", none of {', '.join(lacks)}" if lacks else ""
            yield f"{split}: {len(own):,} rows, {speakers:,} speakers{none}"


def _read_as(rows: pa.Table, language: str) -> list[str]:
    """Names of dialects that became others, and of dialects and genders that nobody knows."""
    lines = []
    counted = rows.group_by(["sub_dialect", "dialect"]).aggregate([([], "count_all")])
    for theirs, read, count in zip(*counted.to_pydict().values(), strict=True):
        is_unknown = language == DANISH and read not in DIALECTS
        made = _UNKNOWN.format("dialect") if is_unknown else read
        if theirs not in {None, made}:
            line = f"dialect: {theirs} is read as {made} ({count:,} rows)"
            lines.append((not is_unknown, -count, line))
    for gender, count in Counter(rows["gender"].drop_null().to_pylist()).items():
        if gender not in GENDERS:
            line = f"gender: {gender} is read as {_UNKNOWN.format('gender')} ({count:,} rows)"
            lines.append((False, -count, line))
    return [line for *_, line in sorted(lines)]
