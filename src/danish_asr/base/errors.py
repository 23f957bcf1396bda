"""Every error that a user can cause, as one tree, notes, and what guards the code of users.

Each message says what was found and what to do. Entry points print it and exit with one of the
statuses below; only our own bugs show a traceback.
"""

import re
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pkgutil import resolve_name
from typing import Any, Final

EXIT_FAILED: Final = 1
"""A run that had begun to write cannot continue."""

EXIT_REFUSED: Final = 2
"""The configuration or the output directory was refused; nothing was started."""

EXIT_STOPPED: Final = 75
"""The run saved its state before it was complete (EX_TEMPFAIL); the same command continues it."""


def note(text: str) -> None:
    """Print a note for the user, beside what a program writes to its standard output."""
    print(f"note: {text}", file=sys.stderr)  # noqa: T201


class DanishAsrError(Exception):
    """Base of all errors that the user can fix."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle for another process; Python would call ``__init__`` with the message."""
        return Exception.__new__, (type(self), *self.args), self.__dict__


class AudioError(Exception):
    """An utterance's audio cannot be used; the message is its reason in the ledger."""


class SourceError(DanishAsrError):
    """A corpus source cannot be read."""


class DatasetError(DanishAsrError):
    """A built dataset is missing, unfinished or breaks its contract."""


class IncompleteDatasetError(DatasetError):
    """The shards of a built dataset are not those that its inventory lists."""


class ConfigError(DanishAsrError):
    """A configuration has ``faults``, each with the dotted key, the rule and the value found."""

    def __init__(self, faults: Sequence[str], *, where: str = "the configuration") -> None:
        self.faults = tuple(faults)
        count = "one fault" if len(self.faults) == 1 else f"{len(self.faults)} faults"
        super().__init__("\n".join([f"{where} has {count}:", *(f"  - {f}" for f in self.faults)]))


class DownloadError(DanishAsrError):
    """A file cannot be downloaded."""


class UnreachableError(DownloadError):
    """A server cannot be reached, or ends connections."""


class RunError(DanishAsrError):
    """An output directory or a checkpoint does not fit the request."""


class RunFailedError(DanishAsrError):
    """A run that had begun cannot continue."""


class ExtensionError(RunFailedError):
    """A user's own source, transform or decoder failed (docs/howto)."""


class PredictionsError(DanishAsrError):
    """A predictions file breaks its contract."""


class TranscriptionError(DanishAsrError):
    """Audio cannot be transcribed."""


class AlignmentError(DanishAsrError):
    """A text cannot be aligned with audio."""


class LanguageModelError(DanishAsrError):
    """A language model, or the text it is built from, cannot be used."""


class MissingExtraError(DanishAsrError):
    """An optional dependency is needed and not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the extra '{extra}': pip install 'danish-asr[{extra}]'")


def names_code(name: object) -> bool:
    """Whether `find_named` would import what is named; no name in its tables has such a sign."""
    return bool({":", "."} & {*str(name)})


def find_named(name: str, table: Mapping[str, Any], key: str) -> Any:
    """Return ``table[name]`` or what ``package.module:name`` names; else raises ConfigError.

    It imports code, so a name must come from the user. Names in files that came with data or
    weights are checked before, by `text.profiles.profile_in` or `recipe.config.load.named_code`.
    """
    if name in table:
        return table[name]
    try:
        if not names_code(name):
            raise ImportError("there is no such name")  # noqa: TRY301
        return resolve_name(name)
    except Exception as error:  # whatever the import of a user's module raises
        close = get_close_matches(str(name), table, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        expected = f"{key} must be one of {', '.join(sorted(table))}, or 'package.module:name'"
        reason = f"{type(error).__name__}: {error}{hint}"
        raise ConfigError([f"{expected}, but is {name!r} ({reason})"]) from error


@contextmanager
def user_code(code: object, doing: str) -> Iterator[None]:
    """Turn an exception of a user's ``code`` into an ExtensionError that says where it was."""
    try:
        yield
    except DanishAsrError:
        raise
    except Exception as error:
        module = getattr(code, "__module__", type(code).__module__)
        if module.split(".")[0] == "danish_asr":
            raise
        name = getattr(code, "__qualname__", type(code).__qualname__)
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if "site-packages" not in frame.filename] or frames
        raise ExtensionError(
            f"{module}.{name} failed, {doing}: {type(error).__name__}: {error} "
            f"({own[-1].filename}, line {own[-1].lineno})"
        ) from error


def refused_content(error: Exception) -> str:
    """Return what torch did not load as a checkpoint, without its advice to load it anyway."""
    code = re.search(r"GLOBAL (\S+)|function (.+)", str(error))
    if code is None:
        return "the file is damaged, or is not a checkpoint"
    return f"the file holds code, {code[1] or code[2]}"
