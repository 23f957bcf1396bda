"""The keys of a configuration with their types, without the import of what defines them.

``keys.txt`` is written from the sections of `danish_asr.recipe.config.config`, whose import takes
seconds; a test compares both (UPDATE_GOLDEN=1 writes it again). It has a line for each key,
``key: type = default`` with the default in JSON. The keys of a component other than the default are
in ``config<name>``.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, Final

from danish_asr.base.config_tree import Tree, join, unknown_key

FILE: Final = Path(__file__).with_name("keys.txt")

DTYPES: Final = ("float32", "bfloat16", "float16")
DTYPE: Final = "float32, bfloat16 or float16"
_ONE_OF: Final = "one of "

_SIMPLE: Final = {"bool": bool, "str": str, "Path": str | Path, "None": NoneType}

_IGNORED: Final = {
    "mixture_parquet_storage_config": "sync_batches sync_mode pa_cpu_count max_workers "
    "num_prefetch parquet_path_name sampling_seed",
    "mixture_parquet_storage_config.fragment_streaming": "parquet_path name weight "
    "split_to_row_groups seed fragment_shuffle_window files_circular_shift nb_epochs limit "
    "filesystem",
    "mixture_parquet_storage_config.fragment_loading": "columns rename_columns "
    "add_fragment_traces drop_null min_batch_size non_deterministic_read use_threads nb_prefetch "
    "num_parallel_fragments cache cache_dir",
    "manifest_storage_config": "sync_batches sync_mode read_text cached_fd_count",
    "asr_task_config": "unified_audio_feature_keys npc num_prefetch seed",
}

NO_EFFECT: Final = tuple(
    f"{section}.{key}" for section, keys in _IGNORED.items() for key in keys.split()
)
"""Keys below ``dataset`` that upstream has and `danish_asr.recipe.data` ignores."""


def _lines() -> Iterator[list[str]]:
    for line in FILE.read_text(encoding="utf-8").splitlines():
        yield re.split(": | = ", line, maxsplit=2)


@cache
def defaults() -> Tree:
    """Return the default of each dotted key."""
    return {path: json.loads(default) for path, _, default in _lines()}


@cache
def known_keys() -> Tree:
    """Return the types of all keys, nested as in a configuration."""
    tree: Tree = {}
    for path, kind, _ in _lines():
        *sections, key = path.split(".")
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
        node[key] = kind
    return tree


def key_faults(tree: Tree) -> list[str]:
    """Return unknown keys, and values that are certainly of a wrong type, as faults."""
    return [*_faults(tree, known_keys(), "")]


def _faults(tree: Mapping[str, Any], known: Tree, path: str) -> Iterator[str]:
    name = tree.get("name")
    misnamed = name is not None and is_wrong(name, str(known.get("name")))
    for key, value in tree.items():
        where = join(path, key)
        kind = known.get(f"{key}<{name}>", known.get(key))
        if misnamed and key == "config":
            continue  # which keys it has is unknown
        if kind is None:
            yield unknown_key(where, key, [each for each in known if "<" not in each])
        elif isinstance(kind, str):
            if is_wrong(value, kind):
                yield wrong_type(where, kind, value)
        elif isinstance(value, Mapping):
            yield from _faults(value, kind, where)
        elif value is not None:
            yield no_section(where, value)


def is_wrong(value: Any, kind: str) -> bool:
    """Whether a value is certainly not of a type, as ``keys.txt`` has it, or is not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        return True
    return not any(_may_be(value, each) for each in kind.split(" | "))


def _may_be(value: Any, kind: str) -> bool:
    if kind.startswith(_ONE_OF):
        return value in kind.removeprefix(_ONE_OF).split(", ")
    if kind.startswith("Sequence["):
        return isinstance(value, list | tuple)
    if kind == DTYPE:
        return str(value).removeprefix("torch.") in DTYPES
    if kind not in {"int", "float"}:
        return kind not in _SIMPLE or isinstance(value, _SIMPLE[kind])
    try:  # a number may be given as a string
        return not isinstance(value, bool) and (float(value) % 1 == 0 or kind == "float")
    except (TypeError, ValueError):
        return False


def one_of(names: Iterable[str]) -> str:
    """Return the type of a key that has these values."""
    return f"{_ONE_OF}{', '.join(names)}"


def wrong_type(path: str, kind: str, value: object) -> str:
    """Return the fault of a value that a key of this type cannot have."""
    return f"{path} must be {kind}, but is {value!r}"


def no_section(path: str, value: object) -> str:
    """Return the fault of a value in the place of a section."""
    return f"{path} must be a mapping of keys, but is {value!r}"
