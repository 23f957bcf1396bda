"""N-gram language models on disk: ARPA files and KenLM binaries, and what stands beside them.

A directory holds one ``*.arpa`` or ``*.bin``, ``unigrams.txt`` (its words, one per line; an ARPA
file has them too) and ``lm.json``. Imports neither torch nor fairseq2, so that worker processes
start fast.
"""

import json
from dataclasses import dataclass
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any, Final

from danish_asr.base.errors import LanguageModelError
from danish_asr.base.files import AnyPath

SETTINGS_FILE: Final = "lm.json"
HELD_OUT: Final = "held_out_sentences"
"""In ``lm.json``: the number of dev and test sentences that its text was searched for."""

NOTHING_HELD_OUT: Final = (
    "the language model was built without --dataset, so its text may have sentences of this split; "
    "the error rates are then too low"
)

UNIGRAMS_FILE: Final = "unigrams.txt"
_SUFFIXES: Final = (".arpa", ".bin")


@dataclass(frozen=True)
class LanguageModelFiles:
    """Where a language model is, and its settings (``alpha``, ``beta``, ``text_profile``, ...)."""

    file: Path
    settings: dict[str, Any]

    def words(self) -> list[str]:
        """Return all words that it knows, sorted; raises LanguageModelError if there are none."""
        unigrams = self.file.with_name(UNIGRAMS_FILE)
        try:
            if unigrams.is_file():
                words = set(unigrams.read_text("utf-8-sig").split())
            else:
                words = set(_words_of_arpa(self.file))
        except (OSError, UnicodeDecodeError) as error:
            raise LanguageModelError(f"{self.file}: its words cannot be read ({error})") from error
        if not words:
            raise LanguageModelError(
                f"{self.file}: has no words; write them to {unigrams}, one per line"
            )
        return sorted(words - {"<s>", "</s>", "<unk>"})


def find_language_model(path: AnyPath) -> LanguageModelFiles:
    """Find the language model in a directory, or of a file.

    Raises LanguageModelError if there is none, or several, or its settings cannot be read.
    """
    path = Path(path)
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
    elif not path.is_file():
        raise LanguageModelError(f"{path}: no such directory or file of a language model")
    if len(files) != 1:
        names = ", ".join(file.name for file in files) or "none"
        raise LanguageModelError(
            f"{path}: expected one file with a suffix of {', '.join(_SUFFIXES)}, but has {names}"
        )
    settings = files[0].with_name(SETTINGS_FILE)
    try:
        values = json.loads(settings.read_text("utf-8-sig")) if settings.is_file() else {}
    except (OSError, ValueError) as error:
        raise LanguageModelError(f"{settings}: cannot be read as JSON ({error})") from error
    return LanguageModelFiles(files[0], values)


def files_beside(path: Path) -> list[Path]:
    """Return what is read of a language model in a directory, or of a file, with the file."""
    if path.is_dir():
        return [path / UNIGRAMS_FILE, path / SETTINGS_FILE]
    return [path, path.with_name(UNIGRAMS_FILE), path.with_name(SETTINGS_FILE)]


def _words_of_arpa(file: Path) -> list[str]:
    with file.open(encoding="utf-8") as lines:
        ngrams = dropwhile(lambda line: not line.startswith("\\1-grams:"), lines)
        next(ngrams, None)
        unigrams = takewhile(lambda line: not line.startswith("\\"), ngrams)
        return [word for line in unigrams for word in line.split()[1:2]]
