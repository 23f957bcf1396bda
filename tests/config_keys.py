"""The keys of the configuration as a golden file has them, and one key alone, loaded."""

from pathlib import Path
from typing import Any

from danish_asr.base.config_tree import merge, nested, value_of
from danish_asr.base.errors import ConfigError
from danish_asr.recipe.config.keys import table
from danish_asr.recipe.config.load import load, unstructure

GOLDEN = Path(__file__).parent / "golden" / "keys.txt"


def lines_of_keys() -> list[str]:
    """What each key may be, and its default."""
    return [f"{row.key}: {row.values} = {row.default}" for row in table() if row.values]


def loaded(key: str, value: object) -> Any:
    """The value of a key that was set so, or the key that is refused."""
    sound = {"model": {"name": "m"}, "dataset": {"name": "d"}}
    try:
        return value_of(unstructure(load(merge(sound, nested(key, value)), where="")), key)
    except ConfigError as error:
        (fault,) = error.faults
        return fault.split()[0]
