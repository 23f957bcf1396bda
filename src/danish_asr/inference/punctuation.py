"""Punctuation and capital letters for a transcript, from a model of Hugging Face."""

# ruff: noqa: PLC0415 # transformers takes seconds to import

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

from danish_asr.base.errors import DanishAsrError, MissingExtraError
from danish_asr.decoding.transcript import Segment, Transcript, Word

_LABEL: Final = re.compile(r"([.,:;?!]|[O0])([UO]?)")
"""A mark, or O for none, and U for a capital letter."""

_SENTENCE_ENDS: Final = tuple(".?!")

_WINDOW: Final = 100
"""Words that the model reads at once; BERT takes 512 tokens."""

_MARGIN: Final = 25
"""Words at the edges of a window, whose labels come from its neighbour."""


class Punctuator:
    """Adds marks and capital letters with a token classification model.

    A label is of a word's first token: a mark that follows the word or ``O``, and ``U`` where it
    has a capital letter, as in ``Alvenir/bert-punct-restoration-da``.
    """

    def __init__(self, name: str) -> None:
        """Load the model of a directory or a name.

        Raises:
            MissingExtraError: transformers is not installed.
            DanishAsrError: There is no such model, or its labels are others.
        """
        if find_spec("transformers") is None:
            raise MissingExtraError("--punctuate", "punctuate")
        from transformers import AutoModelForTokenClassification, AutoTokenizer

        place = _downloaded(name)
        try:
            tokenizer: Any = AutoTokenizer.from_pretrained(place)  # type: ignore[no-untyped-call]
            self._tokenizer = tokenizer
            self._model: Any = AutoModelForTokenClassification.from_pretrained(place).eval()
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0][:120]
            raise DanishAsrError(
                f"--punctuate {name}: cannot be loaded ({reason}); name a model for token "
                f"classification; without a network, run `hf download {name}` first"
            ) from error
        self._labels: dict[int, str] = self._model.config.id2label
        if others := [label for label in self._labels.values() if not _LABEL.fullmatch(label)]:
            raise DanishAsrError(
                f"--punctuate {name}: has labels such as {', '.join(others[:5])}; expected marks "
                "such as '.', ',', 'O' for none, and 'U' for a capital letter as in 'OU'"
            )

    def __call__(self, transcript: Transcript) -> Transcript:
        """Return a transcript with marks at its words; a sentence has a single speaker."""
        segments: list[Segment] = []
        for _, group in groupby(transcript.segments, key=lambda segment: segment.speaker_name):
            turn = [*group]
            words = iter(self._words([word for segment in turn for word in segment.words]))
            segments += [replace(s, words=[next(words) for _ in s.words]) for s in turn]
        return replace(transcript, segments=segments)

    def _words(self, words: Sequence[Word]) -> list[Word]:
        texts = [re.sub(r"\W+", "", word.text).lower() or word.text for word in words]
        result, begins = [], True
        for word, label in zip(words, self._labels_of(texts), strict=True):
            mark, case = label[0], label[1:]
            text = word.text if mark in "O0" else word.text.rstrip(".,:;?!") + mark
            if begins or case == "U":
                text = text[:1].upper() + text[1:]
            begins = text.endswith(_SENTENCE_ENDS)
            result.append(replace(word, text=text))
        return result

    def _labels_of(self, texts: Sequence[str]) -> list[str]:
        """Return the label of each word, from the window where it is farthest from the edges."""
        labels: list[str] = []
        for begin in range(0, len(texts), _WINDOW - 2 * _MARGIN):
            found = self._window(texts[begin : begin + _WINDOW])
            labels[begin + (_MARGIN if begin else 0) :] = found[_MARGIN if begin else 0 :]
            if begin + _WINDOW >= len(texts):
                break
        return labels

    @torch.inference_mode()
    def _window(self, texts: Sequence[str]) -> list[str]:
        longest = min(self._tokenizer.model_max_length, 512)
        tokens = self._tokenizer(
            [*texts],
            is_split_into_words=True,
            truncation=True,
            max_length=longest,
            return_tensors="pt",
        )
        best = self._model(**tokens).logits[0].argmax(dim=-1).tolist()
        labels = ["O"] * len(texts)  # of words that are cut off
        for token, word in reversed([*enumerate(tokens.word_ids(0))]):
            if word is not None:
                labels[word] = self._labels[best[token]]
        return labels


def _downloaded(name: str) -> str:
    """Return the directory of a model that is here, so that the hub is not asked."""
    if Path(name).is_dir():
        return name
    try:
        return snapshot_download(name, local_files_only=True)
    except (LocalEntryNotFoundError, HFValidationError):
        return name
