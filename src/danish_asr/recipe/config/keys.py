"""The keys of a configuration and their defaults, without the import of PyTorch and fairseq2.

``defaults.yaml`` is the dump of a configuration without values; a test writes it (UPDATE_GOLDEN=1)
and fails if it is stale. Types and the keys of other optimizers and schedules are checked later, by
`danish_asr.recipe.config.loading`.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from danish_asr.base.config_tree import Tree, flatten, join, unknown_key
from danish_asr.base.files import from_yaml

FILE: Final = Path(__file__).with_name("defaults.yaml")

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
    f"dataset.{section}.{key}" for section, keys in _IGNORED.items() for key in keys.split()
)
"""Keys that upstream has and `danish_asr.recipe.data` ignores."""


@cache
def _default_tree() -> Tree:
    tree: Tree = from_yaml(FILE.read_text(encoding="utf-8"))
    return tree


@cache
def defaults() -> Tree:
    """Return the default of each dotted key."""
    return dict(flatten(_default_tree()))


def key_faults(tree: Tree) -> list[str]:
    """Return unknown keys, and values in the place of a section, as faults."""
    return list(_faults(tree, _default_tree(), ""))


def _faults(tree: Mapping[str, Any], section: Tree, path: str) -> Iterator[str]:
    other_component = "name" in tree and tree["name"] != section.get("name")
    for key, value in tree.items():
        dotted = join(path, key)
        if key not in section:
            yield unknown_key(dotted, key, section)
        elif not isinstance(section[key], dict) or not section[key]:
            continue  # a value, or a mapping of names that the user chooses
        elif key == "config" and other_component:
            continue
        elif isinstance(value, Mapping):
            yield from _faults(value, section[key], dotted)
        elif value is not None:
            yield no_section(dotted, value)


def no_section(path: str, value: object) -> str:
    """Return the fault of a value in the place of a section."""
    return f"{path} must be a mapping of keys, but is {value!r}"
