"""Small corpora of all kinds for tests, and reading them without a conversion."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.rows import Source
from danish_asr.corpus.sources import open_source
from tests.builders import tone

TRAIN = ConvertOptions(name="own", split="train")
"""All rows are train, of the corpus ``own``."""


def options(**values: Any) -> ConvertOptions:
    """Options of a corpus that is called ``own``."""
    return ConvertOptions(**{"name": "own"} | values)


def read_rows(source: Source) -> list[dict[str, Any]]:
    """All rows with what their audio is."""
    audio = source.fetch(source.rows)
    return [row | {"audio": own} for row, own in zip(source.rows.to_pylist(), audio, strict=True)]


def rows_of(where: object, **values: Any) -> list[dict[str, Any]]:
    """The rows of a source with these options, all of them in train."""
    return read_rows(open_source(str(where), options(**{"split": "train"} | values)))


def record(folder: Path, name: str = "anna.wav", seconds: float = 6.0) -> Path:
    """Write a recording; returns its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(tone(seconds, rate=16_000))
    return folder


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows as JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return path


def shards(root: Path) -> list[Path]:
    """The files of a dataset's rows."""
    return sorted((root / "version=0").rglob("*.parquet"))


def table_in(root: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a dataset's ledger or suspects."""
    return list(pq.read_table(root / f"{name}.parquet").to_pylist())


def srt(*cues: tuple[float, float, str]) -> str:
    """Subtitles in SubRip."""

    def clock(seconds: float) -> str:
        return f"00:00:{int(seconds):02},{round(seconds % 1 * 1000):03}"

    return "\n".join(
        f"{number}\n{clock(start)} --> {clock(end)}\n{text}\n"
        for number, (start, end, text) in enumerate(cues, start=1)
    )
