"""What to say of a folder or a file of no known kind: what is in it, and the shortest way."""

import csv
import io
import tarfile
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Final

from danish_asr.base.files import walk
from danish_asr.corpus.sources.base import AUDIO_SUFFIXES

TAR_SUFFIXES: Final = (".tar", ".tar.gz", ".tgz")

_FIRST: Final = {
    (".gz",): "gunzip it first",
    (".zip", ".7z", ".rar"): "unpack it first",
    (".xlsx", ".xls", ".ods", ".numbers"): "save it as CSV in UTF-8",
}
"""What to do with files that are not read, by their suffixes."""

_DOCUMENTS: Final = (".docx", ".doc", ".odt", ".rtf", ".pdf")


def describe_unknown(place: Path) -> str:
    """Why nothing in a folder, or a file, is recognised, and what to do."""
    files = [place]
    if place.is_dir():
        files = [Path(parent, name) for parent, names in walk(place) for name in names]
    counts = Counter(path.suffix.lower() or "no ending" for path in files)
    listed = ", ".join(f"{count:,} of {suffix}" for suffix, count in counts.most_common(6))
    folder = place if place.is_dir() else place.parent
    return (
        f"not a known kind of source; found {listed or 'no files'}. {_advice(folder, files)}. "
        "`danish-asr convert --list` shows all kinds; docs/howto/add-a-corpus.md adds one"
    )


def unpacking(tar: Path) -> str:
    """How to unpack an archive, with names of what is in it."""
    try:
        with tarfile.open(tar) as archive:
            names = ", ".join(member.name for member in islice(archive, 2))
    except (OSError, tarfile.TarError):
        return f"{tar.name} is no archive that can be read; download it again"
    return f"{tar.name} is an archive (of {names}, ...): unpack it, tar -xf {tar.name}"


def _advice(folder: Path, files: list[Path]) -> str:
    recordings = [path for path in files if path.name.lower().endswith(AUDIO_SUFFIXES)]
    stems = {path.stem for path in recordings}
    for path in files:
        name = path.name.lower()
        if name.endswith(TAR_SUFFIXES):
            return unpacking(path)
        for suffixes, advice in _FIRST.items():
            if name.endswith(suffixes):
                return f"{path.name}: {advice}"
        if name.endswith(_DOCUMENTS) and path.stem in stems:  # others describe the corpus
            return f"{path.name}: save it as text in UTF-8, {path.stem}.txt"
    if not recordings:
        return "Expected recordings with texts, or a table of them"
    row = io.StringIO()
    example = recordings[0].relative_to(folder)
    csv.writer(row, lineterminator="").writerow([example, "its words", "anna"])
    texts = (path.relative_to(folder) for path in files if path.suffix.lower() == ".txt")
    apart = "".join(f"No recording beside {path} has its name. " for path in islice(texts, 1))
    return (
        f"{apart}Write a table into the folder, such as recordings.csv, with the header "
        f"path,text,speaker and rows such as {row.getvalue()} (docs/howto/write-a-table.md has a "
        "script; speaker is optional, split can be another column)"
    )
