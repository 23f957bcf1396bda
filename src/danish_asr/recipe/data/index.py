"""A built dataset and the rows that a configuration names of it, without their audio.

The shards of a split come in, of which the small columns are read at each start; an `Index` goes
out. A column that the data contract does not have passes through to ``predictions.jsonl``.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeAlias, cast

import numpy as np
import polars as pl
import polars.selectors as cs
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from polars.exceptions import PolarsError

from danish_asr.base.cluster import usable_cpus
from danish_asr.base.errors import ConfigError, DatasetError
from danish_asr.base.schema import METADATA_COLUMNS
from danish_asr.corpus.inventory import (
    ShardFile,
    missing_split,
    root_of,
    shards_of_split,
    share_people_of,
    splits_of,
)
from danish_asr.corpus.people import first_corpora
from danish_asr.recipe.config.schema import AsrConfig, WeightConfig, names_of_splits
from danish_asr.recipe.data.audio import Audio, decode, places_of
from danish_asr.text.profiles import normalizer

DATASET_FAMILY: Final = "mixture_parquet_asr_dataset"
"""Upstream's name, so that its cards and YAML files keep working."""
UNKNOWN_DIALECT: Final = "unknown"
TEXT: Final = ("id", "text", *METADATA_COLUMNS)
TARGET: Final = "target"
"""The column of normalised texts, see `Index.with_targets`."""
_NEEDED: Final = ("text", "audio_bytes", "audio_size")
_NOT_READ: Final = ("audio_bytes", "sub_dialect", "age", "country_birth", "source_id")
"""A condition may name those without audio; all other columns come with the rows."""
_LISTED: Final = 20
"""Most values of a column in a message."""
_ROWS_AT_ONCE: Final = 100_000

Rows: TypeAlias = NDArray[np.int32]
"""Row numbers of an index."""

NUMBERS: Final = cs.starts_with("_")
"""The columns of an index that are no texts."""


@dataclass(frozen=True, eq=False)
class Index:
    """The utterances of a split; row numbers count from 0 in the order of the files.

    ``rows`` has texts: id, text (raw), metadata, corpus, split, language, after `with_targets`
    `TARGET`; and `NUMBERS`: ``_samples`` (at 16 kHz), ``_group`` (the row group in the split), the
    place of the audio, and ``_<condition>``, whether the row fulfils it.
    """

    name: str  # `test` or `test_<corpus>`
    rows: pl.DataFrame
    shards: Sequence[Path]
    rows_in_split: int  # also those that do not fulfil the condition
    weights: Sequence[WeightConfig] = ()

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def lengths(self) -> NDArray[np.int32]:
        """Samples at 16 kHz, ``(rows,)``."""
        return self.rows["_samples"].to_numpy()

    @cached_property
    def audio(self) -> Audio:
        """The encoded audio of the rows."""
        return Audio(self.shards, self.rows.select(Audio.COLUMNS).rechunk())

    @cached_property
    def texts(self) -> pl.DataFrame:
        """The columns of texts."""
        return self.rows.drop(NUMBERS)

    def decode(self, row: int, out: NDArray[np.float32]) -> None:
        """Decode the recording of a row to ``(samples,)``; thread-safe.

        Raises:
            DatasetError: It cannot be read or decoded, or has another length.
        """
        try:
            decode(self.audio.read(row), out)
        except ValueError as error:
            raise DatasetError(
                f"{self.audio.describe(row)}, id '{self.rows['id'][row]}': {error}; "
                "`danish-asr verify` lists every damaged row"
            ) from error

    def with_targets(self, profile: str) -> Self:
        """The same rows with a column `TARGET`: the text as the profile writes it."""
        normalize, texts = normalizer(profile), self.rows["text"]
        if profile != "raw":
            texts = pl.Series([normalize(text) for text in texts], dtype=pl.String)
        return replace(self, rows=self.rows.with_columns(texts.alias(TARGET)))

    def take(self, rows: NDArray[np.integer[Any]]) -> Self:
        """The same split with these rows only."""
        return replace(self, rows=self.rows[rows])

    def subset(self, size: int) -> Self:
        """About ``size`` rows, always the same: of each dialect its share, and at least one row.

        A larger size has these rows too.
        """
        if size >= len(self):
            return self
        unit = pl.concat_str("corpus", "id", separator=" ")
        return self._first(size / len(self), unit, pl.lit(1.0), seed=0)

    def share(self, share: float, seed: int, share_people: Iterable[Sequence[str]] = ()) -> Self:
        """About this share of each dialect's hours; a larger share has these rows too.

        Speakers are taken one after the other, in an order that the seed and their names fix; of
        the last one of a dialect only as much as is needed. A row without a speaker is its own.
        ``share_people`` are lists of corpora in which one name is one person.
        """
        corpus = pl.col("corpus").replace(first_corpora(share_people))
        unit = pl.concat_str(corpus, pl.coalesce("speaker_id", "id"), separator=" ")
        return self._first(share, unit, pl.col("_samples"), seed=seed)

    def _first(self, share: float, unit: pl.Expr, amount: pl.Expr, *, seed: int) -> Self:
        """The rows with this share of each dialect's amount; at least one of each.

        Units of rows are taken in the order of a hash of the seed and their corpus and name.
        """
        named = pl.format("{} {}", pl.lit(seed), unit)
        hashes = [
            int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
            for name in self.rows.select(named).to_series()
        ]
        rows = self.rows.select("dialect", _amount=amount.cast(pl.Float64))
        rows = rows.with_columns(_hash=pl.Series(hashes, dtype=pl.UInt64)).with_row_index("_number")
        amount = pl.col("_amount")
        middle = amount.cum_sum() - amount / 2  # so that the sum is as near as rows allow
        is_chosen = (middle < share * amount.sum()) | (pl.int_range(pl.len()) == 0)
        chosen = rows.sort("_hash", "_number").filter(is_chosen.over("dialect"))
        return self.take(chosen["_number"].sort().to_numpy())

    def digest(self, rows: Rows) -> str:
        """A hash of what the rows are, wherever the dataset is; part of a run's checkpoints."""
        digest = hashlib.blake2b(np.ascontiguousarray(rows).tobytes(), digest_size=16)
        digest.update(self.lengths.tobytes())
        for part in self.rows.select("id", "text").iter_slices(_ROWS_AT_ONCE):
            for column in part:
                digest.update(column.str.join("\n").item().encode())
        return digest.hexdigest()


class DanishAsrDataset:
    """A built dataset, ROOT or ``ROOT/version=0``, whose splits are also ``<split>_<corpus>``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def root(self) -> Path:
        """The directory with the cards of the dataset."""
        return root_of(self.path)

    def read_index(
        self,
        split: str,
        where: str | None = None,
        weights: Sequence[WeightConfig] = (),
        *,
        key: str = "where",
    ) -> Index:
        """The index of a split, or of its rows that fulfil the SQL condition ``where``.

        A null fulfils no comparison.

        Raises:
            DatasetError: There is no such split, a file cannot be read, or a needed column is
                missing.
            ConfigError: A condition is faulty, or no row fulfils it; ``key`` is that of ``where``.
        """
        conditions = {f"dataset.weights[{n}].where": w.where for n, w in enumerate(weights)}
        if where:
            conditions[key] = where
        columns = {name for condition in conditions.values() for name in _columns_of(condition)}
        shards = shards_of_split(self.path, split)
        with ThreadPoolExecutor(usable_cpus()) as pool:
            frames = pool.map(lambda shard: _read_shard(shard, columns), shards)
        frames = (frame.with_columns(_shard=pl.lit(n, pl.Int32)) for n, frame in enumerate(frames))
        frame = pl.concat(frames, how="diagonal_relaxed")
        if frame.is_empty():
            raise DatasetError(f"split '{split}': there are no rows in {len(shards)} shards")
        frame = frame.with_columns(_group=pl.struct("_shard", "_row_group").rle_id().cast(pl.Int32))
        for of_key, condition in conditions.items():
            frame = frame.with_columns(_fulfilled(frame, of_key, condition).alias(f"_{condition}"))
        rows_in_split = len(frame)
        if where:
            frame = frame.filter(pl.col(f"_{where}"))
        rows = frame.select(
            pl.exclude("^_.*$", "audio_size", "encoded_size", *_NOT_READ).cast(pl.String),
            pl.col("audio_size").cast(pl.Int32).alias("_samples"),
            NUMBERS,
        )
        return Index(split, rows, [shard.path for shard in shards], rows_in_split, weights)


def _columns_of(condition: str) -> list[str]:
    """The names of the columns in a condition; none if it is no SQL."""
    try:
        return pl.sql_expr(condition).meta.root_names()
    except PolarsError:
        return []


def _read_shard(shard: ShardFile, conditional: Collection[str]) -> pl.DataFrame:
    """The rows of a shard with where their audio is: metadata, and columns that conditions name."""
    try:
        # Pre-buffering fetches many small pieces at a time, as a network file system needs it.
        with pq.ParquetFile(shard.path, pre_buffer=True) as file:
            schema, footer = file.schema_arrow, file.metadata
            if missing := {*_NEEDED} - {*schema.names}:
                raise DatasetError(
                    f"{shard.path}: column {', '.join(sorted(missing))} is missing; "
                    f"found {schema.names}"
                )
            read = [column.name for column in schema if _is_read(column, conditional)]
            table = file.read(read, use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise DatasetError(f"{shard.path}: cannot be read as Parquet ({error})") from error
    frame = cast(pl.DataFrame, pl.from_arrow(table.combine_chunks()))
    absent = [name for name in TEXT if name not in read]
    frame = frame.with_columns(
        *(pl.lit(None, pl.String).alias(name) for name in absent),
        *(pl.lit(value).alias(key) for key, value in shard.keys.items()),
        **places_of(footer, frame.get_column("encoded_size", default=None)),
    )
    if "id" in absent:
        stem = "/".join(part.partition("=")[2] or part for part in shard.path.parts[-4:])
        numbers = pl.int_range(len(frame), eager=True).cast(pl.String)
        frame = frame.with_columns((f"{stem}#" + numbers).alias("id"))
    return frame


def _is_read(column: pa.Field, conditional: Collection[str]) -> bool:
    """Whether a condition names a column, or it may be metadata."""
    is_value = not (pa.types.is_nested(column.type) or "binary" in str(column.type))
    return column.name in conditional or (is_value and column.name not in _NOT_READ)


def _fulfilled(frame: pl.DataFrame, key: str, condition: str) -> pl.Series:
    """Which rows fulfil the condition of a key; at least one."""
    try:
        fulfilled = pl.when(pl.sql_expr(condition)).then(statement=True).otherwise(statement=False)
        mask = frame.with_columns(_mask=fulfilled)["_mask"]
    except PolarsError as error:
        reason = str(error).partition("\n")[0].partition("; valid columns")[0]
        columns = ", ".join(name for name in frame.columns if not name.startswith("_"))
        more = ", ".join(name for name in _NOT_READ[1:] if name not in frame.columns)
        fault = f'"{condition}" is no SQL condition ({reason}); strings are in single quotes'
        names = f"columns are {columns}, and what `convert` adds: {more}"
        raise ConfigError([f"{key}: {fault}, {names}"]) from error
    if not mask.any():
        contents = (frame[name].drop_nulls().unique().sort() for name in _columns_of(condition))
        listed = "; ".join(
            f"{column.name}: {', '.join(map(str, column[:_LISTED])) or 'nulls'}"
            for column in contents
        )
        raise ConfigError([f'{key}: no row fulfils "{condition}"; {listed}'])
    return mask


class OpenRows(NamedTuple):
    """The rows of a run, with their targets, before the filters."""

    train: Mapping[int, Index]  # of each stage, by the step that it begins after
    valid: Mapping[str, Index]  # of each split to validate on


def open_rows(dataset: DanishAsrDataset, config: AsrConfig) -> OpenRows:
    """Open the rows that a training reads.

    Raises:
        ConfigError: A split does not exist, or a condition is faulty or no row fulfils it.
        DatasetError: A file cannot be read.
    """
    section, train = config.dataset, dict[int, Index]()
    keys = dict.fromkeys(names_of_splits(section.valid_split), "dataset.valid_split")
    _check_splits(dataset, keys | {section.train_split: "dataset.train_split"})
    for first, stage in config.stages().items():
        key = f"trainer.stages.{first}.where" if first else "dataset.train_where"
        train[first] = training_rows(dataset, stage, key)
    valid = _rows_of_splits(dataset, config, section.valid_where, "dataset.valid_where")
    if section.valid_subset is not None:
        valid = {name: index.subset(section.valid_subset) for name, index in valid.items()}
    return OpenRows(train, valid)


def evaluated_rows(dataset: DanishAsrDataset, config: AsrConfig) -> dict[str, Index]:
    """Open the rows of ``dataset.valid_split`` to evaluate; raises as `open_rows`."""
    keys = dict.fromkeys(names_of_splits(config.dataset.valid_split), "evaluator.split")
    _check_splits(dataset, keys)
    return _rows_of_splits(dataset, config, config.evaluator.where, "evaluator.where")


def _rows_of_splits(
    dataset: DanishAsrDataset, config: AsrConfig, where: str | None, key: str
) -> dict[str, Index]:
    section = config.dataset
    return {
        name: dataset.read_index(name, where, key=key).with_targets(section.text_profile)
        for name in names_of_splits(section.valid_split)
    }


def training_rows(
    dataset: DanishAsrDataset, config: AsrConfig, key: str = "dataset.train_where"
) -> Index:
    """Open the rows that a run, or a stage whose condition has this ``key``, trains on.

    They have targets and weights; raises as :func:`open_rows`.
    """
    section = config.dataset
    index = dataset.read_index(section.train_split, section.train_where, section.weights, key=key)
    if section.train_share is not None:
        people = share_people_of(dataset.path)
        index = index.share(section.train_share, config.common.seed, people)
    if section.train_subset is not None:
        index = index.subset(section.train_subset)
    return index.with_targets(section.text_profile)


def _check_splits(dataset: DanishAsrDataset, keys: Mapping[str, str]) -> None:
    """Refuse splits that the dataset does not have; ``keys`` name each."""
    names = splits_of(dataset.path)
    if faults := [
        f"{key}: {missing_split(split, names)}" for split, key in keys.items() if split not in names
    ]:
        raise ConfigError(faults)
