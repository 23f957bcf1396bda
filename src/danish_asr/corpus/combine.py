"""Combine built datasets to one, without copying audio.

The dataset has a hard link to each shard of its parts, below the same corpus and split, and small
files of its own; only shards of which ``--without`` takes rows are written anew. It can be moved,
and its parts deleted. The same command makes it anew, from the parts as they are then.
"""

import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import sentencepiece

from danish_asr.base.errors import ConfigError, DatasetError
from danish_asr.base.files import publish, publish_json, publish_text, sha256_of, sweep
from danish_asr.base.progress import track
from danish_asr.base.schema import (
    CARDS_DIR,
    INVENTORY_FILE,
    LEDGER_FILE,
    LEDGER_SCHEMA,
    SAMPLE_RATE,
    SUSPECTS_FILE,
    SUSPECTS_SCHEMA,
)
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.cards import write_small_files
from danish_asr.corpus.convert import OURS, dropped_counts, locked
from danish_asr.corpus.rows import is_listed, read_without
from danish_asr.corpus.shard import PARQUET_FORMAT
from danish_asr.corpus.shards import Inventory, ShardEntry, read_inventory

MARK: Final = ".combine"
"""A file that an unfinished combination has, with the name of the dataset."""


class _Part(NamedTuple):
    """A built dataset that is combined with others."""

    root: Path
    inventory: Inventory

    @property
    def name(self) -> str:
        """The name of its card."""
        return self.inventory.name


def combine(
    parts: Sequence[Path], out: Path, *, name: str, without: Path | None = None, copy: bool = False
) -> Inventory:
    """Combine datasets below ``out``; ``without`` is a table of corpus and id, rows to leave out.

    Raises:
        ConfigError: The name is impossible.
        DatasetError: A part is unfinished, parts share a name or a row, ``out`` holds something
            else, or shards cannot be linked to it (``copy`` copies them).
        SourceError: The list cannot be read.
    """
    ConvertOptions(name=name)  # checks it
    _check_out(out, parts, name)
    sources = _read_parts(parts, name)
    listed = read_without(without) if without else None
    with locked(out):
        _check_out(out, parts, name)
        publish_text(out / MARK, name)
        for place in (INVENTORY_FILE, *OURS):
            _remove(out / place)
        shards, left_out = _place_shards(sources, out, listed, without, copy=copy)
        ledger = _joined(sources, LEDGER_FILE, LEDGER_SCHEMA, "source")
        ledger = pa.concat_tables([ledger, *left_out])
        suspects = _joined(sources, SUSPECTS_FILE, SUSPECTS_SCHEMA, None)
        gone = pa.concat_tables([LEDGER_SCHEMA.empty_table(), *left_out])
        if gone:
            suspects = suspects.filter(
                pc.invert(is_listed(suspects, gone.select(["corpus", "id"])))
            )
        for place, table in ((LEDGER_FILE, ledger), (SUSPECTS_FILE, suspects)):
            with publish(out / place) as stream:
                pq.write_table(table, stream)
        own = [part.inventory for part in sources]
        digests = [(part.name, sha256_of(part.root / INVENTORY_FILE)) for part in sources]
        inventory = Inventory(
            name=name,
            source=", ".join(part.name for part in sources),
            key=sha256(repr((name, digests, listed and listed.to_pylist())).encode()).hexdigest(),
            source_rows=sum(inventory.source_rows for inventory in own),
            dropped=dropped_counts(ledger),
            suspects=dict(sorted(Counter(suspects["reason"].to_pylist()).items())),
            shards=sorted(shards, key=lambda shard: shard.path),
            ledger_sha256=sha256_of(out / LEDGER_FILE),
            suspects_sha256=sha256_of(out / SUSPECTS_FILE),
            summary={},
            parts=[
                {"name": part.name, "source": part.inventory.source, "sha256": digest}
                for part, (_, digest) in zip(sources, digests, strict=True)
            ],
        )
        write_small_files(out, inventory, _characters(sources))
        sweep(out)
        publish_json(out / INVENTORY_FILE, inventory.as_json())
        (out / MARK).unlink()
    return inventory


def _check_out(out: Path, parts: Sequence[Path], name: str) -> None:
    """Refuse a directory that holds anything but a combination of this name."""
    for part in parts:
        if part.resolve() in {out.resolve(), *out.resolve().parents}:
            raise DatasetError(f"{out}: is {part}, or inside it; choose another --out")
    if (out / MARK).is_file():
        own = (out / MARK).read_text(encoding="utf-8")
    elif (out / INVENTORY_FILE).is_file():
        inventory = read_inventory(out)
        if not inventory.parts:
            raise DatasetError(
                f"{out}: holds the dataset '{inventory.name}' of `danish-asr convert`; choose "
                "another --out, a new folder"
            )
        own = inventory.name
    else:
        if others := sorted(path.name for path in out.glob("[!.]*")):
            raise DatasetError(f"{out}: holds {others[0]}; choose another --out, a new folder")
        return
    if own != name:
        raise DatasetError(
            f"{out}: holds the combined dataset '{own}'; make it anew with --name {own}, or choose "
            "another --out"
        )


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _read_parts(roots: Iterable[Path], name: str) -> list[_Part]:
    """The datasets in the order of their names, which differ; they have one language."""
    parts = sorted(
        (_Part(root, read_inventory(root)) for root in roots), key=lambda part: part.name
    )
    for own, count in Counter(part.name for part in parts).items():
        if count > 1:
            roots_of = " and ".join(str(part.root) for part in parts if part.name == own)
            raise DatasetError(
                f"{roots_of} have the same name '{own}'; convert one again with another --name"
            )
        if own == name:  # fairseq2 refuses two cards of one name
            raise ConfigError([f"--name: {name} is the name of a part; choose another"])
    languages = {
        shard.partition("language"): part.name for part in parts for shard in part.inventory.shards
    }
    if len(languages) > 1:
        listed = ", ".join(f"{name} has {language}" for language, name in languages.items())
        raise DatasetError(f"a dataset has one language, and these have several: {listed}")
    _check_rows(parts)
    return parts


def _check_rows(parts: Iterable[_Part]) -> None:
    """Raise `DatasetError` if a row, named by corpus and id, is in several parts."""
    first: dict[str, tuple[str, pa.Array]] = {}
    for part in parts:
        for corpus, ids in _ids_by_corpus(part).items():
            other, known = first.get(corpus, (part.name, ids.slice(0, 0)))
            shared = ids.filter(pc.is_in(ids, known))
            if len(shared):
                names = ", ".join(shared[:3].to_pylist())
                raise DatasetError(
                    f"{other} and {part.name} share {len(shared):,} rows of the corpus {corpus}: "
                    f"{names}. Leave a part out whose rows the other has; if they are other "
                    "recordings, convert one part again with --corpus"
                )
            first[corpus] = part.name, pa.concat_arrays([known, ids])


def _ids_by_corpus(part: _Part) -> dict[str, pa.Array]:
    ids: dict[str, list[pa.ChunkedArray]] = {}
    for entry in part.inventory.shards:
        try:
            own = pq.ParquetFile(part.root / entry.path).read(["id"])["id"]
        except (OSError, pa.ArrowException) as error:
            raise DatasetError(
                f"{part.root}: is damaged ({error}); `danish-asr verify` lists all faults"
            ) from None
        ids.setdefault(entry.partition("corpus"), []).append(own)
    return {
        corpus: pa.concat_arrays([chunk for own in tables for chunk in own.chunks])
        for corpus, tables in ids.items()
    }


def _place_shards(
    parts: Sequence[_Part],
    out: Path,
    listed: pa.Table | None,
    without: Path | None,
    *,
    copy: bool,
) -> tuple[list[ShardEntry], list[pa.Table]]:
    """Link, copy or rewrite all shards; return their entries, and ledgers of the rows left out."""
    pairs = [(part, entry) for part in parts for entry in part.inventory.shards]
    entries, ledgers = [], []
    found = 0
    for part, entry in track(pairs, "combining", len(pairs)):
        source, folder, _, file = part.root / entry.path, *entry.path.rpartition("/")
        own = replace(entry, path=f"{folder}/{part.name}~{file}")  # a name has no ~
        target = out / own.path
        target.parent.mkdir(parents=True, exist_ok=True)
        rows = _listed_rows(source, entry, listed) if listed is not None else None
        if rows is not None and pc.any(rows).as_py():
            written, ledger = _rewritten(
                source, target, own, rows, f"listed in {without and without.name}"
            )
            found += len(ledger)
            entries += [written] if written.rows else []
            names = pc.binary_join_element_wise(part.name, ledger["source"], "/")
            ledgers.append(ledger.set_column(0, LEDGER_SCHEMA.field(0), names))
            continue
        _link(source.resolve(), target, part, copy=copy)
        entries.append(own)
    if listed is not None and not found:
        raise DatasetError(
            f"--without: none of its {len(listed):,} rows is in the parts, such as "
            f"{listed['id'][0].as_py()!r}; expected the columns corpus and id"
        )
    return entries, ledgers


def _listed_rows(source: Path, entry: ShardEntry, listed: pa.Table) -> pa.ChunkedArray:
    ids = pq.ParquetFile(source).read(["id"])
    corpus = pa.repeat(pa.scalar(entry.partition("corpus")), len(ids))
    return is_listed(ids.append_column("corpus", corpus), listed)


def _rewritten(
    source: Path, target: Path, entry: ShardEntry, left_out: pa.ChunkedArray, reason: str
) -> tuple[ShardEntry, pa.Table]:
    """Write a shard without some of its rows; returns its entry, and those rows for the ledger."""
    samples = rows = place = 0
    dropped: list[dict[str, Any]] = []
    with (
        pq.ParquetFile(source) as parquet,
        publish(target) as stream,
        pq.ParquetWriter(stream, parquet.schema_arrow, **PARQUET_FORMAT) as writer,
    ):
        for number in range(parquet.num_row_groups):
            group = parquet.read_row_group(number)
            gone = left_out.slice(place, len(group))
            place += len(group)
            written = group.filter(pc.invert(gone))
            if len(written):
                writer.write_table(written)
            rows += len(written)
            samples += pc.sum(written["audio_size"]).as_py() or 0
            dropped += group.filter(gone).select(["source_id", "id", "dialect"]).to_pylist()
    if not rows:
        target.unlink()
    ledger = []
    for row in dropped:
        file, _, position = row.pop("source_id").rpartition(":")
        about = {"source": file, "row": int(position), "reason": reason}
        ledger.append(row | about | {"corpus": entry.partition("corpus")})
    digest = sha256_of(target) if rows else ""
    made = replace(entry, rows=rows, seconds=samples / SAMPLE_RATE, sha256=digest)
    return made, pa.Table.from_pylist(ledger, LEDGER_SCHEMA)


def _link(source: Path, target: Path, part: _Part, *, copy: bool) -> None:
    target.unlink(missing_ok=True)
    if copy:
        with publish(target) as stream, source.open("rb") as content:
            shutil.copyfileobj(content, stream)
        return
    try:
        target.hardlink_to(source)
    except OSError as error:
        raise DatasetError(
            f"{part.root}: its shards cannot be linked to {target} ({error.strerror}). Choose an "
            "--out on its file system, or add --copy"
        ) from None


def _joined(
    parts: Iterable[_Part], place: str, schema: pa.Schema, prefixed: str | None
) -> pa.Table:
    """The ledgers or the suspects of all parts; a source gets the name of its part before it."""
    tables = [schema.empty_table()]
    for part in parts:
        table = pq.read_table(part.root / place)
        if prefixed:
            names = pc.binary_join_element_wise(part.name, table[prefixed], "/")
            table = table.set_column(table.column_names.index(prefixed), prefixed, names)
        tables.append(table.cast(schema))
    return pa.concat_tables(tables)


def _characters(parts: Iterable[_Part]) -> set[str]:
    """The characters of the tokenizers of all parts."""
    characters: set[str] = set()
    for part in parts:
        path = part.root / CARDS_DIR / f"{part.name}_char.model"
        with suppress(OSError):  # a part without training rows
            model = sentencepiece.SentencePieceProcessor()
            model.LoadFromSerializedProto(path.read_bytes())
            pieces = (model.id_to_piece(index) for index in range(model.get_piece_size()))
            characters.update(piece for piece in pieces if len(piece) == 1)
    return characters
