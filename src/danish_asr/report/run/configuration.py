"""How a run's configuration differs from the defaults, and where each value is from."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from danish_asr.errors import ConfigError
from danish_asr.files import from_yaml
from danish_asr.recipe.config import AsrConfig
from danish_asr.recipe.loading import flatten, inspect, read_yaml, unstructure
from danish_asr.recipe.run_directory import ENVIRONMENT

_COMPONENTS: Final = ("optimizer", "lr_scheduler")
_COMMAND_LINE: Final = "command line"


class Change(NamedTuple):
    """A value that is not the default; ``layers`` has what each file or command line says of it."""

    key: str
    value: str
    default: str
    layers: dict[str, str]


def changes(run: Path, config: Mapping[str, Any]) -> list[Change]:
    """Compare ``config``, by dotted key, with the defaults.

    A file of a start that is not there any more has no layer.
    """
    named = {name: {"name": config[f"{name}.name"]} for name in _COMPONENTS}
    defaults = dict(flatten(unstructure(inspect(AsrConfig, named)[0])))
    layers = _layers(run)
    found = []
    for key, value in config.items():
        if key not in defaults or value != defaults[key]:
            said = {name: _shown(layer[key]) for name, layer in layers.items() if key in layer}
            default = _shown(defaults[key]) if key in defaults else ""
            found.append(Change(key, _shown(value), default, said))
    return found


def _layers(run: Path) -> dict[str, dict[str, Any]]:
    """Return the flat configurations in the commands of the run's starts, the last one wins."""
    layers: dict[str, dict[str, Any]] = {}
    overrides: dict[str, Any] = {}
    for start in json.loads((run / ENVIRONMENT).read_text(encoding="utf-8")):
        for argument in start["command"][1:]:
            name = argument.partition("=")[2] if argument.startswith("-") else argument
            key, equals, value = name.partition("=")
            if name.endswith((".yaml", ".yml")) and not equals:
                try:
                    layers[Path(name).name] = dict(flatten(read_yaml(Path(name))))
                except ConfigError:  # moved, or named from another directory
                    continue
            elif equals:
                tree: Any = from_yaml(value)
                for part in reversed(key.removeprefix("set:").split(".")):
                    tree = {part: tree}
                overrides |= flatten(tree)
    return layers | ({_COMMAND_LINE: overrides} if overrides else {})


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
