"""N-gram language models on disk: ARPA files and KenLM binaries, and what stands beside them.

A directory holds one ``*.arpa`` or ``*.bin``, ``unigrams.txt`` (its words, one per line) and
``lm.json``. The directory ``language_model`` of Hugging Face's ``Wav2Vec2ProcessorWithLM`` is read
too: it has ``attrs.json`` instead. Imports neither torch nor fairseq2, so that worker processes
start fast.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from danish_asr.base.errors import LanguageModelError, MissingExtraError
from danish_asr.base.files import AnyPath

SETTINGS_FILE: Final = "lm.json"
HELD_OUT: Final = "held_out_sentences"
"""In ``lm.json``: the number of dev and test sentences that its text was searched for."""

NOTHING_HELD_OUT: Final = (
    "the language model was built without --dataset, so its text may have sentences of this split; "
    "the error rates are then too low"
)

KENLM_FORBIDS: Final = -100.0
"""log10 of KenLM's probability of an unknown word where the file lacks ``<unk>``."""

UNIGRAMS_FILE: Final = "unigrams.txt"
_HUGGING_FACE_FOLDER: Final = "language_model"
_HUGGING_FACE_SETTINGS: Final = "attrs.json"
_SUFFIXES: Final = (".arpa", ".bin", ".binary", ".klm", ".kenlm")


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
                words = unigrams.read_text("utf-8").split()
            elif self.file.suffix == ".arpa":
                words = _words_of_arpa(self.file)
            else:
                words = _words_of_binary(self.file)
        except (OSError, UnicodeDecodeError) as error:
            raise LanguageModelError(f"{self.file}: its words cannot be read ({error})") from error
        words = sorted(set(words) - {"<s>", "</s>", "<unk>"})
        if not words:
            raise LanguageModelError(
                f"{self.file}: knows no words; write them to {unigrams}, one per line"
            )
        return words

    def knows_unknown(self) -> bool:
        """Whether it has a probability for unknown words, ``<unk>``; else KenLM forbids them."""
        if self.file.suffix == ".arpa":  # read as text, as loading takes its whole size in memory
            return "<unk>" in _words_of_arpa(self.file)
        return bool(self.load().score("<unk>", bos=False, eos=False) > KENLM_FORBIDS)

    def load(self) -> Any:
        """Return a ``kenlm.Model``.

        Raises:
            LanguageModelError: It is broken, or of another order than its ``lm.json`` says.
            MissingExtraError: KenLM is not installed.
        """
        try:
            import kenlm  # noqa: PLC0415 - an extra
        except ImportError:
            raise MissingExtraError("a language model", "lm") from None
        config = kenlm.Config()
        config.show_progress, config.arpa_complain = False, kenlm.ARPALoadComplain.NONE
        try:
            model = kenlm.Model(str(self.file), config)
        except (OSError, RuntimeError) as error:
            raise LanguageModelError(
                f"{self.file}: is no ARPA file or KenLM binary, or is damaged: {error}"
            ) from error
        if self.settings.get("order", model.order) != model.order:
            raise LanguageModelError(
                f"{self.file}: has order {model.order}; {SETTINGS_FILE} beside it says "
                f"{self.settings['order']}"
            )
        return model


def find_language_model(path: AnyPath) -> LanguageModelFiles:
    """Find the language model in a directory, or of a file.

    Raises:
        LanguageModelError: There is none, or several, or its settings cannot be read.
    """
    path = Path(path)
    if (path / _HUGGING_FACE_FOLDER).is_dir():
        path /= _HUGGING_FACE_FOLDER
    if path.is_file():
        files = [path]
    elif path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
    else:
        raise LanguageModelError(f"{path}: no such directory or file of a language model")
    if len(files) != 1:
        names = ", ".join(file.name for file in files) or "none"
        raise LanguageModelError(
            f"{path}: expected one file with a suffix of {', '.join(_SUFFIXES)}; found {names}"
        )
    # Links, such as those of Hugging Face's cache, are not resolved: the others stand beside them.
    return LanguageModelFiles(files[0], _read_settings(files[0]))


def _read_settings(file: Path) -> dict[str, Any]:
    for name in (SETTINGS_FILE, _HUGGING_FACE_SETTINGS):
        settings = file.with_name(name)
        if settings.is_file():
            try:
                return dict(json.loads(settings.read_text("utf-8")))
            except (OSError, ValueError, TypeError) as error:
                raise LanguageModelError(f"{settings}: is no JSON object ({error})") from error
    return {}


def _words_of_arpa(file: Path) -> list[str]:
    words = []
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("\\1-grams:"):
                break
        for line in lines:
            if line.startswith("\\"):
                break
            words += line.split()[1:2]
    return words


def _words_of_binary(file: Path) -> list[str]:
    # KenLM appends its words, each ended by a zero byte, "<unk>" first, unless asked not to.
    _, mark, words = file.read_bytes().rpartition(b"<unk>\0")
    return words.decode().split("\0") if mark else []
