"""The file that ``danish-asr plan --write`` writes says which configuration it makes fit.

Its first comment has a hash of the values that decide memory and disk. A command that lays the
file over other values says so.
"""

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from danish_asr.base.config_tree import Tree, flatten, merge
from danish_asr.base.files import to_yaml

_MARK: Final = "# planned for the configuration sha256:"

_FREE: Final = (
    *("regime.", "lr_scheduler.", "evaluator.", "decoder.", "common."),
    *("dataset.valid_split", "dataset.valid_subset", "dataset.valid_where"),
    # The job scripts set both.
    *("dataset.mixture_parquet_storage_config.dataset_summary_path", "trainer.max_wall_minutes"),
)
"""Keys, or their beginnings, that change neither the memory of a step nor the batches in it."""


def overlay_text(overlay: Tree, planned: Tree, comments: Sequence[str]) -> str:
    """Return an overlay as YAML, with the hash of the configuration that it was ``planned`` for."""
    lines = [f"{_MARK}{_digest(planned)}", *(f"# {comment}" for comment in comments)]
    return "\n".join([*lines, to_yaml(overlay)])


def stale_overlays(
    files: Sequence[Path], trees: Sequence[Tree], overrides: Sequence[Tree]
) -> list[Path]:
    """Return the overlays among ``files`` that were planned for other values than those here.

    ``trees`` has the content of each file. An overlay is laid over the files before it.
    """
    stale = []
    for number, file in enumerate(files):
        first_line = ""
        if file.is_file():  # not a preset of the package
            with file.open(encoding="utf-8") as stream:
                first_line = stream.readline().strip()
        before = merge(*trees[:number], *overrides)
        if first_line.startswith(_MARK) and first_line != f"{_MARK}{_digest(before)}":
            stale.append(file)
    return stale


def _digest(tree: Tree) -> str:
    values = {key: value for key, value in flatten(tree) if not key.startswith(_FREE)}
    return sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:16]
