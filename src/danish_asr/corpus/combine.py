"""Combine built datasets to one, without copying audio.

The dataset has a hard link to each shard of its parts, below the same corpus and split, and small
files of its own; only shards of which ``--without`` takes rows are written anew. It can be moved,
and its parts deleted. The same command makes it anew, from the parts as they are then.
"""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import sentencepiece

from danish_asr.base.errors import ConfigError, DatasetError
from danish_asr.base.files import publish, publish_text, sha256_of
from danish_asr.base.progress import track
from danish_asr.base.schema import (
    CARDS_DIR,
    INVENTORY_FILE,
    LEDGER_FILE,
    LEDGER_SCHEMA,
    SAMPLE_RATE,
    SUSPECTS_FILE,
)
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.cards import complete
from danish_asr.corpus.convert import OURS, locked
from danish_asr.corpus.rows import is_listed, read_without
from danish_asr.corpus.shard import PARQUET_FORMAT
from danish_asr.corpus.shards import Inventory, ShardEntry, read_inventory

MARK: Final = ".combine"
"""A file that an unfinished combination has, with the name of the dataset."""


class _Part(NamedTuple):
    """A built dataset that is combined with others."""

    root: Path
    inventory: Inventory
    rows: pa.Table  # corpus, id, source_id, dialect and the path of the shard

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
    _check_out(out, parts, name)
    sources = sorted((_read_part(root) for root in parts), key=lambda part: part.name)
    _check_parts(sources, name)
    ledger = pa.concat_tables(
        [_ledger(part, pq.read_table(part.root / LEDGER_FILE)) for part in sources]
    )
    suspects = pa.concat_tables([pq.read_table(part.root / SUSPECTS_FILE) for part in sources])
    listed, gone = None, LEDGER_SCHEMA.empty_table()
    if without:
        listed = read_without(without)
        gone = _left_out(sources, listed, f"listed in {without.name}")
        suspects = suspects.filter(pc.invert(is_listed(suspects, gone.select(["corpus", "id"]))))
    digests = [(part.name, sha256_of(part.root / INVENTORY_FILE)) for part in sources]
    with locked(out):
        _check_out(out, parts, name)
        publish_text(out / MARK, name)
        for place in (INVENTORY_FILE, *OURS):
            if (out / place).is_dir():
                shutil.rmtree(out / place)
            (out / place).unlink(missing_ok=True)
        inventory = complete(
            out,
            name=name,
            source=", ".join(part.name for part in sources),
            key=sha256(repr((name, digests, listed and listed.to_pylist())).encode()).hexdigest(),
            source_rows=sum(part.inventory.source_rows for part in sources),
            shards=_place_shards(sources, out, gone),
            ledger=pa.concat_tables([ledger, gone]),
            suspects=suspects,
            characters=set().union(*map(_characters, sources)),
            summary={},
            parts=[
                {"name": part.name, "source": part.inventory.source, "sha256": digest}
                for part, (_, digest) in zip(sources, digests, strict=True)
            ],
        )
        (out / MARK).unlink()
    return inventory


def _check_out(out: Path, parts: Sequence[Path], name: str) -> None:
    """Refuse a directory that holds anything but a combination of this name."""
    for part in parts:
        if part.resolve() in {out.resolve(), *out.resolve().parents}:
            raise DatasetError(f"{out}: is {part}, or inside it; choose another --out")
    own = ""
    if (out / MARK).is_file():
        own = (out / MARK).read_text(encoding="utf-8")
    elif (out / INVENTORY_FILE).is_file() and (inventory := read_inventory(out)).parts:
        own = inventory.name
    others = sorted(path.name for path in out.glob("[!.]*"))
    if others and own != name:
        what = f"the combined dataset '{own}'" if own else others[0]
        raise DatasetError(f"{out}: holds {what}; choose another --out, a new folder")


def _read_part(root: Path) -> _Part:
    inventory = read_inventory(root)
    tables = []
    for entry in inventory.shards:
        try:
            with pq.ParquetFile(root / entry.path) as parquet:
                rows = parquet.read(["id", "source_id", "dialect"])
        except (OSError, pa.ArrowException) as error:
            raise DatasetError(
                f"{root}: is damaged ({error}); `danish-asr verify` lists all faults"
            ) from None
        for name, value in (("corpus", entry.partition("corpus")), ("path", entry.path)):
            rows = rows.append_column(name, pa.repeat(value, len(rows)))
        tables.append(rows)
    return _Part(root, inventory, pa.concat_tables(tables) if tables else pa.table({}))


def _check_parts(parts: Sequence[_Part], name: str) -> None:
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
    rows = pa.concat_tables([part.rows.select(["corpus", "id"]) for part in parts if part.rows])
    counted = rows.group_by(["corpus", "id"]).aggregate([([], "count_all")])
    shared = counted.filter(pc.greater(counted["count_all"], 1))
    if len(shared):
        first = " ".join(shared.select(["corpus", "id"]).to_pylist()[0].values())
        raise DatasetError(
            f"{' and '.join(names)} share {len(shared):,} rows, such as {first}. Leave a part out "
            "whose rows another one has; if they are other recordings, convert one part again with "
            "--corpus"
        )


def _left_out(parts: Sequence[_Part], listed: pa.Table, reason: str) -> pa.Table:
    """A ledger of the rows of the parts that a list names."""
    ledgers = []
    for part in parts:
        rows = part.rows.filter(is_listed(part.rows, listed))
        places = pc.extract_regex(rows["source_id"], r"^(?P<source>.*):(?P<row>\d+)$")
        columns = [pc.struct_field(places, name) for name in ("source", "row")]
        columns += [rows[name] for name in ("corpus", "id", "dialect")]
        columns.append(pa.repeat(reason, len(rows)))
        ledgers.append(_ledger(part, pa.table(columns, LEDGER_SCHEMA.names)))
    ledger = pa.concat_tables(ledgers)
    if not len(ledger):
        raise DatasetError(
            f"--without: none of its {len(listed):,} rows is in the parts, such as "
            f"{listed['id'][0].as_py()!r}; expected the columns corpus and id"
        )
    return ledger


def _ledger(part: _Part, rows: pa.Table) -> pa.Table:
    """Rows for the ledger; a source gets the name of its part before it."""
    names = pc.binary_join_element_wise(part.name, rows["source"], "/")
    return rows.set_column(rows.column_names.index("source"), "source", names).cast(LEDGER_SCHEMA)


def _place_shards(parts: Sequence[_Part], out: Path, gone: pa.Table) -> list[ShardEntry]:
    """Link all shards; one of which rows are left out is written anew."""
    pairs = [(part, entry) for part in parts for entry in part.inventory.shards]
    entries = []
    for part, entry in track(pairs, "combining", len(pairs)):
        folder, _, file = entry.path.rpartition("/")
        own = replace(entry, path=f"{folder}/{part.name}~{file}")  # a name has no ~
        source, target = part.root / entry.path, out / own.path
        rows = part.rows.filter(pc.equal(part.rows["path"], entry.path))
        is_gone = is_listed(rows, gone.select(["corpus", "id"]))
        if pc.any(is_gone).as_py():
            own = _rewritten(source, target, own, pc.invert(is_gone))
        else:
            _link(source.resolve(), target)
        if own.rows:
            entries.append(own)
    return entries


def _rewritten(source: Path, target: Path, entry: ShardEntry, kept: pa.ChunkedArray) -> ShardEntry:
    """Write the rows of a shard that are ``kept``; returns its entry."""
    if not pc.any(kept).as_py():
        return replace(entry, rows=0)
    samples = place = 0
    with (
        pq.ParquetFile(source) as parquet,
        publish(target) as stream,
        pq.ParquetWriter(stream, parquet.schema_arrow, **PARQUET_FORMAT) as writer,
    ):
        for number in range(parquet.num_row_groups):
            group = parquet.read_row_group(number)
            rest = group.filter(kept.slice(place, len(group)))
            place += len(group)
            if len(rest):
                writer.write_table(rest)
                samples += pc.sum(rest["audio_size"]).as_py()
    rows, digest = pc.sum(kept).as_py(), sha256_of(target)
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
