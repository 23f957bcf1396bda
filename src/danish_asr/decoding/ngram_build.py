"""Build an n-gram language model: sentences, estimate, and a directory that decoders read."""

import json
import shutil
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console

from danish_asr.base.errors import ConfigError, LanguageModelError, MissingExtraError
from danish_asr.base.files import publish, publish_text
from danish_asr.base.progress import Progress
from danish_asr.corpus.shards import find_shards
from danish_asr.decoding.beam import ALPHA, BEAM, BETA
from danish_asr.decoding.ngram import HELD_OUT, SETTINGS_FILE, UNIGRAMS_FILE, find_language_model
from danish_asr.decoding.ngram_estimate import BEGIN, END, SPECIAL, estimate, write_arpa
from danish_asr.decoding.ngram_text import HeldOut, Sentences, read_texts
from danish_asr.scoring.references import read_references
from danish_asr.text.profiles import normalize, normalizer

ORDERS: Final = range(2, 7)
"""KenLM, as its wheels are built, reads n-grams of up to 6 words."""


def build_language_model(
    texts: Sequence[Path],
    out: Path,
    *,
    order: int = 3,
    dataset: Path | None = None,
    profile: str,
    prune: Sequence[int] = (),
    column: str = "text",
    console: Console | None = None,
) -> dict[str, Any]:
    """Build a language model of files and the training transcripts of a dataset.

    No sentence of the dataset's dev and test splits is in it, nor one that contains such a sentence
    of four words or more; see `HeldOut`.

    Args:
        texts: Files that `read_texts` reads.
        out: The new directory: ``<order>gram.arpa``, ``unigrams.txt`` and ``lm.json``. It exists as
            a whole or not at all.
        order: Words in the longest n-grams.
        dataset: Root of a built dataset.
        profile: Text profile of the model's training texts, which its words must equal.
        prune: For each order, n-grams that occur so often or less are left out, as KenLM's
            ``lmplz --prune`` has it; the last value holds for higher orders.
        column: Of Parquet, JSON lines, CSV and TSV.
        console: For progress and the result; default: standard error.

    Returns:
        The content of ``lm.json``.

    Raises:
        ConfigError: ``order``, ``prune`` or ``profile`` is impossible.
        DatasetError: The dataset cannot be read.
        LanguageModelError: A file cannot be read, no text remains, or ``out`` exists.
    """
    console = console or Console(stderr=True, highlight=False, soft_wrap=True)
    prune = _checked_prune(order, prune)
    normalizer(profile)  # an unknown one is refused before anything is read
    if not texts and not dataset:
        raise LanguageModelError("no text: give files with text, --dataset, or both")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise LanguageModelError(f"{out}: exists; delete it or choose another --out")
    transcripts = _transcripts(dataset) if dataset else {}
    held_out = HeldOut([*transcripts.get("dev", ()), *transcripts.get("test", ())])
    sentences = Sentences(profile, held_out)
    number_of: dict[str, int] = {word: number for number, word in enumerate(SPECIAL)}
    tokens = array("q")
    with Progress("reading", console=console) as progress:
        train = transcripts.get("train", [])
        for words in _read_all(sentences, train, texts, column, progress):
            tokens.append(BEGIN)
            tokens.extend(number_of.setdefault(word, len(number_of)) for word in words)
            tokens.append(END)
        if not tokens:
            counts = sentences.counts
            raise LanguageModelError(
                f"no text: {counts.sentences:,} sentences were read and none is left; "
                f"{counts.held_out:,} are in dev or test, {counts.empty:,} have no letter that the "
                f"text profile '{profile}' keeps"
            )
        progress.update(0, total=3 * order - 1)
        numbers = np.frombuffer(tokens, np.int64)
        orders = estimate(numbers, len(number_of), order, prune, progress.advance)
        settings = {
            "order": order,
            "text_profile": profile,
            "alpha": ALPHA,
            "beta": BETA,
            "beam": BEAM,
            "prune": list(prune),
            "sentences": asdict(sentences.counts),
            "words": len(number_of) - len(SPECIAL),
            "ngrams": [int(ngrams.kept.sum()) for ngrams in orders],
            HELD_OUT: len(held_out),
            "sources": [str(path) for path in (dataset, *texts) if path],
        }
        with _published_directory(out) as partial:
            with publish(partial / f"{order}gram.arpa") as stream:
                write_arpa(stream, orders, list(number_of), progress.advance)
            own_words = list(number_of)[len(SPECIAL) :]
            publish_text(partial / UNIGRAMS_FILE, "".join(f"{word}\n" for word in own_words))
            content = json.dumps(settings, ensure_ascii=False, indent=2)
            publish_text(partial / SETTINGS_FILE, f"{content}\n")
    _report(console, out, settings, transcripts.get("dev", []))
    return settings


def _checked_prune(order: int, prune: Sequence[int]) -> list[int]:
    """The counts to prune for each order."""
    faults = []
    if order not in ORDERS:
        faults.append(f"--order: expected {ORDERS[0]} to {ORDERS[-1]}, found {order}")
    padded = [*prune] or [0]
    padded += [padded[-1]] * (order - len(padded))
    if len(padded) > order or padded[0] != 0 or padded != sorted(padded):
        faults.append(
            f"--prune: expected at most {order} numbers, 0 first and none smaller than the one "
            f"before it; found {' '.join(map(str, prune))}"
        )
    if faults:
        raise ConfigError(faults, where="the language model")
    return padded


def _transcripts(dataset: Path) -> dict[str, list[str]]:
    splits = {shard.keys["split"] for shard in find_shards(dataset)}
    return {
        split: [str(row["reference"]) for row in read_references(dataset, split).values()]
        for split in sorted(splits)
    }


def _read_all(
    sentences: Sentences,
    transcripts: Sequence[str],
    texts: Sequence[Path],
    column: str,
    progress: Progress,
) -> Iterator[list[str]]:
    """Yield the words of each sentence of the transcripts and of the files."""
    yield from sentences.of_transcripts(transcripts, progress.advance)
    for file in texts:
        progress.update(text=f"reading {file.name}")
        yield from sentences.of_text(read_texts(file, column), progress.advance)


@contextmanager
def _published_directory(out: Path) -> Iterator[Path]:
    """A directory to write into, which gets the name ``out`` when the block ends."""
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        yield partial
        partial.replace(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _report(console: Console, out: Path, settings: dict[str, Any], dev: Sequence[str]) -> None:
    counts = settings["sentences"]
    console.print(
        f"{counts['sentences']:,} sentences read: {counts['kept']:,} kept ({counts['words']:,} "
        f"words, {settings['words']:,} different), {counts['duplicates']:,} duplicates, "
        f"{counts['held_out']:,} held out (in dev or test), {counts['empty']:,} empty"
    )
    if not settings[HELD_OUT]:
        console.print(
            "warning: no --dataset with dev and test, so their sentences may be in the text and "
            "error rates with this language model too low"
        )
    ngrams = ", ".join(f"{count:,} {n}-grams" for n, count in enumerate(settings["ngrams"], 1))
    console.print(f"{ngrams} in {out}")
    if not dev:
        return
    try:
        model = find_language_model(out).load()
    except MissingExtraError:
        return
    texts = [normalize(text, settings["text_profile"]) for text in dev]
    words = " ".join(texts).split()
    unknown = sum(word not in model for word in words)
    log10 = sum(model.score(text) for text in texts)
    console.print(
        f"dev: perplexity {10 ** (-log10 / (len(words) + len(texts))):.1f} per word, "
        f"{unknown / max(1, len(words)):.2%} of {len(words):,} words unknown"
    )
