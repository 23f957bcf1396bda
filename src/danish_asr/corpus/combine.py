"""Combine built datasets to one, without copying audio.

The dataset has a hard link to each shard of its parts, below the same corpus and split, and small
files of its own; only shards of which ``--without`` takes rows are written anew. It can be moved,
and its parts deleted. The same command makes it anew, from the parts as they are then.
"""

import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import sentencepiece

from danish_asr.base.errors import ConfigError, DatasetError
from danish_asr.base.files import publish, refuse_overwriting, sha256_of
from danish_asr.base.progress import track
from danish_asr.base.schema import (
    CARDS_DIR,
    LEDGER_FILE,
    LEDGER_SCHEMA,
    SAMPLE_RATE,
    SUSPECTS_FILE,
)
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.cards import complete
from danish_asr.corpus.convert import claimed
from danish_asr.corpus.inventory import (
    Inventory,
    ListedShard,
    check_listed,
    content_of,
    files_of,
    read_inventory,
)
from danish_asr.corpus.rows import LISTED, is_listed, names_of_no_row, read_without
from danish_asr.corpus.task import PARQUET_FORMAT
from danish_asr.corpus.verify import repeated_ids


class _Part(NamedTuple):
    """A built dataset that is combined with others."""

    name: str  # of its card
    root: Path
    inventory: Inventory


def combine(
    parts: Sequence[Path], out: Path, *, name: str, without: Path | None = None
) -> Inventory:
    """Combine datasets below ``out``; ``without`` is a table of corpus and id, rows to leave out.

    Raises:
        ConfigError: The name is impossible, or a part or the list is in what ``out`` will have.
        DatasetError: A part is unfinished, parts share a name or a row, or have none, or ``out``
            holds something else.
        SourceError: The list cannot be read, or all its ids of a corpus are of no row.
    """
    ConvertOptions(name=name)  # checks it
    read = [path for part in parts for path in content_of(part)]
    read += [without] if without else []
    refuse_overwriting(content_of(out), read)
    inventories = [(root, read_inventory(root)) for root in parts]
    for root, inventory in inventories:
        check_listed(root, inventory, files_of(root))
    sources = [_Part(inventory.name, root, inventory) for root, inventory in inventories]
    sources.sort(key=lambda part: part.name)
    tables = [table for part in sources for table in _rows_of(part)]
    if not tables:
        raise DatasetError(f"{', '.join(map(str, parts))}: no part has a row")
    rows = pa.concat_tables(tables)
    _check_parts(sources, rows, name)
    listed = read_without(without) if without else set()
    gone = rows.filter(is_listed(rows, listed))
    reason = f"{LISTED} {without.name}" if without else ""
    suspects = pa.concat_tables(pq.read_table(part.root / SUSPECTS_FILE) for part in sources)
    # Before anything is removed: it refuses names of no row.
    summary = names_of_no_row(rows, listed, without) if without else []
    with claimed(out, f"combine {name}"):
        for path in content_of(out):
            if path.is_dir():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)
        return complete(
            out,
            name=name,
            source=", ".join(part.name for part in sources),
            key=f"combine {name}",
            source_rows=sum(part.inventory.source_rows for part in sources),
            shards=_place_shards(sources, out, gone),
            ledger=pa.concat_tables([*map(_ledger, sources), _dropped(gone, reason)]),
            suspects=suspects.filter(pc.invert(is_listed(suspects, listed))),
            characters=set().union(*map(_characters, sources)),
            summary=summary,
            share_people=[own for part in sources for own in part.inventory.share_people],
        )


def _rows_of(part: _Part) -> Iterator[pa.Table]:
    """The rows of each shard of a part, with corpus, the part's name and the shard's path."""
    schema = pa.schema([(name, pa.string()) for name in ("id", "source_id", "dialect")])
    for entry in part.inventory.shards:
        try:
            with pq.ParquetFile(part.root / entry.path) as parquet:
                rows = parquet.read(schema.names).cast(schema)
        except (OSError, pa.ArrowException) as error:
            raise DatasetError(
                f"{part.root}: is damaged ({error}); `danish-asr verify` lists all faults"
            ) from None
        place = {"corpus": entry.partition("corpus"), "part": part.name, "path": entry.path}
        for name, value in place.items():
            rows = rows.append_column(name, pa.repeat(value, len(rows)))
        yield rows


def _check_parts(parts: Sequence[_Part], rows: pa.Table, name: str) -> None:
    """Raise if parts share a name or a row, or have several languages."""
    names = [part.name for part in parts]
    if len({*names}) < len(names):
        raise DatasetError(
            f"several parts have the same name: {', '.join(names)}; convert one again with another "
            "--name"
        )
    if name in names:  # fairseq2 refuses two cards of one name
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


def _ledger(part: _Part) -> pa.Table:
    """The ledger of a part; a source gets the name of the part before it."""
    ledger = pq.read_table(part.root / LEDGER_FILE)
    sources = pc.binary_join_element_wise(part.name, ledger["source"], "/")
    return ledger.set_column(0, LEDGER_SCHEMA.field("source"), sources)


def _dropped(gone: pa.Table, reason: str) -> pa.Table:
    """The ledger of rows of the parts that are left out."""
    dropped = []
    for row in gone.to_pylist():
        file, _, number = row["source_id"].rpartition(":")
        place = {"source": f"{row['part']}/{file}", "row": int(number), "reason": reason}
        dropped.append(row | place)
    return pa.Table.from_pylist(dropped, LEDGER_SCHEMA)


def _place_shards(parts: Sequence[_Part], out: Path, gone: pa.Table) -> Iterator[ListedShard]:
    """Link all shards; one of which rows are left out is written anew."""
    ids = defaultdict[tuple[str, str], list[str]](list)  # by part and shard
    for row in gone.to_pylist():
        ids[row["part"], row["path"]].append(row["id"])
    pairs = [(part, entry) for part in parts for entry in part.inventory.shards]
    for part, entry in track(pairs, "combining", len(pairs)):
        folder, _, file = entry.path.rpartition("/")
        own = replace(entry, path=f"{folder}/{part.name}~{file}")  # a name has no ~
        source, target = (part.root / entry.path).resolve(), out / own.path
        left_out = ids[part.name, entry.path]
        if not left_out:
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                target.hardlink_to(source)
            except OSError:  # another file system
                shutil.copyfile(source, target)
            yield own
        elif len(left_out) < entry.rows:
            yield _rewritten(source, target, own, left_out)


def _rewritten(source: Path, target: Path, entry: ListedShard, gone: Sequence[str]) -> ListedShard:
    """Write a shard without these ids; returns its entry."""
    samples = 0
    with (
        pq.ParquetFile(source) as parquet,
        publish(target) as stream,
        pq.ParquetWriter(stream, parquet.schema_arrow, **PARQUET_FORMAT) as writer,
    ):
        for number in range(parquet.num_row_groups):
            group = parquet.read_row_group(number)
            rest = group.filter(pc.invert(pc.is_in(group["id"], pa.array(gone))))
            if len(rest):
                writer.write_table(rest)
                samples += pc.sum(rest["audio_size"]).as_py()
    seconds, digest = samples / SAMPLE_RATE, sha256_of(target)
    return replace(entry, rows=entry.rows - len(gone), seconds=seconds, sha256=digest)


def _characters(part: _Part) -> set[str]:
    """The characters of a part's tokenizer; none if it has no training rows."""
    path = part.root / CARDS_DIR / f"{part.name}_char.model"
    if not path.is_file():
        return set()
    model = sentencepiece.SentencePieceProcessor(model_proto=path.read_bytes())
    pieces = map(model.id_to_piece, range(model.get_piece_size()))
    return {piece for piece in pieces if len(piece) == 1}
