"""Combine built datasets to one, without copying audio.

The dataset has a hard link to each shard of its parts, below the same corpus and split, and small
files of its own; only shards of which ``--without`` takes rows are written anew. It can be moved,
and its parts deleted. The same command makes it anew, from the parts as they are then.
"""

import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import sentencepiece

from danish_asr.base.errors import ConfigError, DatasetError
from danish_asr.base.files import publish, sha256_of
from danish_asr.base.progress import track
from danish_asr.base.schema import (
    CARDS_DIR,
    INVENTORY_FILE,
    LEDGER_FILE,
    LEDGER_SCHEMA,
    SAMPLE_RATE,
    SUSPECTS_FILE,
    WORK_DIR,
)
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.cards import complete
from danish_asr.corpus.convert import OURS, claim, finished, locked
from danish_asr.corpus.rows import LISTED, is_listed, read_without
from danish_asr.corpus.shard import PARQUET_FORMAT
from danish_asr.corpus.shards import Inventory, ShardEntry, read_inventory
from danish_asr.corpus.verify import repeated_ids

_ROWS: Final = pa.schema(
    [(name, pa.string()) for name in ("id", "source_id", "dialect", "corpus", "part", "path")]
)
"""What is read of the parts: their names, and the paths of their shards."""


class _Part(NamedTuple):
    """A built dataset that is combined with others."""

    root: Path
    inventory: Inventory

    @property
    def name(self) -> str:
        """The name of its card."""
        return self.inventory.name


def combine(
    parts: Sequence[Path], out: Path, *, name: str, without: Path | None = None
) -> Inventory:
    """Combine datasets below ``out``; ``without`` is a table of corpus and id, rows to leave out.

    Raises:
        ConfigError: The name is impossible.
        DatasetError: A part is unfinished, parts share a name or a row, or ``out`` holds something
            else.
        SourceError: The list cannot be read.
    """
    ConvertOptions(name=name)  # checks it
    sources = [_Part(root, read_inventory(root)) for root in parts]
    sources.sort(key=lambda part: part.name)
    rows = pa.concat_tables([_ROWS.empty_table(), *map(_rows_of, sources)])
    _check_parts(sources, rows, name)
    gone, dropped = list[dict[str, Any]](), LEDGER_SCHEMA.empty_table()
    if without:
        gone = rows.filter(is_listed(rows, read_without(without))).to_pylist()
        if not gone:
            raise DatasetError(
                f"--without: {without} lists no row of the parts; expected their corpus and id"
            )
        reason = f"{LISTED} {without.name}"
        dropped = pa.Table.from_pylist([_dropped(row, reason) for row in gone], LEDGER_SCHEMA)
    suspects = pa.concat_tables([pq.read_table(part.root / SUSPECTS_FILE) for part in sources])
    is_gone = is_listed(suspects, {(row["corpus"], row["id"]) for row in gone})
    key = f"combine {name}"
    with locked(out):
        claim(out, key, anew=finished(out, key) is not None)
        for place in (INVENTORY_FILE, *OURS):
            if (out / place).is_dir():
                shutil.rmtree(out / place)
            (out / place).unlink(missing_ok=True)
        inventory = complete(
            out,
            name=name,
            source=", ".join(part.name for part in sources),
            key=key,
            source_rows=sum(part.inventory.source_rows for part in sources),
            shards=_place_shards(sources, out, gone),
            ledger=pa.concat_tables([*map(_ledger, sources), dropped]),
            suspects=suspects.filter(pc.invert(is_gone)),
            characters=set().union(*map(_characters, sources)),
            summary={},
            parts=[part.name for part in sources],
        )
        shutil.rmtree(out / WORK_DIR)
    return inventory


def _rows_of(part: _Part) -> pa.Table:
    """The rows of a part, of `_ROWS`."""
    tables = [_ROWS.empty_table()]
    for entry in part.inventory.shards:
        try:
            with pq.ParquetFile(part.root / entry.path) as parquet:
                rows = parquet.read(["id", "source_id", "dialect"])
        except (OSError, pa.ArrowException) as error:
            raise DatasetError(
                f"{part.root}: is damaged ({error}); `danish-asr verify` lists all faults"
            ) from None
        for value in (entry.partition("corpus"), part.name, entry.path):
            rows = rows.append_column(_ROWS.names[rows.num_columns], pa.repeat(value, len(rows)))
        tables.append(rows.cast(_ROWS))
    return pa.concat_tables(tables)


def _check_parts(parts: Sequence[_Part], rows: pa.Table, name: str) -> None:
    """Raise if parts share a name or a row, or have several languages."""
    names = [part.name for part in parts]
    for own in names:
        if names.count(own) > 1:
            raise DatasetError(
                f"several parts have the same name '{own}'; convert one again with another --name"
            )
        if own == name:  # fairseq2 refuses two cards of one name
            raise ConfigError([f"--name: {name} is the name of a part; choose another"])
    shards = [shard for part in parts for shard in part.inventory.shards]
    if len(languages := {shard.partition("language") for shard in shards}) > 1:
        raise DatasetError(f"a dataset has one language; these have {', '.join(sorted(languages))}")
    if shared := repeated_ids(rows):
        raise DatasetError(
            f"{' and '.join(names)} share {len(shared):,} rows, such as {shared[0]}. Leave a part "
            "out whose rows another one has; if they are other recordings, convert one part again "
            "with --corpus"
        )


def _dropped(row: Mapping[str, Any], reason: str) -> dict[str, Any]:
    """The row of the ledger for a row of a part."""
    source, _, number = row["source_id"].rpartition(":")
    about = {name: row[name] for name in ("corpus", "id", "dialect")}
    return about | {"source": f"{row['part']}/{source}", "row": int(number), "reason": reason}


def _ledger(part: _Part) -> pa.Table:
    """The ledger of a part; a source gets the name of the part before it."""
    ledger = pq.read_table(part.root / LEDGER_FILE)
    sources = pc.binary_join_element_wise(part.name, ledger["source"], "/")
    return ledger.set_column(0, LEDGER_SCHEMA.field("source"), sources)


def _place_shards(
    parts: Sequence[_Part], out: Path, gone: Sequence[Mapping[str, Any]]
) -> list[ShardEntry]:
    """Link all shards; one of which rows are left out is written anew."""
    ids = defaultdict[tuple[str, str], set[str]](set)  # by part and shard
    for row in gone:
        ids[row["part"], row["path"]].add(row["id"])
    pairs = [(part, entry) for part in parts for entry in part.inventory.shards]
    entries = []
    for part, entry in track(pairs, "combining", len(pairs)):
        folder, _, file = entry.path.rpartition("/")
        own = replace(entry, path=f"{folder}/{part.name}~{file}")  # a name has no ~
        if (part.name, entry.path) in ids:
            own = _rewritten(part.root / entry.path, out, own, ids[part.name, entry.path])
        else:
            _link((part.root / entry.path).resolve(), out / own.path)
        if own.rows:
            entries.append(own)
    return entries


def _rewritten(source: Path, out: Path, entry: ShardEntry, gone: set[str]) -> ShardEntry:
    """Write a shard without these ids; returns its entry."""
    target = out / entry.path
    rows = samples = 0
    with (
        pq.ParquetFile(source) as parquet,
        publish(target) as stream,
        pq.ParquetWriter(stream, parquet.schema_arrow, **PARQUET_FORMAT) as writer,
    ):
        for number in range(parquet.num_row_groups):
            group = parquet.read_row_group(number)
            rest = group.filter(pa.array([own not in gone for own in group["id"].to_pylist()]))
            if len(rest):
                writer.write_table(rest)
                rows += len(rest)
                samples += pc.sum(rest["audio_size"]).as_py()
    digest = sha256_of(target)
    if not rows:
        target.unlink()
    return replace(entry, rows=rows, seconds=samples / SAMPLE_RATE, sha256=digest)


def _link(source: Path, target: Path) -> None:
    """Link a file, or copy it to another file system."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)


def _characters(part: _Part) -> set[str]:
    """The characters of a part's tokenizer; none if it has no training rows."""
    path = part.root / CARDS_DIR / f"{part.name}_char.model"
    model = sentencepiece.SentencePieceProcessor()
    with suppress(OSError):
        model.LoadFromSerializedProto(path.read_bytes())
        pieces = map(model.id_to_piece, range(model.get_piece_size()))
        return {piece for piece in pieces if len(piece) == 1}
    return set()
