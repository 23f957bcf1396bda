"""Writes what is kept of the recordings, and what is not: tables, a summary, the dataset."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

from danish_asr.base.cluster import usable_cpus
from danish_asr.base.files import publish_text
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.convert import convert_source
from danish_asr.corpus.rows import replaced
from danish_asr.corpus.sources import open_source
from danish_asr.inference.harvest.limits import Limits
from danish_asr.inference.harvest.pieces import Candidate, Piece
from danish_asr.inference.harvest.selection import PSEUDO, TEXT, Kind, select
from danish_asr.inference.recordings import Recording

RECORDINGS: Final = "recordings"
UTTERANCES: Final = "utterances"
LEFT_OUT_FILE: Final = "left-out.jsonl"
DATASET: Final = "dataset"
PSEUDO_CORPUS: Final = "-pseudo"
"""What follows the name of the corpus in that of the utterances that models have written."""


def result_of(recording: Recording) -> Path:
    """Return the file of what the models heard in a recording."""
    return recording.target.with_name(f"{recording.target.name}.json")


def write_tables(
    recordings: Iterable[Recording], out: Path, name: str, limits: Limits, console: Console
) -> bool:
    """Apply the limits and write the tables; return whether anything is kept."""
    tables: dict[Kind, list[dict[str, Any]]] = {TEXT: [], PSEUDO: []}
    left_out: list[dict[str, Any]] = []
    seconds = 0.0
    for recording in recordings:
        values = json.loads(result_of(recording).read_text(encoding="utf-8"))
        seconds += values["seconds"]
        pieces = [Piece.from_json(piece) for piece in values["pieces"]]
        selected = select(pieces, values["words"], limits)
        stem = recording.target.relative_to(out / RECORDINGS).as_posix().replace("/", "_")
        audio = recording.path.resolve()
        path = os.path.relpath(audio, (out / UTTERANCES).resolve())
        for kind, utterances in selected.utterances.items():
            tables[kind] += [_row(f"{name}_{stem}", path, own) for own in utterances]
        beside = os.path.relpath(audio, out.resolve())
        left_out += [{"audio_filepath": beside, **row} for row in selected.left_out]
    texts = {out / UTTERANCES / f"{kind}.jsonl": _lines(rows) for kind, rows in tables.items()}
    if any(_content(path) != text for path, text in texts.items()):
        shutil.rmtree(out / DATASET, ignore_errors=True)  # it is of other utterances
        for table, text in texts.items():
            if text:
                publish_text(table, text)
            else:
                table.unlink(missing_ok=True)
    publish_text(out / LEFT_OUT_FILE, _lines(left_out))
    _print(tables, left_out, seconds, console)
    return any(texts.values())


def _row(name: str, path: str, own: Candidate) -> dict[str, Any]:
    row = {
        "id": f"{name}_{round(own.start * 1000):08d}",
        "audio_filepath": path,
        "start": round(own.start, 3),
        "end": round(own.end, 3),
        "text": own.text,
        "cer": round(own.cer, 4),
        "confidence": round(own.confidence, 4),
    }
    return row | {"speaker_id": own.speaker}


def _lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


def _content(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _print(
    tables: Mapping[Kind, Sequence[Mapping[str, Any]]],
    left_out: Sequence[Mapping[str, Any]],
    total: float,
    console: Console,
) -> None:
    """Print the hours that are kept and left out, and why."""
    table = Table("", "utterances", "minutes", title=f"{total / 60:,.1f} minutes of recordings")
    for kind, rows in tables.items():
        what = "kept, with its text" if kind == TEXT else "kept, with what the models write"
        table.add_row(what, f"{len(rows):,}", f"{_minutes(rows):.1f}")
    of_audio = [row for row in left_out if "start" in row]
    for reason, count in Counter(row["reason"] for row in of_audio).most_common():
        rows = [row for row in of_audio if row["reason"] == reason]
        table.add_row(f"left out: {reason}", f"{count:,}", f"{_minutes(rows):.1f}")
    console.print(table)
    words = sum(len(row["text"].split()) for row in left_out if "start" not in row)
    if words:
        console.print(f"words of the texts that no utterance has: {words:,}")


def _minutes(rows: Iterable[Mapping[str, Any]]) -> float:
    return sum(float(row["end"] - row["start"]) for row in rows) / 60


def build_dataset(out: Path, name: str, console: Console) -> None:
    """Build the dataset of the tables; what models have written is a corpus of its own."""
    options = ConvertOptions(name=name, split="train", max_drop=1.0, workers=usable_cpus())
    source = open_source(f"table:{out / UTTERANCES}", options)
    is_pseudo = pc.starts_with(source.rows["file"], PSEUDO)
    corpora = pc.if_else(is_pseudo, name + PSEUDO_CORPUS, name)
    source = replace(source, rows=replaced(source.rows, corpus=corpora))
    root = out / DATASET
    inventory = convert_source(source, root, options)
    if inventory.dropped_rows:
        console.print(f"utterances that could not be converted: {inventory.dropped_rows:,}")
    console.print(f"{root}: {inventory.rows:,} utterances, all in the split train")
