"""Combine built datasets to one, without copying audio.

The dataset has a hard link to each shard of its parts, below the same corpus and split, and small
files of its own; only shards of which ``--without`` takes rows are written anew. It can be moved,
and its parts deleted. The same command makes it anew, from the parts as they are then.
"""

import shutil
from collections.abc import Iterator, Sequence
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
from danish_asr.corpus.convert import OURS, claim, locked
from danish_asr.corpus.rows import LISTED, Listed, is_listed, read_without
from danish_asr.corpus.shard import PARQUET_FORMAT
from danish_asr.corpus.shards import Inventory, ShardEntry, read_inventory
from danish_asr.corpus.verify import repeated_ids

_ROWS: Final = pa.schema(
    [(name, pa.string()) for name in ("id", "source_id", "dialect", "corpus", "path")]
)
"""What is read of the shards; ``path`` is that of the shard."""


class _Part(NamedTuple):
    """A built dataset that is combined with others."""

    root: Path
    inventory: Inventory
    rows: pa.Table  # of `_ROWS`

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
    sources = sorted(map(_read_part, parts), key=lambda part: part.name)
    _check_parts(sources, name)
    dropped: list[dict[str, Any]] = []
    if without:
        listed = read_without(without)
        dropped = [row for part in sources for row in _left_out(part, listed, without.name)]
        if not dropped:
            raise DatasetError(
                f"--without: {without} lists no row of the parts; expected their corpus and id"
            )
    gone: Listed = {(row["corpus"], row["id"]) for row in dropped}
    suspects = pa.concat_tables([pq.read_table(part.root / SUSPECTS_FILE) for part in sources])
    with locked(out):
        is_made_anew = (out / INVENTORY_FILE).is_file() and _is_combination(out, name)
        claim(out, f"combine {name}", anew=is_made_anew)
        for place in (INVENTORY_FILE, *OURS):
            if (out / place).is_dir():
                shutil.rmtree(out / place)
            (out / place).unlink(missing_ok=True)
        inventory = complete(
            out,
            name=name,
            source=", ".join(part.name for part in sources),
            key="",
            source_rows=sum(part.inventory.source_rows for part in sources),
            shards=_place_shards(sources, out, gone),
            ledger=pa.concat_tables(
                [*map(_ledger, sources), pa.Table.from_pylist(dropped, LEDGER_SCHEMA)]
            ),
            suspects=suspects.filter(pc.invert(is_listed(suspects, gone))),
            characters=set().union(*map(_characters, sources)),
            summary={},
            parts=[
                {
                    "name": part.name,
                    "source": part.inventory.source,
                    "sha256": sha256_of(part.root / INVENTORY_FILE),
                }
                for part in sources
            ],
        )
        shutil.rmtree(out / WORK_DIR)
    return inventory


def _is_combination(out: Path, name: str) -> bool:
    inventory = read_inventory(out)
    return bool(inventory.parts) and inventory.name == name


def _read_part(root: Path) -> _Part:
    inventory = read_inventory(root)
    tables = [_ROWS.empty_table()]
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
        tables.append(rows.select(_ROWS.names).cast(_ROWS))
    return _Part(root, inventory, pa.concat_tables(tables))


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
    if shared := repeated_ids(pa.concat_tables([part.rows for part in parts])):
        raise DatasetError(
            f"{' and '.join(names)} share {len(shared):,} rows, such as {shared[0]}. Leave a part "
            "out whose rows another one has; if they are other recordings, convert one part again "
            "with --corpus"
        )


def _left_out(part: _Part, listed: Listed, name: str) -> Iterator[dict[str, Any]]:
    """Rows of the ledger for those of a part that a list of this name has."""
    for row in part.rows.filter(is_listed(part.rows, listed)).to_pylist():
        source, _, number = row["source_id"].rpartition(":")
        about = {key: row[key] for key in ("corpus", "id", "dialect")}
        place = {"source": f"{part.name}/{source}", "row": int(number)}
        yield about | place | {"reason": f"{LISTED} {name}"}


def _ledger(part: _Part) -> pa.Table:
    """The ledger of a part; a source gets the name of the part before it."""
    ledger = pq.read_table(part.root / LEDGER_FILE)
    sources = pc.binary_join_element_wise(part.name, ledger["source"], "/")
    return ledger.set_column(0, LEDGER_SCHEMA.field("source"), sources)


def _place_shards(parts: Sequence[_Part], out: Path, gone: Listed) -> list[ShardEntry]:
    """Link all shards; one of which rows are left out is written anew."""
    pairs = [(part, entry) for part in parts for entry in part.inventory.shards]
    entries = []
    for part, entry in track(pairs, "combining", len(pairs)):
        folder, _, file = entry.path.rpartition("/")
        own = replace(entry, path=f"{folder}/{part.name}~{file}")  # a name has no ~
        source, target = part.root / entry.path, out / own.path
        is_gone = is_listed(part.rows.filter(pc.equal(part.rows["path"], entry.path)), gone)
        if pc.any(is_gone).as_py():
            own = _rewritten(source, target, own, pc.invert(is_gone))
        else:
            _link(source.resolve(), target)
        if own.rows:
            entries.append(own)
    return entries


def _rewritten(source: Path, target: Path, entry: ShardEntry, kept: pa.Array) -> ShardEntry:
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
