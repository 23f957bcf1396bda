"""What a number is of: in every file that `score` and `compare` write.

In: predictions files, with the ``evaluation.json`` beside each if there is one, and the dataset in
which they were looked up. Out: plain data for JSON, columns for CSV, a line for figures.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from danish_asr import __version__
from danish_asr.base.files import AnyPath, sha256_of
from danish_asr.corpus.inventory import name_of
from danish_asr.recipe.run.evaluations import evaluation_of
from danish_asr.scoring.predictions import Source

_OF_FILE: Final = ("file", "predictions_sha256")
_OF_EVALUATION: Final = ("model", "checkpoint", "step", "dataset", "where")


def about_of(source: Source, dataset: AnyPath | None = None) -> dict[str, Any]:
    """Return the ``evaluation.json`` of a file, or only the name of the dataset that is given.

    It is empty without either.
    """
    about = evaluation_of(source) if isinstance(source, Path) else {}
    return about if about or dataset is None else {"dataset": name_of(Path(dataset))}


def origin(files: Iterable[Path], dataset: AnyPath | None = None) -> dict[str, Any]:
    """Return the version of this program and, per file, its hash, model, dataset and splits.

    What is not known of a file, as of another program's, is None.
    """
    return {"version": __version__, "files": [_origin_of_file(file, dataset) for file in files]}


def _origin_of_file(file: Path, dataset: AnyPath | None) -> dict[str, Any]:
    about = about_of(file, dataset)
    own: dict[str, Any] = dict(zip(_OF_FILE, (str(file), sha256_of(file)), strict=True))
    own |= {key: about.get(key) for key in _OF_EVALUATION}
    return own | {"splits": sorted(about.get("rows_in_split") or ())}


def origin_columns(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the same for a table, the values of several files with commas."""
    columns: dict[str, str] = {"version": document["version"]}
    for key in (*_OF_FILE, "model", "checkpoint", "dataset"):
        values = [file[key] for file in document["files"] if file[key] is not None]
        columns[key] = ", ".join(map(str, dict.fromkeys(values)))
    return columns


def origin_lines(document: Mapping[str, Any]) -> Sequence[str]:
    """Return a line per file and one of the version, for captions and comments."""
    lines = [f"danish-asr {document['version']}"]
    for file in document["files"]:
        known = {key: file[key] for key in (*_OF_EVALUATION, _OF_FILE[1]) if file[key] is not None}
        parts = ", ".join(f"{key} {value}" for key, value in known.items())
        lines.append(f"{file['file']}: {parts}")
    return lines
