"""Build an n-gram language model: sentences, estimate, and a directory that decoders read."""

import json
import shutil
from array import array
from collections.abc import Callable, Sequence
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
from danish_asr.decoding.language_model.estimate import (
    BEGIN,
    END,
    SPECIAL,
    Order,
    estimate,
    write_arpa,
)
from danish_asr.decoding.language_model.text import HeldOut, Sentences, read_lines
from danish_asr.decoding.ngram import SETTINGS_FILE, UNIGRAMS_FILE, find_language_model
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
        texts: Files that `read_lines` reads.
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
    prune = _checked(order, prune)
    normalizer(profile)  # an unknown one is refused before anything is read
    if not texts and not dataset:
        raise LanguageModelError("no text: give files with text, --dataset, or both")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise LanguageModelError(f"{out}: exists; delete it or choose another --out")
    splits = _transcripts(dataset) if dataset else {}
    held_out = HeldOut([*splits.get("dev", ()), *splits.get("test", ())])
    sentences = Sentences(profile, held_out)
    numbers: dict[str, int] = {word: number for number, word in enumerate(SPECIAL)}
    tokens = array("q")
    with Progress("reading", console=console) as progress:
        sources = [(str(dataset), splits.get("train", []))] if dataset else []
        for name, lines in [*sources, *((str(file), read_lines(file, column)) for file in texts)]:
            progress.update(text=f"reading {Path(name).name}")
            running = name != str(dataset)  # transcripts are in no order
            for words in sentences.of(lines, progress.advance, running=running):
                tokens.append(BEGIN)
                tokens.extend(numbers.setdefault(word, len(numbers)) for word in words)
                tokens.append(END)
        if not sentences.counts.kept:
            counts = sentences.counts
            raise LanguageModelError(
                f"no text: {counts.sentences:,} sentences were read and none is left; "
                f"{counts.held_out:,} are in dev or test, {counts.empty:,} have no letter that the "
                f"text profile '{profile}' keeps"
            )
        progress.update(0, total=3 * order - 1)
        counted = np.frombuffer(tokens, np.int64)
        orders = estimate(counted, len(numbers), order, prune, progress.advance)
        settings = {
            "order": order,
            "text_profile": profile,
            "alpha": ALPHA,
            "beta": BETA,
            "beam": BEAM,
            "prune": list(prune),
            "sentences": asdict(sentences.counts),
            "words": len(numbers) - len(SPECIAL),
            "ngrams": [int(each.kept.sum()) for each in orders],
            "held_out_sentences": len(held_out),
            "sources": [str(dataset), *map(str, texts)] if dataset else [*map(str, texts)],
        }
        _write(out, orders, list(numbers), settings, progress.advance)
    _report(console, out, settings, splits.get("dev", []))
    return settings


def _checked(order: int, prune: Sequence[int]) -> list[int]:
    faults = []
    if order not in ORDERS:
        faults.append(f"--order: expected {ORDERS[0]} to {ORDERS[-1]}, found {order}")
    padded = [*prune, *[prune[-1] if prune else 0] * order][: max(order, len(prune))]
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


def _write(
    out: Path,
    orders: Sequence[Order],
    words: Sequence[str],
    settings: dict[str, Any],
    step: Callable[[str], object],
) -> None:
    """Write the directory under another name and rename it."""
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with publish(partial / f"{len(orders)}gram.arpa") as stream:
            write_arpa(stream, orders, words, step)
        publish_text(
            partial / UNIGRAMS_FILE, "".join(f"{word}\n" for word in words[len(SPECIAL) :])
        )
        text = json.dumps(settings, ensure_ascii=False, indent=2)
        publish_text(partial / SETTINGS_FILE, f"{text}\n")
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
    if not settings["held_out_sentences"]:
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
    words = [word for text in texts for word in text.split()]
    unknown = sum(word not in model for word in words)
    log10 = sum(model.score(text) for text in texts)
    console.print(
        f"dev: perplexity {10 ** (-log10 / (len(words) + len(texts))):.1f} per word, "
        f"{unknown / max(1, len(words)):.2%} of {len(words):,} words unknown"
    )
