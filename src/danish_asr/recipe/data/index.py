"""A built dataset, and the index of a split: each utterance and its length, without its audio.

The small columns of the shards come in, read at each start; an `Index` goes out.
"""

import hashlib
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, cast

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from polars.exceptions import PolarsError

from danish_asr.base.cluster import usable_cpus
from danish_asr.base.errors import DatasetError
from danish_asr.base.schema import METADATA_COLUMNS, VERSION_DIR
from danish_asr.corpus.shards import Shard, find_shards, shards_of_split, split_names
from danish_asr.recipe.data.audio import Audio, ShardAudio
from danish_asr.text.profiles import normalizer

DATASET_FAMILY: Final = "mixture_parquet_asr_dataset"
"""Upstream's name, so that its cards and YAML files keep working."""
UNKNOWN_DIALECT: Final = "unknown"
TEXT: Final = ("id", "text", *METADATA_COLUMNS)
PATH: Final = ("corpus", "language")
"""What a shard's path says of its rows."""
TARGET: Final = "target"
"""The column of normalised texts, see `Index.with_targets`."""
_NEEDED: Final = ("text", "audio_bytes", "audio_size")
_ROW, _ROW_GROUP, _SHARD, _PLACE = "_row", "_row_group", "_shard", "_place"
_LISTED: Final = 20
"""Most values of a column in a message."""
_ROWS_AT_ONCE: Final = 100_000


class ConditionError(DatasetError):
    """No row fulfils an SQL ``condition``, or it is faulty."""

    def __init__(self, condition: str, fault: str) -> None:
        super().__init__(fault)
        self.condition = condition


class DanishAsrDataset:
    """A built dataset, ROOT or ``ROOT/version=0``, whose splits are also ``<split>_<corpus>``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def root(self) -> Path:
        """The directory with the cards of the dataset."""
        path = self.path.resolve()
        return path.parent if path.name == VERSION_DIR else path

    @property
    def splits(self) -> list[str]:
        """The names of the splits, read from the paths each time."""
        return split_names(find_shards(self.path))

    def read_index(
        self, split: str, where: str | None = None, weights: Sequence[tuple[str, float]] = ()
    ) -> "Index":
        """As the function `read_index`; `DatasetError` names the splits if there is no such one."""
        return read_index(shards_of_split(self.path, split), split, where=where, weights=weights)


class Weight(NamedTuple):
    """Rows that training shows more or less often: ``factor`` times as often."""

    where: str
    factor: float
    rows: NDArray[np.bool_]  # which fulfil the condition, (rows,)


@dataclass(frozen=True, eq=False)
class Index:
    """The utterances of a split; row numbers count from 0 in the order of the files."""

    name: str  # `test` or `test_<corpus>`
    split: str  # `test`
    rows: (
        pl.DataFrame
    )  # strings: id, text (raw), metadata, corpus, language, after with_targets TARGET
    lengths: NDArray[np.int32]  # samples at 16 kHz, (rows,)
    row_group_of: NDArray[np.int32]  # numbered through the split, (rows,)
    audio: Audio = field(repr=False)
    rows_in_split: int  # also those that do not fulfil the condition
    weights: tuple[Weight, ...] = ()

    def __len__(self) -> int:
        return len(self.lengths)

    def values(self, name: str, rows: Sequence[int] | NDArray[np.integer[Any]]) -> list[Any]:
        """The values of a column of ``rows`` in these rows."""
        return self.rows[name].gather(np.asarray(rows, np.int64)).to_list()

    def dialects(self) -> tuple[NDArray[np.int32], list[str]]:
        """As `groups`, of the dialects."""
        return self.groups("dialect")

    def groups(self, name: str) -> tuple[NDArray[np.int32], list[str]]:
        """A code per row and the values of a column that occur, by code; null is ``unknown``."""
        column = self.rows[name].fill_null(UNKNOWN_DIALECT)
        names = column.unique(maintain_order=True)
        codes = column.cast(pl.Enum(names)).to_physical()
        return codes.cast(pl.Int32).to_numpy(), names.to_list()

    def with_targets(self, profile: str) -> Self:
        """The same rows with a column `TARGET`: the text as the profile writes it."""
        normalize, texts = normalizer(profile), self.rows["text"]
        if profile != "raw":
            texts = pl.Series([normalize(text) for text in texts], dtype=pl.String)
        return replace(self, rows=self.rows.with_columns(texts.alias(TARGET)))

    def take(self, rows: NDArray[np.integer[Any]]) -> Self:
        """The same split with these rows only."""
        return replace(
            self,
            rows=self.rows[rows],
            lengths=self.lengths[rows],
            row_group_of=self.row_group_of[rows],
            audio=self.audio.take(rows),
            weights=tuple(weight._replace(rows=weight.rows[rows]) for weight in self.weights),
        )

    def subset(self, size: int) -> Self:
        """About ``size`` rows, always the same: of each dialect its share, and at least one row.

        A larger size has these rows too.
        """
        if size >= len(self):
            return self
        return self.take(self._first(size / len(self), pl.col("id"), np.ones(len(self)), seed=0))

    def share(self, share: float, seed: int) -> Self:
        """About this share of each dialect's hours; a larger share has these rows too.

        Speakers are taken one after the other, in an order that the seed and their names fix; of
        the last one of a dialect only as much as is needed. A row without a speaker is its own.
        """
        unit = pl.coalesce("speaker_id", "id")
        return self.take(self._first(share, unit, self.lengths, seed=seed))

    def _first(
        self, share: float, unit: pl.Expr, amounts: NDArray[Any], *, seed: int
    ) -> NDArray[np.int64]:
        """The rows with this share of each dialect's amount, ascending; at least one of each.

        Units of rows are taken in the order of a hash of seed, corpus and name.
        """
        named = pl.format("{} {} {}", pl.lit(seed), pl.col("corpus"), unit.fill_null(""))
        names = self.rows.select(named).to_series()
        digests = (hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names)
        place_of = np.frombuffer(b"".join(digests), "<u8")
        codes, _ = self.dialects()
        order = np.lexsort((np.arange(len(self)), place_of, codes))
        chosen = np.zeros(len(self), np.bool_)
        for rows in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
            sums = amounts[rows].astype(np.float64).cumsum()
            middles = sums - amounts[rows] / 2  # so that the sum is as near as rows allow
            count = max(int(np.count_nonzero(middles < share * sums[-1])), 1)
            chosen[rows[:count]] = True
        return np.flatnonzero(chosen)

    def digest(self, rows: NDArray[np.int32]) -> str:
        """A hash of what the rows are, wherever the dataset is; part of a run's checkpoints."""
        digest = hashlib.blake2b(np.ascontiguousarray(rows).tobytes(), digest_size=16)
        digest.update(self.lengths.tobytes())
        for name in ("id", "text"):
            column = self.rows[name].fill_null("")
            digest.update(column.str.len_bytes().cast(pl.Int32).to_numpy().tobytes())
            for part in column.to_frame().iter_slices(_ROWS_AT_ONCE):
                digest.update(part[name].str.join("").item().encode())
        return digest.hexdigest()


def read_index(
    shards: Sequence[Shard],
    split: str,
    *,
    where: str | None = None,
    weights: Sequence[tuple[str, float]] = (),
) -> Index:
    """The index of these shards, or of the rows that fulfil the SQL condition ``where``.

    ``weights`` are conditions with factors; a null fulfils no comparison.

    Raises:
        DatasetError: A file cannot be read, or a needed column is missing.
        ConditionError: A condition is faulty, or no row fulfils it.
    """
    conditions = [*([where] if where else []), *(condition for condition, _ in weights)]
    columns = {*TEXT, *PATH, "audio_size", "encoded_size"}.union(*map(_columns_of, conditions))
    with ThreadPoolExecutor(usable_cpus()) as pool:
        contents = list(pool.map(lambda shard: _read_shard(shard, columns), shards))
    groups = np.cumsum([0, *(len(audio.group_ends) for _, audio in contents)])
    frames = []
    for number, (frame, audio) in enumerate(contents):
        group = np.searchsorted(audio.group_ends, frame[_ROW].to_numpy(), side="right")
        added = {_ROW_GROUP: pl.Series(groups[number] + group, dtype=pl.Int32)}
        frames.append(frame.with_columns(pl.lit(number, pl.Int32).alias(_SHARD), **added))
    frame = pl.concat(frames, how="diagonal_relaxed")
    if frame.is_empty():
        raise DatasetError(f"split '{split}': there are no rows in {len(shards)} shards")
    masks = {text: _fulfilled(frame, text, shards, split) for text in conditions}
    chosen = masks[where] if where else np.ones(len(frame), np.bool_)
    rows_in_split = len(frame)
    frame = frame.filter(chosen) if where else frame  # a filter copies all texts
    return Index(
        name=split,
        split=shards[0].keys["split"],
        rows=frame.select(pl.col(name).cast(pl.String) for name in (*TEXT, *PATH)),
        lengths=frame["audio_size"].cast(pl.Int32).to_numpy(),
        row_group_of=frame[_ROW_GROUP].to_numpy(),
        audio=Audio(
            [audio for _, audio in contents], frame[_SHARD].to_numpy(), frame[_ROW].to_numpy()
        ),
        rows_in_split=rows_in_split,
        weights=tuple(Weight(text, factor, masks[text][chosen]) for text, factor in weights),
    )


def _columns_of(condition: str) -> list[str]:
    """The names of the columns in a condition; none if it is no SQL."""
    try:
        return pl.sql_expr(condition).meta.root_names()
    except PolarsError:
        return []


def _fulfilled(
    frame: pl.DataFrame, condition: str, shards: Sequence[Shard], split: str
) -> NDArray[np.bool_]:
    """Which rows fulfil a condition, ``(rows,)``; at least one."""
    try:
        rows = frame.with_row_index(_PLACE).filter(pl.sql_expr(condition))[_PLACE].to_numpy()
    except PolarsError as error:
        reason = str(error).partition("\n")[0].partition("; valid columns")[0]
        names = [*pq.read_schema(shards[0].path).names, *shards[0].keys]
        columns = ", ".join(dict.fromkeys(name for name in names if name != "audio_bytes"))
        fault = f'"{condition}" is no SQL condition ({reason}); strings are in single quotes, '
        fault += f"columns are {columns}"
        raise ConditionError(condition, fault) from error
    if not len(rows):
        contents = (frame[name].drop_nulls() for name in _columns_of(condition))
        described = "; ".join(
            f"{column.name}: {', '.join(map(str, column.unique().sort()[:_LISTED])) or 'nulls'}"
            for column in contents
        )
        fault = f"no row of split '{split}' fulfils \"{condition}\"; {described}"
        raise ConditionError(condition, fault)
    mask = np.zeros(len(frame), np.bool_)
    mask[rows] = True
    return mask


def _read_shard(shard: Shard, columns: Collection[str]) -> tuple[pl.DataFrame, ShardAudio]:
    """Some columns of a shard, with the row's number in the file, and where its audio is.

    Columns that the shard does not have are left out, but those of ``TEXT`` are made, and those of
    the path are added.
    """
    try:
        # Pre-buffering fetches many small pieces at a time, as a network file system needs it.
        with pq.ParquetFile(shard.path, pre_buffer=True) as file:
            names, footer = file.schema_arrow.names, file.metadata
            if missing := {*_NEEDED} - {*names}:
                raise DatasetError(
                    f"{shard.path}: column {', '.join(sorted(missing))} is missing; found {names}"
                )
            of_path = {"audio_bytes", *shard.keys}
            read = [name for name in names if name in columns and name not in of_path]
            table = file.read(read, use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise DatasetError(f"{shard.path}: cannot be read as Parquet ({error})") from error
    for name in {"text", "audio_size", "encoded_size"} & {*read}:
        if nulls := table.column(name).null_count:
            raise DatasetError(f"{shard.path}: column {name} has {nulls} nulls; expected none")
    added = {name: pl.lit(shard.keys[name]) for name in shard.keys.keys() & {*columns}}
    added |= {name: pl.lit(None, pl.String) for name in {*TEXT} & {*columns} - {*read}}
    if "id" in added:
        stem = "/".join(part.partition("=")[2] or part for part in shard.path.parts[-4:])
        added["id"] = pl.lit(f"{stem}#") + pl.col(_ROW).cast(pl.String)
    frame = cast(pl.DataFrame, pl.from_arrow(table.combine_chunks()))
    rows = pl.Series(_ROW, np.arange(footer.num_rows, dtype=np.int32))
    sizes = frame["encoded_size"].to_numpy() if "encoded_size" in read else None
    audio = ShardAudio.locate(shard.path, footer, sizes)
    return frame.with_columns(rows).with_columns(**added), audio
