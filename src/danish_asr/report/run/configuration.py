"""How a run's configuration differs from the defaults, and where each value is from."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from danish_asr.base.config_tree import flatten, merge, parse_override, read_yaml
from danish_asr.base.errors import ConfigError
from danish_asr.recipe.config.keys import defaults
from danish_asr.recipe.run.run_directory import ENVIRONMENT

_COMPONENTS: Final = ("optimizer", "lr_scheduler")
_COMMAND_LINE: Final = "command line"
_START: Final = "model.path"


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
    usual, layers = _defaults(config), _layers(run)
    started = [layer[_START] for layer in layers.values() if layer.get(_START)]
    if started:  # config.yaml has the name of its card, in model.name
        config = {**config, _START: str(started[-1])}
    found = []
    for key, value in config.items():
        if key not in usual or value != usual[key]:
            said = {name: shown(layer[key]) for name, layer in layers.items() if key in layer}
            default = shown(usual[key]) if key in usual else ""
            found.append(Change(key, shown(value), default, said))
    return found


def _defaults(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults; another optimizer or schedule than the usual one has none."""
    usual = defaults()
    for section in _COMPONENTS:
        if config.get(f"{section}.name") != usual[f"{section}.name"]:
            settings = f"{section}.config."
            usual = {key: value for key, value in usual.items() if not key.startswith(settings)}
    return usual


def _layers(run: Path) -> dict[str, dict[str, Any]]:
    """Return the flat configurations in the commands of the run's starts, the last one wins."""
    layers: dict[str, dict[str, Any]] = {}
    overrides = []
    for start in json.loads((run / ENVIRONMENT).read_text(encoding="utf-8")):
        for argument in start["command"][1:]:
            # --config-file=FILE and -c FILE name files, key=value needs no option or --config.
            text = argument.partition("=")[2] if argument.startswith("-") else argument
            if "=" in text:
                overrides.append(parse_override(text))
            elif text.endswith((".yaml", ".yml")):
                with suppress(ConfigError):  # moved, or named from another directory
                    layers[Path(text).name] = dict(flatten(read_yaml(Path(text))))
    return layers | ({_COMMAND_LINE: dict(flatten(merge(*overrides)))} if overrides else {})


def shown(value: Any) -> str:
    """Return a value of a configuration as text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
