"""Manifests: JSON lines, CSV or TSV with the paths of audio files, by default with NeMo's keys.

``audio_filepath`` is relative to the manifest. A line that is not a JSON object, or has more or
fewer fields than the header, is a row as well: it goes to the ledger. TSV has no quoting.
"""

import csv
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Final

from danish_asr.errors import SourceError
from danish_asr.sources import base

_COLUMNS = base.COLUMNS | {"audio": "audio_filepath", "start": "offset", "seconds": "duration"}

_TABLES: Final[dict[str, dict[str, Any]]] = {
    ".csv": {"strict": True},
    ".tsv": {"delimiter": "\t", "quoting": csv.QUOTE_NONE},
}
SUFFIXES: Final = (".jsonl", ".json", *_TABLES)

_GROUP: Final = 1000  # rows that stay together in a shard if they fit

Row = dict[str, Any] | None  # None for a row that cannot be read


@dataclass(frozen=True, kw_only=True)
class ManifestSource(base.Source):
    """A `Source` over manifest files below ``root``."""

    root: Path
    columns: base.Columns

    def read(self, file: base.SourceFile, start: int, stop: int) -> Iterator[base.Utterance]:
        """See `Source.read`."""
        for row, values in _read_rows(self.root / file.name, start, stop):
            found = values and {**values, self.columns["audio"]: self._audio(values)}
            yield base.utterance(found, self.columns, file, row)

    def local_files(self, file: base.SourceFile) -> Iterator[Path]:
        """See `Source.local_files`."""
        yield self.root / file.name
        for _, values in _read_rows(self.root / file.name):
            if (audio := self._audio(values)) is not None:
                yield audio

    def _audio(self, values: Row) -> Path | None:
        path = (values or {}).get(self.columns["audio"])
        return self.root / path if path and isinstance(path, str) else None


def open_manifest(where: str, options: base.SourceOptions) -> ManifestSource:
    """Open a manifest, or all manifests of a folder."""
    corpus, columns = options.checked_corpus(), options.checked_columns(_COLUMNS)
    place = Path(where)

    def open_all() -> Iterator[tuple[base.SourceFile, Collection[str]]]:
        for path in sorted(place.glob("[!.]*")) if place.is_dir() else [place]:
            if path.suffix not in SUFFIXES or not path.is_file():
                continue
            keys, rows = dict[str, None](), 0
            for _, values in _read_rows(path):
                keys |= dict.fromkeys(values or ())
                rows += 1
            status = path.stat()
            yield (
                base.SourceFile(
                    name=path.name,
                    corpus=corpus,
                    split=options.split_of(PurePosixPath(path.name)),
                    row_groups=tuple(min(_GROUP, rows - row) for row in range(0, rows, _GROUP)),
                    fingerprint=f"{status.st_size}-{status.st_mtime_ns}",
                ),
                keys,
            )

    what = f"manifest ({', '.join(SUFFIXES)})"
    files = base.list_files(where, open_all(), {corpus: columns}, options, what)
    root = (place if place.is_dir() else place.parent).resolve()
    return ManifestSource(name=where, files=files, root=root, columns=columns)


def _read_rows(path: Path, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Row]]:
    """Yield the positions and values of rows; blank lines do not count."""
    try:
        if path.suffix in _TABLES:
            yield from islice(enumerate(_read_table(path)), start, stop)
            return
        with path.open("rb") as stream:
            # Lines before the first are skipped, not parsed.
            for row, line in islice(enumerate(filter(bytes.strip, stream)), start, stop):
                try:
                    values = json.loads(line)
                except ValueError:
                    values = None
                yield row, values if isinstance(values, dict) else None
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror or error})") from error


def _read_table(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig", newline="") as stream:
        table = csv.DictReader(stream, **_TABLES[path.suffix])
        try:
            names = table.fieldnames = [name.strip() for name in table.fieldnames or ()]
            if len(set(names)) < len(names):
                raise SourceError(f"{path}: line 1 has a column twice; rename one of them")
            for values in table:
                # Too many fields have the name None, and missing ones this value.
                yield None if None in values or None in values.values() else values
        except (UnicodeDecodeError, csv.Error) as error:
            raise SourceError(
                f"{path}: cannot be read after line {table.reader.line_num - 1} ({error}); "
                'expected UTF-8, and quotes inside quoted fields doubled: "ja, ""tak"""'
            ) from error
