"""Cross-validation by speaker: datasets of the same shards, in each of which others are tested.

A fold of the speakers has shards of its own. They are converted once and have a hard link in each
dataset, below the split that they are in there.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from danish_asr.base.errors import DatasetError
from danish_asr.base.files import publish
from danish_asr.base.schema import INVENTORY_FILE
from danish_asr.base.workers import run_in_processes
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.convert import Conversion, Engine, locked
from danish_asr.corpus.shard import Record
from danish_asr.corpus.shards import Inventory, read_inventory
from danish_asr.corpus.sources.base import Source


def convert_folds(
    source: Source,
    out: Path,
    *,
    name: str,
    options: ConvertOptions,
    workers: int = 1,
    engine: Engine | None = None,
) -> dict[Path, Inventory]:
    """Convert a source to ``options.folds`` datasets, or continue; returns their inventories.

    They are ``OUT/fold-1`` and so on, and their names are ``NAME_fold1`` and so on. The first is
    completed last: its shards are those that the others link to.

    Raises:
        SourceError: The source cannot be read, has too few speakers or changed.
        DatasetError: ``out`` holds something else, or too many rows were dropped.
    """
    if (out / INVENTORY_FILE).is_file():
        raise DatasetError(f"{out}: holds a dataset, which is none of folds; choose another --out")
    folds = range(1, (options.folds or 0) + 1)
    names = {out / f"fold-{fold}": f"{name}_fold{fold}" for fold in folds}
    conversions = {
        root: Conversion(source, root, replace(options, fold=fold))
        for fold, root in zip(folds, names, strict=True)
    }
    (first_root, first), *others = conversions.items()
    with locked(out):
        if not first.is_finished(names[first_root]):
            records = first.run(engine or partial(run_in_processes, workers=workers))
            for root, conversion in others:
                if not conversion.is_finished(names[root]):
                    conversion.complete(_link(records, first, conversion), names[root])
            first.complete(records, names[first_root])
    return {root: read_inventory(root) for root in names}


def _link(records: Sequence[Record], one: Conversion, other: Conversion) -> list[Record]:
    """Link the shards of one dataset into another; return the records that belong there."""
    linked = []
    for record, task, own in zip(records, one.tasks, other.tasks, strict=True):
        suspects = [row | {"split": own.split} for row in record.suspects]
        linked.append(replace(record, suspects=suspects))
        if record.rows:
            shard, link = one.out / task.path, other.out / own.path
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            try:
                link.hardlink_to(shard)
            except OSError:  # a file system without hard links
                with publish(link) as stream:
                    stream.write(shard.read_bytes())
    return linked
