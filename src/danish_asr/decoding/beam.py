"""CTC beam search with an n-gram language model and hotwords, over processes."""

import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property, partial
from multiprocessing import parent_process
from os import PathLike
from pathlib import Path
from typing import Any, Final, final

import torch
from fairseq2.data.tokenizers import Tokenizer
from torch import Tensor

from danish_asr.base.cluster import usable_cpus
from danish_asr.base.errors import ConfigError, LanguageModelError, MissingExtraError
from danish_asr.base.files import AnyPath, sha256_of
from danish_asr.base.workers import SECONDS_ALONE, WorkerPool
from danish_asr.decoding.greedy import BLANK
from danish_asr.decoding.ngram import HELD_OUT, find_language_model
from danish_asr.decoding.transcript import Alternative
from danish_asr.text.profiles import normalize

ALPHA: Final = 0.5
BETA: Final = 1.5
BEAM: Final = 100
"""Used where neither the configuration nor the language model's ``lm.json`` says otherwise."""

_LIMITS: Final = {
    "alpha": (0, 1e9),
    "beta": (-1e9, 1e9),
    "unknown": (-1e9, 0),
    "beam": (1, 1e9),
    "hotword_weight": (-1e9, 1e9),
    "beam_prune": (-1e9, 0),
    "symbol_prune": (-1e9, 0),
    "workers": (1, 1e9),
    "nbest": (1, 1e9),
}
_WHOLE: Final = {"beam", "workers", "nbest"}

_MOST_FOREIGN: Final = 0.9
"""Of a language model's words, those that the model cannot write; web text has many."""


@final
class BeamDecoder:
    """Finds the text with the best score of model and language model; see `beam_search`.

    ``alpha``, ``beta``, ``beam`` and ``text_profile`` that are None are what ``lm.json`` says, else
    0.5, 1.5, 100 and ``raw``.

    Args:
        tokenizer: One of characters; 0 is the CTC blank.
        lm: The directory or file of a language model (docs/howto/language-model.md), or None.
        hotwords: Words that are expected, or a file with one per line.
        hotword_weight: Added to the score for each hotword, in nats.
        alpha: Weight of the language model.
        beta: Added for each word.
        unknown: Added for a word that the language model does not know, in log10.
        beam: Texts that are kept.
        beam_prune: Texts this much worse than the best one are dropped, in nats.
        symbol_prune: Symbols with a smaller log-probability are not tried in a frame.
        text_profile: How hotwords are normalised: as the model's training texts.
        nbest: Texts that `alternatives` returns, at most ``beam``.
        workers: Processes. None: all usable CPUs, once it has decoded for some seconds.

    Raises:
        ConfigError: A hotword has characters that the tokenizer lacks, or a value is impossible.
        LanguageModelError: There is no language model, or it is broken or does not fit.
        MissingExtraError: pyctcdecode or KenLM are not installed.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        lm: AnyPath | None = None,
        *,
        hotwords: AnyPath | Sequence[str] = (),
        hotword_weight: float = 5.0,
        alpha: float | None = None,
        beta: float | None = None,
        unknown: float = -10.0,
        beam: int | None = None,
        beam_prune: float = -10.0,
        symbol_prune: float = -5.0,
        text_profile: str | None = None,
        nbest: int = 1,
        workers: int | None = None,
    ) -> None:
        try:
            from danish_asr.decoding import beam_search  # noqa: PLC0415 - pyctcdecode is an extra
        except ImportError:
            raise MissingExtraError("the decoder 'beam'", "lm") from None
        weights = {"alpha": alpha, "beta": beta, "beam": beam, "unknown": unknown}
        prunes = {"beam_prune": beam_prune, "symbol_prune": symbol_prune}
        others = {"hotword_weight": hotword_weight, "workers": workers, "nbest": nbest}
        self._saved = saved = check_settings({"lm": lm, **weights, **prunes, **others})
        self._labels = symbols(tokenizer)
        self._characters = {label for label in self._labels if label}
        profile = text_profile or saved.get("text_profile", "raw")
        self.search_settings = beam_search.SearchSettings(
            language_model=str(Path(lm).absolute()) if lm else None,
            hotwords=self._checked_hotwords(hotwords, profile),
            hotword_weight=hotword_weight,
            alpha=saved.get("alpha", ALPHA) if alpha is None else alpha,
            beta=saved.get("beta", BETA) if beta is None else beta,
            unknown=unknown,
            beam=saved.get("beam", BEAM) if beam is None else beam,
            beam_prune=beam_prune,
            symbol_prune=symbol_prune,
        )
        if self.search_settings.language_model:  # a broken one is reported before any audio is read
            self._check_words(beam_search.load(self.search_settings.language_model)[1])
        self._usable = torch.tensor([label is not None for label in self._labels])
        self.nbest = nbest
        self._search = partial(beam_search.search_best, self.search_settings, nbest)
        self._columns = beam_search.Columns
        is_worker_itself = parent_process() is not None  # and then starts no others
        default_workers = 1 if is_worker_itself else usable_cpus()
        self._workers = workers or default_workers
        self._workers_were_chosen = workers is not None  # then they start at once
        self._seconds_alone = 0.0
        self._pool: WorkerPool | None = None

    def __call__(self, logits: Tensor, lengths: Sequence[int]) -> list[str]:
        """Return one text per row of ``logits``, (N, S, V)."""
        return [texts[0].text for texts in self.alternatives(logits, lengths)]

    def alternatives(self, logits: Tensor, lengths: Sequence[int]) -> list[list[Alternative]]:
        """Return up to ``nbest`` texts per row of ``logits``, (N, S, V), the best first."""
        tasks = self.columns(logits, lengths)
        pays = self._workers_were_chosen or self._seconds_alone >= SECONDS_ALONE
        if self._workers == 1 or len(tasks) < 2 or not pays:
            begin = time.monotonic()
            found = [self._search(task) for task in tasks]
            self._seconds_alone += time.monotonic() - begin
            return found
        if self._pool is None:
            self._pool = WorkerPool(self._workers)
            weakref.finalize(self, self._pool.close)
        with self._pool.killed_on_error():
            futures = [self._pool.submit(self._search, task) for task in tasks]
            return [future.result() for future in futures]

    @cached_property
    def settings(self) -> dict[str, object]:
        """What it uses, with the values of ``lm.json``, as JSON has it."""
        settings = asdict(self.search_settings)
        if self.search_settings.language_model:
            file = find_language_model(self.search_settings.language_model).file
            settings["language_model_sha256"] = sha256_of(file)
            if HELD_OUT in self._saved:
                settings[HELD_OUT] = self._saved[HELD_OUT]
        return settings

    def columns(self, logits: Tensor, lengths: Sequence[int]) -> list[Any]:
        """Return what `beam_search.search` takes of each row of ``logits``, (N, S, V)."""
        log_probs = logits.float().log_softmax(dim=-1)
        log_probs[..., ~self._usable] = -torch.inf
        return [self._columns_of(row[:n]) for row, n in zip(log_probs, lengths, strict=True)]

    def _columns_of(self, log_probs: Tensor) -> Any:
        """The columns of an utterance, (S, V), in which a symbol is likely enough to be tried."""
        # Of a vocabulary of 10,000 symbols, about a hundred remain to be sent to a process.
        tried = (log_probs >= self.search_settings.symbol_prune).any(dim=0)
        tried[log_probs.argmax(dim=-1)] = True
        numbers = tried.nonzero().flatten()
        labels = [str(self._labels[number]) for number in numbers.tolist()]
        return self._columns(log_probs[:, numbers].cpu().numpy(), labels)

    def _checked_hotwords(self, hotwords: AnyPath | Iterable[str], profile: str) -> tuple[str, ...]:
        if isinstance(hotwords, str | PathLike):
            try:
                hotwords = Path(hotwords).read_text("utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                fault = f"decoder.config.hotwords: {hotwords} cannot be read ({error})"
                raise ConfigError([fault]) from error
        words = [normalize(hotword, profile) for hotword in hotwords]
        foreign = [word for word in words if not self._characters.issuperset(word)]
        if foreign:
            lacks = " ".join(sorted(set("".join(foreign)) - self._characters))
            fault = f"'{foreign[0]}' has characters that the tokenizer lacks: {lacks}"
            raise ConfigError(
                [f"decoder.config.hotwords: {fault}; text_profile normalises hotwords"]
            )
        return tuple(dict.fromkeys(word for word in words if word))

    def _check_words(self, words: Sequence[str]) -> None:
        foreign = [word for word in words if not self._characters.issuperset(word)]
        if len(foreign) > _MOST_FOREIGN * len(words):
            raise LanguageModelError(
                f"{self.search_settings.language_model}: the model cannot write {len(foreign):,} "
                f"of its {len(words):,} words, such as {', '.join(foreign[:3])}; build it with the "
                "model's text profile (`danish-asr lm build`)"
            )


def check_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Check the arguments of `BeamDecoder`, and return what is saved beside the language model."""
    lm = config.get("lm")
    if not isinstance(lm, str | PathLike | None):
        raise ConfigError([f"decoder.config.lm: expected a path, found {lm!r}"])
    saved = find_language_model(lm).settings if lm else {}
    values = {**saved, **{name: value for name, value in config.items() if value is not None}}
    faults = []
    for name, (low, high) in _LIMITS.items():
        value = values.get(name, low)
        whole = name in _WHOLE
        right_type = isinstance(value, int) if whole else isinstance(value, int | float)
        if right_type and low <= value <= high:
            continue
        kind = "whole number" if whole else "number"
        limits = f"from {low:g} to {high:g}"
        faults.append(f"decoder.config.{name}: expected a {kind} {limits}, found {value!r}")
    if faults:
        raise ConfigError(faults)
    return saved


def symbols(tokenizer: Tokenizer) -> list[str | None]:
    """What each index of a tokenizer writes: '' for the CTC blank, None for special symbols."""
    decode = tokenizer.create_decoder(skip_special_tokens=True)
    size = tokenizer.vocab_info.size
    # Between two letters, because a space at the end of a text is removed.
    letter = next(i for i in range(size) if decode(torch.tensor([i])).isalpha())
    edge = decode(torch.tensor([letter]))
    texts = [decode(torch.tensor([letter, i, letter]))[len(edge) : -len(edge)] for i in range(size)]
    written: list[str | None] = [text or None for text in texts]
    for special in (tokenizer.vocab_info.unk_idx, BLANK):
        if special is not None:
            written[special] = "" if special == BLANK else None
    return written
