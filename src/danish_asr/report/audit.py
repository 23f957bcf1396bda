"""``danish-asr audit``: the rows of a dataset whose transcript a model contradicts."""

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple

from rapidfuzz.fuzz import ratio
from rapidfuzz.process import extractOne
from rich.console import Console

from danish_asr.base.errors import ConfigError
from danish_asr.base.files import publish_text
from danish_asr.metrics import align_words, split_words
from danish_asr.report.components import render_template
from danish_asr.report.dataset_rows import MAX_PAGE_BYTES, Clips, Rows, read_rows
from danish_asr.report.heard import Heard, Key, hear
from danish_asr.report.tables import light_table, print_table, say, warn
from danish_asr.scoring.contradictions import (
    KINDS,
    OTHER_TEXT,
    UNCLEAR,
    Contradiction,
    Judgement,
    contradicted_by_all,
    judge,
)
from danish_asr.scoring.settings import Settings

_ON_PAGE: Final = 300
"""Rows of the page; the table has all."""

_FEW: Final = 100
"""Rows of a model below which its usual gap is hardly known."""

_SAME_TEXT: Final = 85
"""Per cent: how similar a hypothesis is to the text of the recording that it is."""


def audit(
    root: Path,
    models: Sequence[Path],
    out: Path,
    *,
    profile: str = "coral",
    console: Console | None = None,
) -> int:
    """Write a page, and a table beside it, of the rows that all models contradict.

    Returns their number. A row is judged by the models that were not trained on it, if any.

    Args:
        root: A built dataset.
        models: Runs with an evaluation of its rows, or predictions files.
        out: The page; the table has the same name and ends in ``.csv``.
        profile: The text normalisation.
        console: Where to print.

    Raises:
        ConfigError: ``out`` is a directory, or has another suffix.
        DatasetError: There is no built dataset, or it is damaged.
        PredictionsError: A model has transcribed no row, has no confidences, or is too weak.
    """
    console, settings = console or Console(stderr=True), Settings(profile=profile)
    if out.is_dir() or out.suffix != ".html":
        raise ConfigError(
            [f"--out: expected a file that ends in .html; found {out}"], where="audit"
        )
    with console.status("reading the dataset and the predictions"):
        rows = read_rows(root)
        ids, texts = (rows.table[name].to_pylist() for name in ("id", "text"))
        numbers = {key: number for number, key in enumerate(zip(ids, texts, strict=True))}
        heard = [hear(model, root, numbers) for model in models]
        judgements = list(_judgements(heard, settings))
        listed = contradicted_by_all(judgements)
        of_other = _texts_of_others(listed, dict(zip(ids, texts, strict=True)), settings)
        notes = list(_notes(heard, judgements, rows))
        judged = len({name for model in heard for name in model.rows})
        page = _Page(rows, numbers, listed, of_other, judged, notes)
        publish_text(out, page.render(root, models))
        publish_text(out.with_suffix(".csv"), _table(listed, of_other))
    _print(listed, judged, notes, console)
    say(f"wrote {out}, and the list to {out.with_suffix('.csv')}", console)
    return len(listed)


def _print(
    listed: Sequence[Contradiction], judged: int, notes: Iterable[str], console: Console
) -> None:
    for note in notes:
        warn(note, console)
    if listed:
        table = light_table(["kind", "rows", "of the judged"])
        lines = [
            [kind, f"{count:,}", f"{count / judged:.2%}"] for kind, count in _counts(listed).items()
        ]
        print_table(table, {"": lines}, [], console)
    say(f"{len(listed):,} of {judged:,} judged rows are contradicted", console)


def _judgements(heard: Sequence[Heard], settings: Settings) -> Iterator[Judgement]:
    """Yield what each model says of the rows new to it, and of those that are new to none."""
    new_to_some = {name for model in heard for name in model.rows.keys() - model.seen()}
    for model in heard:
        seen = model.seen()
        new = [row for name, row in model.rows.items() if name not in seen]
        learnt = [row for name, row in model.rows.items() if name in seen - new_to_some]
        for rows in (new, learnt):
            if rows:
                yield judge(rows, str(model.model), settings)


def _notes(heard: Sequence[Heard], judgements: Sequence[Judgement], rows: Rows) -> Iterator[str]:
    new_to_some = {name for model in heard for name in model.rows.keys() - model.seen()}
    judged = {name for model in heard for name in model.rows}
    if learnt := len(judged - new_to_some):
        yield (
            f"{learnt:,} rows are judged by a model that was trained on them and may have learnt "
            "their faults; train on a half of the rows and evaluate on the other to find more"
        )
    for model in heard:
        if model.trained_on is None:
            yield f"{model.model}: it cannot be told which rows it was trained on"
    if few := [len(judgement.ids) for judgement in judgements if len(judgement.ids) < _FEW]:
        yield f"{min(few):,} rows are few to know what gap is usual for a model"
    ids, splits = (rows.table[name].to_pylist() for name in ("id", "split"))
    absent = Counter(split for name, split in zip(ids, splits, strict=True) if name not in judged)
    if absent:
        of_splits = ", ".join(f"{count:,} of {split}" for split, count in absent.items())
        yield f"rows that no evaluation has are not judged: {of_splits}"


def _counts(listed: Sequence[Contradiction]) -> dict[str, int]:
    """The rows of each kind, in the order of `KINDS`."""
    counts = Counter(found.kind for found in listed)
    return {kind: counts[kind] for kind in KINDS if counts[kind]}


def _texts_of_others(
    listed: Sequence[Contradiction], texts: Mapping[str, str], settings: Settings
) -> dict[str, str]:
    """The ids of the rows whose text the model hears in rows with another text."""
    exchanged = [found for found in listed if found.kind == OTHER_TEXT]
    normalize = settings.normalizer()
    choices = {name: normalize(text) for name, text in texts.items()} if exchanged else {}
    of_other = {}
    for found in exchanged:
        match = extractOne(found.hypothesis, choices, scorer=ratio, score_cutoff=_SAME_TEXT)
        if match:
            of_other[found.row.id] = str(match[2])
    return of_other


class _Page(NamedTuple):
    rows: Rows
    numbers: Mapping[Key, int]
    listed: Sequence[Contradiction]
    of_other: Mapping[str, str]
    judged: int
    notes: Sequence[str]

    def render(self, root: Path, models: Sequence[Path]) -> str:
        """Return the page."""
        clips, by_kind = Clips(self.rows), defaultdict[str, list[dict[str, Any]]](list)
        for found in self.listed[:_ON_PAGE]:
            by_kind[found.kind].append(self._entry(found, clips))
        return render_template(
            "audit_page.html",
            name=root.resolve().name,
            models=models,
            kinds=KINDS,
            counts=_counts(self.listed),
            judged=self.judged,
            listed=len(self.listed),
            notes=self.notes,
            entries={kind: by_kind[kind] for kind in KINDS if kind in by_kind},
            unlike=(OTHER_TEXT, UNCLEAR),
            limits=(_ON_PAGE, MAX_PAGE_BYTES / 1e6),
            clips=clips,
        )

    def _entry(self, found: Contradiction, clips: Clips) -> dict[str, Any]:
        row = found.row
        entry = clips.entry(self.numbers[row.id, row.reference])
        words = align_words(split_words(found.reference), split_words(found.hypothesis))
        return entry | {
            "gap": None if found.gap == inf else found.gap,
            "confidence": row.confidence,
            "words": words,
            "reference": found.reference,
            "hypothesis": found.hypothesis,
            "of_other": self.of_other.get(row.id),
        }


def _table(listed: Sequence[Contradiction], of_other: Mapping[str, str]) -> str:
    """The list as CSV, which ``danish-asr combine --without`` takes."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(
        ["id", "reason", "gap", "confidence", "split", "reference", "hypothesis", "text_of"]
    )
    for found in listed:
        row, gap = found.row, "" if found.gap == inf else f"{found.gap:.2f}"
        values = [row.id, found.kind, gap, f"{row.confidence:.3f}", row.split]
        texts = [row.reference, row.hypothesis, of_other.get(row.id)]
        writer.writerow([*values, *texts])
    return stream.getvalue()
