"""The shards of a combined dataset: hard links to those of its parts."""

import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from danish_asr.base.errors import DatasetError
from danish_asr.base.files import publish, sha256_of
from danish_asr.base.schema import SAMPLE_RATE, VERSION_DIR
from danish_asr.corpus.parts import Part
from danish_asr.corpus.shard_check import ShardFindings
from danish_asr.corpus.shards import ShardEntry


def check_links(out: Path, parts: Iterable[Part]) -> None:
    """Raise `DatasetError` if a part's shards cannot be linked; nothing is changed."""
    probe = out / ".link.partial"  # `sweep` removes it after a kill
    for part in parts:
        for entry in part.inventory.shards[:1]:
            try:
                probe.hardlink_to((part.root / entry.path).resolve())
            except OSError as error:
                raise DatasetError(
                    f"{part.root}: its shards cannot be linked to {out} ({error.strerror}). Choose "
                    f"an --out on its file system, or add --copy ({_gigabytes(parts):.1f} GB)"
                ) from None
            finally:
                probe.unlink(missing_ok=True)


def _gigabytes(parts: Iterable[Part]) -> float:
    paths = (part.root / entry.path for part in parts for entry in part.inventory.shards)
    return sum(path.stat().st_size for path in paths) / 1e9


def placed(part: Part, shard: ShardFindings, out: Path, *, copy: bool) -> ShardEntry:
    """Link or copy a shard, unless that was done before; returns its entry."""
    folder, _, file = shard.entry.path.rpartition("/")
    entry = replace(
        shard.entry,
        path=f"{folder}/{part.name}~{file}",  # a name has no ~
        files=[f"{part.name}/{file}" for file in shard.entry.files],
        excluded_rows=len(shard.excluded),
        excluded_seconds=shard.excluded_samples / SAMPLE_RATE,
    )
    source, target = (part.root / shard.entry.path).resolve(), out / entry.path
    if target.is_file():
        linked = target.samefile(source)
        if not copy if linked else sha256_of(target) == entry.sha256:
            return entry
    target.parent.mkdir(parents=True, exist_ok=True)
    if copy:
        with publish(target) as stream, source.open("rb") as content:
            shutil.copyfileobj(content, stream)
    else:
        target.unlink(missing_ok=True)
        target.hardlink_to(source)
    return entry


def remove_other_shards(out: Path, paths: set[str]) -> None:
    """Remove all files among the shards that have none of these paths."""
    for path in sorted((out / VERSION_DIR).rglob("*"), reverse=True):  # folders after their files
        if path.is_dir():
            with suppress(OSError):  # not empty
                path.rmdir()
        elif path.relative_to(out).as_posix() not in paths:
            path.unlink()
