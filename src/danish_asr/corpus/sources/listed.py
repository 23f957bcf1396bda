"""Corpora whose text files list utterances, with the audio in files of its own.

A corpus gives one function, which yields the rows of one list under our names of columns
(`sources.base.COLUMNS`): ``audio`` as a path, and in addition ``age_group`` where the corpus has no
years, and ``refused``, why the corpus's format excludes a row.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Final

from danish_asr.base.errors import SourceError
from danish_asr.corpus.sources import base
from danish_asr.corpus.sources.manifest import read_rows

Row = Mapping[str, Any] | None  # None for a row that cannot be read
Rows = Callable[[Path, int], Iterable[Any]]
"""The rows of the list at a path, from a position on, in any form that is fast to make."""
Values = Callable[[Path, str, Any], Row]
"""The values of one of them, from the root, the list's path below it, and the row."""

AUDIO_SUFFIXES: Final = (
    *(".wav", ".flac", ".mp3", ".ogg", ".opus", ".aif", ".aiff"),
    *(".m4a", ".mp4", ".aac", ".webm"),
)

_COLUMNS: Final = base.COLUMNS | {"start": "start", "seconds": "seconds"}
_GROUP: Final = 1000  # rows that stay together in a shard if they fit


@dataclass(frozen=True, kw_only=True)
class ListedSource(base.Source):
    """A `Source` over lists below ``root``."""

    root: Path
    rows: Rows
    values: Values
    columns: base.Columns

    def read(self, file: base.SourceFile, start: int, stop: int) -> Iterator[base.Utterance]:
        """See `Source.read`."""
        for row, values in self._read(file, start, stop):
            found = base.utterance(values, self.columns, file, row)
            if group := (values or {}).get("age_group"):
                found = replace(found, speaker=replace(found.speaker, age_group=group))
            yield replace(found, refused=(values or {}).get("refused") or found.refused)

    def local_files(self, file: base.SourceFile) -> Iterator[Path]:
        """See `Source.local_files`."""
        place = self.root / file.name
        if place.is_file():
            yield place
        for _, values in self._read(file, 0, file.rows):
            yield from (value for value in (values or {}).values() if isinstance(value, Path))

    def _read(self, file: base.SourceFile, start: int, stop: int) -> Iterator[tuple[int, Row]]:
        place = self.root / file.name
        try:
            for row, raw in enumerate(islice(self.rows(place, start), stop - start), start):
                yield row, self.values(self.root, file.name, raw)
        except (OSError, UnicodeDecodeError) as error:
            raise SourceError(f"{place}: cannot be read ({error})") from error


def open_lists(
    where: str,
    options: base.SourceOptions,
    lists: Callable[[Path], Iterable[Path]],
    rows: Rows,
    values: Values,
    *,
    what: str,
    corpus_of: Callable[[str, str], str] = lambda _, corpus: corpus,
    split_of: Callable[[PurePosixPath], str] | None = None,
) -> ListedSource:
    """Open the lists of a folder; ``corpus_of`` takes the name of a list, and ``--corpus``."""
    corpus, columns = options.checked_corpus(), options.checked_columns(_COLUMNS)
    folder = Path(where).resolve()
    if not folder.is_dir():
        raise SourceError(f"{where}: not a folder")
    root = folder.parent  # the folder's own name may be the split

    def open_all() -> Iterator[tuple[base.SourceFile, Collection[str]]]:
        for path in sorted(lists(folder)):
            name = path.relative_to(root).as_posix()
            count, first = 0, None
            try:
                for raw in rows(path, 0):
                    first = first or values(root, name, raw)
                    count += 1
            except (OSError, UnicodeDecodeError) as error:
                raise SourceError(f"{path}: cannot be read ({error})") from error
            status = path.stat()
            file = base.SourceFile(
                name=name,
                corpus=corpus_of(path.name, corpus),
                split=(split_of or options.split_of)(PurePosixPath(name)),
                row_groups=tuple(min(_GROUP, count - row) for row in range(0, count, _GROUP)),
                fingerprint=f"{status.st_size}-{status.st_mtime_ns}",
            )
            yield file, tuple(columns.values() if first is None else first)

    found = list(open_all())
    of_corpus = {file.corpus: columns for file, _ in found}
    files = base.list_files(where, found, of_corpus, options, what)
    return ListedSource(
        name=where, files=files, root=root, rows=rows, values=values, columns=columns
    )


def read_lines(path: Path, start: int) -> list[str]:
    """The lines of a text file that are not blank."""
    lines = path.read_text(encoding="utf-8-sig").split("\n")
    return [line for line in lines if line.strip()][start:]


def read_table(path: Path, start: int) -> Iterator[dict[str, Any] | None]:
    """The rows of a table with a header."""
    return (values for _, values in read_rows(path, start))


def find_audio(stem: Path) -> Path:
    """The audio file with this path before its suffix; the ``.wav`` if there is none."""
    paths = (stem.with_name(stem.name + suffix) for suffix in AUDIO_SUFFIXES)
    return next((path for path in paths if path.is_file()), stem.with_name(f"{stem.name}.wav"))


def resolve_audio(path: str, folder: Path) -> Path:
    """A path of a list that was written elsewhere: relative to its folder or one above it."""
    places = [place / path for place in (folder, *folder.parents[:4])]
    return next((place for place in places if place.is_file()), places[0])
