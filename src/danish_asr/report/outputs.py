"""Files that a command writes: each path is declared with its function before any work.

In: names by the user. Out: paths, companions included, and the function that makes each content.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

from danish_asr.base.errors import ConfigError
from danish_asr.base.files import AnyPath, publish, refuse_overwriting


class Content(NamedTuple):
    """What is written to a file, and what to say of it."""

    data: bytes
    notes: Sequence[str] = ()

    @classmethod
    def of_text(cls, text: str) -> "Content":
        """Return a text as UTF-8."""
        return cls(text.encode())


Result = TypeVar("Result")
Write: TypeAlias = Callable[[Result], Content]


def outputs_by_end(paths: Iterable[AnyPath], ends: Iterable[str]) -> dict[str, Path]:
    """Return each output by the end of its name.

    Raises:
        ConfigError: A name has another end, two names have the same, or it is a directory.
    """
    endings = list(ends)
    outputs: dict[str, Path] = {}
    faults: list[str] = []
    for path in map(Path, paths):
        end = next((end for end in endings if path.name.endswith(end)), None)
        if end is None:
            faults.append(f"{path}: expected a name that ends in {', '.join(endings)}")
        elif end in outputs:
            faults.append(f"{path}: one file can end in {end}, and {outputs[end]} does")
        elif path.is_dir():
            faults.append(f"{path} is a directory; choose another file")
        else:
            outputs[end] = path
    if faults:
        raise ConfigError(faults, where="the list of outputs")
    return outputs


def declared(
    writes: Iterable[tuple[Path, Write[Result]]],
    inputs: Iterable[AnyPath],
    *,
    option: str = "--out",
) -> dict[Path, Write[Result]]:
    """Return the function of each path that will be written.

    Raises:
        ConfigError: Two contents would be in one file, or one would replace an input; ``option``
            names others.
    """
    functions: dict[Path, Write[Result]] = {}
    twice: list[str] = []
    for path, write in writes:
        if path in functions:
            twice.append(f"{path} is written beside another output; choose another name")
        functions[path] = write
    if twice:
        raise ConfigError(twice, where="the list of outputs")
    refuse_overwriting(functions, inputs, option=option)
    return functions


def write_all(functions: Mapping[Path, Write[Result]], result: Result) -> list[str]:
    """Write all files and return their notes; a fault in one content leaves no half report."""
    contents = {path: write(result) for path, write in functions.items()}
    for path, content in contents.items():
        with publish(path) as stream:
            stream.write(content.data)
    return [note for content in contents.values() for note in content.notes]
