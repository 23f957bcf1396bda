"""Corpora whose text files list utterances, with the audio in files of its own.

A corpus gives two functions: one yields the raw rows of a list, the other makes their values, named
like our columns (`base.COLUMNS`), with ``audio`` as a path. It may add ``age_group`` where the
corpus has no years, and ``refused``, why the corpus's format excludes a row.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

from danish_asr.base.errors import SourceError
from danish_asr.base.tables import read_rows
from danish_asr.corpus.sources import base
from danish_asr.corpus.sources.metadata import utterance

Values = Mapping[str, Any] | None
"""The values of a row; None if it cannot be read."""

RawRows = Callable[[Path, int], Iterable[Any]]
"""The raw rows of the list at a path, from a position on, in any form that is fast to make."""

ValuesOf = Callable[[Path, str, Any], Values]
"""The values of a raw row, from the root, the list's path below it, and the raw row."""

_COLUMNS: Final = base.COLUMNS | {"start": "start", "seconds": "seconds"}


@dataclass(frozen=True, kw_only=True)
class ListedSource(base.Source):
    """A `Source` over lists below ``root``."""

    root: Path
    raw_rows: RawRows
    values_of: ValuesOf
    columns: base.Columns

    def read(self, file: base.SourceFile, start: int, stop: int) -> Iterator[base.Utterance]:
        """See `Source.read`."""
        for row, values in enumerate(self._values(file, start, stop), start):
            read = utterance(values, self.columns, file, row)
            if values and values.get("age_group"):
                read = replace(read, speaker=replace(read.speaker, age_group=values["age_group"]))
            if values and values.get("refused"):
                read = replace(read, refused=values["refused"])
            yield read

    def local_files(self, file: base.SourceFile) -> Iterator[Path]:
        """See `Source.local_files`."""
        listed_in = self.root / file.name
        if listed_in.is_file():
            yield listed_in
        for values in self._values(file, 0, file.rows):
            yield from (value for value in (values or {}).values() if isinstance(value, Path))

    def _values(self, file: base.SourceFile, start: int, stop: int) -> Iterator[Values]:
        path = self.root / file.name

        def rows(first: int) -> Iterator[Any]:
            return _checked_rows(self.raw_rows, path, first)

        key = path, self.raw_rows, file.fingerprint
        for raw_row in base.read_on(key, rows, start, stop):
            yield self.values_of(self.root, file.name, raw_row)


def open_lists(
    location: str,
    options: base.SourceOptions,
    lists: Callable[[Path], Iterable[Path]],
    raw_rows: RawRows,
    values_of: ValuesOf,
    *,
    what: str,
    corpus: str = "",
    corpus_of: Callable[[str, str], str] = lambda _, corpus: corpus,
    split_of: Callable[[PurePosixPath], str] | None = None,
) -> ListedSource:
    """Open the ``lists`` of a folder; ``corpus`` is the name without ``--corpus``.

    ``corpus_of`` takes the name of a list and that of the corpus.
    """
    options = replace(options, corpus=options.corpus or corpus)
    corpus, columns = options.checked_corpus(), options.checked_columns(_COLUMNS)
    place = Path(location).resolve()
    if not place.is_dir() and not (place.is_file() and place in lists(place)):
        raise SourceError(f"{location}: not a folder")
    folder = place if place.is_dir() else place.parent
    root = folder.parent  # the folder's own name may be the split
    listing = base.FileListing(location, options, what)
    for path in sorted(lists(place)):
        name = path.relative_to(root).as_posix()
        names: Iterable[str] = ()
        count = 0
        for raw_row in _checked_rows(raw_rows, path, 0):
            names = names or values_of(root, name, raw_row) or ()
            count += 1
        file = base.SourceFile(
            name=name,
            corpus=corpus_of(path.name, corpus),
            split=(split_of or options.split_of)(PurePosixPath(name)),
            row_groups=base.row_groups(count),
            fingerprint=base.fingerprint(path),
        )
        listing.add(file, tuple(names or columns.values()), columns)
    return ListedSource(
        name=location,
        files=listing.checked(),
        root=root,
        raw_rows=raw_rows,
        values_of=values_of,
        columns=columns,
    )


def _checked_rows(raw_rows: RawRows, path: Path, start: int) -> Iterator[Any]:
    try:
        yield from raw_rows(path, start)
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"{path}: cannot be read ({error})") from error


def read_table(path: Path, start: int) -> Iterator[dict[str, Any] | None]:
    """The rows of a table with a header; None for one that is malformed."""
    return (row.values for row in read_rows(path, SourceError, start))
