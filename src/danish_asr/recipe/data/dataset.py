"""A dataset as fairseq2 opens it: its splits, and an index of each.

The recipe registers these classes under upstream's family names, so that cards and YAML files
written for upstream's datasets keep working.
"""

from __future__ import annotations

import ast
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from omnilingual_asr.datasets.storage.manifest_storage import ManifestStorageConfig
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig
from typing_extensions import override

from danish_asr.base.errors import ConfigError, DatasetError
from danish_asr.base.schema import METADATA_COLUMNS
from danish_asr.corpus import DANISH
from danish_asr.corpus.shards import Partition, find_shards, shards_of_split, split_names
from danish_asr.recipe.data.audio_source import FileAudio
from danish_asr.recipe.data.index import Index, read_index

DATASET_FAMILY: Final = "mixture_parquet_asr_dataset"
MANIFEST_FAMILY: Final = "manifest_asr_dataset"

StorageConfig: TypeAlias = MixtureParquetStorageConfig | ManifestStorageConfig

_COMPARISONS: Final = {
    ast.Eq: "=",
    ast.NotEq: "<>",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}


@dataclass
class DanishAsrDatasetConfig:
    """The ``dataset_config`` of a dataset card, as upstream's."""

    data: Path | None = None
    """A built dataset's ROOT or its ``version=0`` directory, or a directory of manifests."""


def open_dataset(config: DanishAsrDatasetConfig) -> DanishAsrDataset:
    """What fairseq2 calls to open the built dataset that a card describes."""
    return DanishAsrDataset(_directory(config))


def open_manifest(config: DanishAsrDatasetConfig) -> ManifestDataset:
    """What fairseq2 calls to open the manifests that a card describes."""
    return ManifestDataset(_directory(config))


def _directory(config: DanishAsrDatasetConfig) -> Path:
    if config.data is None:
        raise DatasetError("dataset_config.data: expected the dataset's directory, found null")
    return config.data


class AsrDataset(ABC):
    """Utterances in splits, whatever they are stored in."""

    path: Path
    """The directory."""

    splits: list[str]
    """The names of splits that :meth:`read_index` takes."""

    @abstractmethod
    def read_index(
        self, split: str, storage_config: StorageConfig | None = None, where: str | None = None
    ) -> Index:
        """The rows of a split, or those that fulfil an SQL condition.

        Raises:
            DatasetError: No such split (the message names those that exist), or unreadable files.
            ConfigError: A filter of the section cannot be applied.
        """


class DanishAsrDataset(AsrDataset):
    """A built dataset, see :mod:`danish_asr.base.schema`: ROOT or ``ROOT/version=0``.

    A split is ``<split>`` or ``<split>_<corpus>``. Upstream's ``partition_filters`` and
    ``fragment_loading.filters`` are conditions, too, and hold for every split.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def splits(self) -> list[str]:  # type: ignore[override]
        """Read from the paths, each time."""
        return split_names(find_shards(self.path))

    @override
    def read_index(
        self, split: str, storage_config: StorageConfig | None = None, where: str | None = None
    ) -> Index:
        if not isinstance(storage_config, MixtureParquetStorageConfig):
            storage_config = MixtureParquetStorageConfig()
        shards = shards_of_split(self.path, split, split_key=storage_config.split_column)
        conditions = conditions_of_filters(storage_config)
        if where is not None:
            conditions.append(where)
        condition = " and ".join(f"({condition})" for condition in conditions)
        if len(conditions) < 2:
            condition = "".join(conditions)
        return read_index(shards, split, root=self.path, condition=condition or None)


class ManifestDataset(AsrDataset):
    """Upstream's manifests: ``<split>.tsv`` with audio files, ``<split>.wrd`` with texts.

    The first line of the TSV is the audio's directory; each other line is a path below it, a tab
    and the number of samples. A path may be ``file:offset:size``, a slice of an uncompressed
    archive, as fairseq2's ``FileMapper`` reads it. Line n of the ``.wrd`` file is the text of row
    n. Ids are the paths of the TSV, the corpus is named after the directory, metadata is unknown.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.splits = sorted(file.stem for file in path.glob("*.tsv"))
        if not self.splits:
            raise DatasetError(f"{path}: no manifest found; expected <split>.tsv and <split>.wrd")

    @override
    def read_index(
        self, split: str, storage_config: StorageConfig | None = None, where: str | None = None
    ) -> Index:
        if where is not None:
            raise ConfigError([f'"{where}": manifests have no columns to select rows by'])
        if split not in self.splits:
            names = ", ".join(self.splits)
            raise DatasetError(f"split '{split}' has no manifest; {self.path} has: {names}")
        tsv, wrd = self.path / f"{split}.tsv", self.path / f"{split}.wrd"
        root, *lines = _lines(tsv)
        if not root or not Path(root).is_dir():
            raise DatasetError(f"{tsv}:1: expected the directory of the audio, found '{root}'")
        texts = _lines(wrd)
        if len(texts) != len(lines):
            raise DatasetError(
                f"{wrd}: expected one text per row of {tsv.name} ({len(lines)}), found {len(texts)}"
            )
        paths, lengths = [], []
        for number, line in enumerate(lines, start=2):
            path, _, length = line.rstrip("\r").partition("\t")
            if not path or not length.strip().isdecimal():
                raise DatasetError(f"{tsv}:{number}: expected <path><tab><samples>, found '{line}'")
            paths.append(path)
            lengths.append(int(length))
        columns = {"id": pa.array(paths, pa.string()), "text": pa.array(texts, pa.string())}
        columns |= {name: pa.nulls(len(lines), pa.string()) for name in METADATA_COLUMNS}
        return Index(
            name=split,
            split=split,
            table=pa.table(columns),
            lengths=np.array(lengths, np.int32),
            partition_of=np.zeros(len(lines), np.int16),
            # Each row is a file of its own, so rows may be shuffled one by one.
            row_group_of=np.arange(len(lines), dtype=np.int32),
            partitions=(Partition(self.path.resolve().name, DANISH),),
            audio=FileAudio([_slice(Path(root), path) for path in paths]),
        )


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path}: cannot be read ({error})") from error


def _slice(root: Path, name: str) -> tuple[Path, int, int]:
    if part := re.fullmatch(r"(.+):(\d+):(\d+)", name):
        return root / part[1], int(part[2]), int(part[3])
    return root / name, 0, -1


def conditions_of_filters(storage: MixtureParquetStorageConfig) -> list[str]:
    """Write upstream's filters, which are Python expressions, as SQL conditions.

    Raises:
        ConfigError: A filter cannot be written in SQL.
    """
    filters = {
        "fragment_streaming.partition_filters": storage.fragment_streaming.partition_filters,
        "fragment_loading.filters": storage.fragment_loading.filters,
    }
    conditions = []
    for key, text in filters.items():
        if text is None:
            continue
        try:
            conditions.append(_sql(ast.parse(str(text), mode="eval").body))
        except (SyntaxError, ValueError):
            fault = (
                f"dataset.mixture_parquet_storage_config.{key}: expected comparisons of "
                f"pc.field(...) and pc.is_in, joined by &, | and ~, found {text!r}; write it in "
                "SQL as dataset.train_where and dataset.valid_where"
            )
            raise ConfigError([fault]) from None
    return conditions


def _sql(node: ast.expr) -> str:
    """Write an expression of pyarrow's in SQL; raises ``ValueError`` if that is impossible."""
    match node:
        case ast.BinOp(left, ast.BitAnd(), right):
            return f"({_sql(left)} and {_sql(right)})"
        case ast.BinOp(left, ast.BitOr(), right):
            return f"({_sql(left)} or {_sql(right)})"
        case ast.UnaryOp(ast.Invert(), operand):
            return f"(not {_sql(operand)})"
        case ast.Compare(left, [comparison], [right]) if type(comparison) in _COMPARISONS:
            return f"{_operand(left)} {_COMPARISONS[type(comparison)]} {_operand(right)}"
        case ast.Call(ast.Attribute(attr="is_in"), [column, values]):
            return f"{_operand(column)} in ({_operand(values)})"
        case ast.Call(ast.Attribute(column, "isin"), [values]):
            return f"{_operand(column)} in ({_operand(values)})"
    raise ValueError(ast.unparse(node))


def _operand(node: ast.expr) -> str:
    match node:
        case ast.Call(ast.Attribute(attr="field"), [ast.Constant(value=str() as column)]):
            return column
        case ast.Call(ast.Attribute(attr="scalar" | "array"), [value]):
            return _operand(value)
        case ast.List(values):
            return ", ".join(map(_operand, values))
        case ast.Constant(value=str() as text):
            escaped = text.replace("'", "''")
            return f"'{escaped}'"
        case ast.Constant(value=int() | float() as number):
            return str(number)
    raise ValueError(ast.unparse(node))
