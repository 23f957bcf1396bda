"""Conversion from Python, as ``danish-asr convert`` does it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from danish_asr.base.files import AnyPath
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus import convert as conversion
from danish_asr.corpus.command import check_options
from danish_asr.corpus.inventory import Inventory
from danish_asr.corpus.sources import SourceOptions, open_source


def convert(
    source: AnyPath,
    out: AnyPath,
    *,
    name: str,
    corpus: str | None = None,
    columns: Mapping[str, str] | None = None,
    split: str | None = None,
    workers: int = 1,
    **options: Any,
) -> Inventory:
    """Convert a corpus into a dataset, or continue where an earlier call was stopped.

    Args:
        source: A folder, a manifest or ``KIND:WHERE``, as for ``danish-asr convert``.
        out: The root of the dataset. A finished dataset of the same source and options is kept.
        name: The name of the dataset's card, by which a training finds it.
        corpus: The name of the corpus; None is ``name``, or that of a corpus such as CoRal.
        columns: The names of the source's columns by ours, such as ``{"text": "sentence"}``.
        split: The split of all rows; None infers it from the names of files, or from a column;
            with ``split_by_speaker``, the split of the rows of which they say none is train.
        workers: Processes. With more than one, a script needs ``if __name__ == "__main__":``.
        options: The fields of `ConvertOptions`, such as ``split_by_speaker="80/10/10"``.

    Returns:
        The inventory of the dataset: rows, hours, shards, and what was left out, with the reasons.

    Raises:
        ConfigError: An option has an impossible value.
        SourceError: The source cannot be read, or changed during the conversion.
        DatasetError: ``out`` holds something else, or more rows than ``max_drop`` were left out.
    """
    checked = ConvertOptions(**options)
    check_options(checked, name)
    pairs = tuple(f"{ours}={theirs}" for ours, theirs in (columns or {}).items())
    described = SourceOptions(
        corpus=corpus,
        columns=pairs,
        split=split,
        name=name,
        by_speaker=checked.split_by_speaker is not None,
    )
    opened = open_source(str(source), described)
    return conversion.convert(opened, Path(out), name=name, options=checked, workers=workers)
