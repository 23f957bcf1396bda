"""CTC beam search with an n-gram language model and hotwords, over processes."""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import Any, final

import torch
from fairseq2.data.tokenizers import Tokenizer
from torch import Tensor

from danish_asr.base.cluster import usable_cpus
from danish_asr.base.errors import ConfigError, LanguageModelError, MissingExtraError, note
from danish_asr.base.files import AnyPath, sha256_of
from danish_asr.base.workers import SECONDS_ALONE, WorkerPool
from danish_asr.decoding.beam_settings import SearchSettings, search_settings
from danish_asr.decoding.ctc import BLANK
from danish_asr.decoding.ngram import HELD_OUT, SETTINGS_FILE, find_language_model
from danish_asr.decoding.transcript import Alternative
from danish_asr.text.profiles import normalize, profile_in


@final
class BeamDecoder:
    """Finds the text with the best score of model and language model; see `beam_search`.

    Args:
        tokenizer: One of characters; 0 is the CTC blank.
        lm: The directory or file of a language model (docs/howto/language-model.md), or None.
        hotwords: Words that are expected, or a file with one per line.
        text_profile: How hotwords are normalised: as the model's training texts. None: what
            ``lm.json`` says, which names one of `PROFILES`, else ``raw``.
        workers: Processes. None: all usable CPUs, once it has decoded for some seconds.
        search: Fields of `SearchSettings`. Of alpha, beta and beam, ``lm.json`` has the defaults.

    Raises:
        ConfigError: A hotword has characters that the tokenizer lacks, or a value is impossible, or
            ``lm.json`` names code.
        LanguageModelError: There is no language model, it is broken, or the tokenizer lacks
            characters of most of its words.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        lm: AnyPath | None = None,
        *,
        hotwords: AnyPath | Sequence[str] = (),
        text_profile: str | None = None,
        workers: int | None = None,
        **search: float | None,
    ) -> None:
        try:
            from danish_asr.decoding import beam_search  # noqa: PLC0415 - pyctcdecode is an extra
        except ImportError:
            raise MissingExtraError("the decoder 'beam'", "lm") from None
        settings = search_settings({"lm": lm, **search})
        saved: Mapping[str, Any] = find_language_model(lm).settings if lm else {}
        self._held_out = saved.get(HELD_OUT)
        self._labels = symbols(tokenizer)
        self._characters = {label for label in self._labels if label}
        self._usable = torch.tensor([label is not None for label in self._labels])
        if hotwords and lm and not text_profile and "text_profile" in saved:
            file = find_language_model(lm).file.with_name(SETTINGS_FILE)
            remedy = "name it yourself: decoder.config.text_profile=NAME"
            text_profile = profile_in(file, saved["text_profile"], remedy)
        words = self._checked_hotwords(hotwords, text_profile or "raw")
        self.search_settings = replace(settings, hotwords=words)
        if settings.language_model:  # a broken one is reported before any audio is read
            beam_search.load(settings.language_model)
            self._check_words(settings.language_model)
        self._columns, self._search = beam_search.Columns, beam_search.search
        self._workers = workers or usable_cpus()
        self._seconds_before_pool = 0.0 if workers else SECONDS_ALONE
        self._pool: WorkerPool | None = None

    def __call__(self, log_probs: Sequence[Tensor]) -> list[str]:
        """Return the text of each utterance, (S, V)."""
        return [texts[0].text for texts in self.alternatives(log_probs, 1)]

    def alternatives(self, log_probs: Sequence[Tensor], count: int) -> list[list[Alternative]]:
        """Return up to ``count`` texts of each utterance, (S, V), the best first."""
        return self.search([self.columns(row) for row in log_probs], self.search_settings, count)

    def columns(self, log_probs: Tensor) -> Any:
        """The part of an utterance, (S, V), in which a symbol is likely enough to be tried."""
        # Of a vocabulary of 10,000 symbols, about a hundred remain to be sent to a process.
        log_probs = log_probs.masked_fill(~self._usable.to(log_probs.device), -torch.inf)
        tried = (log_probs >= self.search_settings.symbol_prune).any(dim=0)
        tried[log_probs.argmax(dim=-1)] = True
        numbers = tried.nonzero().flatten()
        labels = [str(self._labels[number]) for number in numbers.tolist()]
        return self._columns(log_probs[:, numbers].cpu().numpy(), labels)

    def search(
        self, utterances: Sequence[Any], settings: SearchSettings, count: int = 1
    ) -> list[list[Alternative]]:
        """Return up to ``count`` texts of each utterance, as `columns` has it, the best first."""
        search = partial(self._search, settings, count)
        if self._workers == 1 or len(utterances) < 2 or self._seconds_before_pool > 0:
            begin = time.monotonic()
            texts = [search(utterance) for utterance in utterances]
            self._seconds_before_pool -= time.monotonic() - begin
            return texts
        if self._pool is None:
            self._pool = WorkerPool(self._workers)
        with self._pool.killed_on_error():
            futures = [self._pool.submit(search, utterance) for utterance in utterances]
            return [future.result() for future in futures]

    @cached_property
    def settings(self) -> dict[str, object]:
        """What it uses, with the values of ``lm.json``, as JSON has it."""
        settings = asdict(self.search_settings)
        if self.search_settings.language_model:
            settings["language_model_sha256"] = sha256_of(Path(self.search_settings.language_model))
            if self._held_out is not None:
                settings[HELD_OUT] = self._held_out
        return settings

    def _check_words(self, lm: str) -> None:
        """Say how many words of a language model can be written; below half, refuse it."""
        words = find_language_model(lm).words()
        written = sum(self._characters.issuperset(word) for word in words)
        share = f"the model can write {written:,} of the {len(words):,} words of {lm}"
        if written < len(words) / 2:
            other = next(word for word in words if not self._characters.issuperset(word))
            raise LanguageModelError(
                f"{share}, and not '{other}'; build it again, `danish-asr lm build --model` gives "
                "its text the form that the model writes"
            )
        if written < len(words) and os.environ.get("LOCAL_RANK", "0") == "0":
            note(share)

    def _checked_hotwords(self, hotwords: AnyPath | Iterable[str], profile: str) -> tuple[str, ...]:
        if isinstance(hotwords, str | PathLike):
            try:
                hotwords = Path(hotwords).read_text("utf-8-sig").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError([f"decoder.config.hotwords: cannot be read ({error})"]) from error
        words = [normalize(hotword, profile) for hotword in hotwords]
        for word in words:
            if lacking := sorted({*word} - self._characters):
                fault = f"'{word}' has characters that the tokenizer lacks: {' '.join(lacking)}"
                raise ConfigError([f"decoder.config.hotwords: {fault}"])
        return tuple(dict.fromkeys(word for word in words if word))


def symbols(tokenizer: Tokenizer) -> list[str | None]:
    """What each index of a tokenizer writes: '' for the CTC blank, None for special symbols."""
    decode = tokenizer.create_decoder()
    size = tokenizer.vocab_info.size
    # Between two letters, because a space at the end of a text is removed.
    letter = next(i for i in range(size) if decode(torch.tensor([i])).isalpha())
    edge = decode(torch.tensor([letter]))
    texts = [decode(torch.tensor([letter, i, letter]))[len(edge) : -len(edge)] for i in range(size)]
    written: list[str | None] = [text or None for text in texts]
    if tokenizer.vocab_info.unk_idx is not None:
        written[tokenizer.vocab_info.unk_idx] = None
    written[BLANK] = ""
    return written
