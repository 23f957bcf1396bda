"""Small built datasets of different corpora, to be combined."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.convert import convert
from tests.builders import coral_row, tone, write_parquet

COLUMNS = {"id": "id_recording", "speaker_id": "id_speaker"}


def build_part(
    root: Path,
    *,
    name: str | None = None,
    corpus: str | None = None,
    text: str = "{part} {split} {letter}",
    rows: dict[str, int] | None = None,
    shard_rows: int = 1000,
    people: str = "",
    **options: Any,
) -> Path:
    """A dataset with ids, speakers, texts and audio of its own; returns its root.

    ``people`` has ids of speakers, a character each, that all splits have.
    """
    part = root.name
    for split, count in (rows or {"train": 6, "dev": 2, "test": 3}).items():
        written = [
            coral_row(
                number,
                split=split,
                id_recording=f"{part}_{split}_{number}",
                id_speaker=(
                    people[number % len(people)] if people else f"{part}_{split}_{number % 2}"
                ),
                text=text.format(part=part, split=split, letter=chr(97 + number)),
                audio=tone(
                    0.5 + 0.1 * (number % 5),
                    hertz=200 + crc32(f"{part}{split}{number}".encode()) % 3000,
                ),
            )
            for number in range(count)
        ]
        write_parquet(
            root.parent / f"{part}.source" / f"{split}.parquet", written, row_group_size=shard_rows
        )
    options |= {"name": name or part, "corpus": corpus or part, "columns": COLUMNS}
    convert(root.parent / f"{part}.source", root, ConvertOptions(shard_rows=shard_rows, **options))
    return root


def build_two_corpora(root: Path) -> Path:
    """A dataset of one conversion: train of radio and test of tv, each with speakers 0 and 1."""
    folder = root.with_name(f"{root.name}.source")
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.wav").write_bytes(tone(0.5, hertz=200 + 30 * number))
    convert(f"tests.parts.two_corpora:{folder}", root, ConvertOptions(name=root.name))
    return root


def two_corpora(_location: str, _options: ConvertOptions) -> Iterator[dict[str, str]]:
    """Rows of a source of one's own, for `build_two_corpora`."""
    for number in range(4):
        corpus, split = ("radio", "train") if number < 2 else ("tv", "test")
        yield {
            "corpus": corpus,
            "split": split,
            "id": str(number),
            "speaker_id": str(number % 2),
            "text": f"det er ord {number}",
            "audio": f"{number}.wav",
        }
