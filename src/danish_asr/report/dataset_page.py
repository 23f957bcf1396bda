"""``danish-asr explore``: one offline page about a built dataset."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console

from danish_asr.base.errors import ConfigError
from danish_asr.base.files import publish_text
from danish_asr.base.schema import CARDS_DIR, INVENTORY_FILE, LEDGER_FILE, SUSPECTS_FILE
from danish_asr.corpus.cards import unit_of
from danish_asr.recipe.data.targets import UnknownSymbols, count_unknown
from danish_asr.recipe.models.assets import open_tokenizer
from danish_asr.report import dataset_numbers as numbers
from danish_asr.report.components import histogram_chart, render_template
from danish_asr.report.dataset_rows import (
    MAX_PAGE_BYTES,
    SILENCE,
    UNKNOWN,
    Clips,
    FloatArray,
    Rows,
    Sample,
    measure_rows,
    read_rows,
    stratified,
)
from danish_asr.report.tables import say
from danish_asr.scoring.intervals import MIN_SPEAKERS

_TITLES: Final = {
    "split": "Split",
    "corpus": "Corpus",
    "dialect": "Dialect",
    "age_group": "Age group",
    "gender": "Gender",
}
_SPEAKER: Final = ("dialect", "age_group", "gender")
_OUTLIERS: Final = 5
_PER_DIALECT: Final = 3
_RARE: Final = 100


def explore(
    root: Path,
    out: Path,
    *,
    tokenizer: str | None = None,
    sample: int = 2_000,
    seed: int = 0,
    console: Console | None = None,
) -> None:
    """Write the page about the dataset at ``root``; the audio of ``sample`` rows is measured.

    Raises:
        ConfigError: ``out`` is a directory, or the tokenizer cannot be opened.
        DatasetError: There is no built dataset, it has no rows, or a file is damaged.
    """
    console = console or Console(stderr=True)
    if out.is_dir():
        raise ConfigError([f"--out: expected a file; found the directory {out}"], where="explore")
    opened = open_tokenizer(tokenizer, [root / CARDS_DIR]) if tokenizer else None
    generator = np.random.default_rng(seed)
    with console.status("reading columns, measuring audio, drawing"):
        rows = read_rows(root)
        chosen, weights = stratified(rows.table["dialect"], sample, generator)
        measured = Sample(chosen, weights, list(measure_rows(rows, chosen)))
        unknown = {index.split: count_unknown(index, opened) for index in rows.indexes if opened}
        text = render(root, rows, measured, generator, tokenizer=tokenizer, unknown=unknown)
    publish_text(out, text)
    say(f"{len(rows.table):,} rows, audio of {len(chosen):,} measured; wrote {out}", console)


def render(
    root: Path,
    rows: Rows,
    sample: Sample,
    generator: np.random.Generator,
    *,
    tokenizer: str | None,
    unknown: Mapping[str, UnknownSymbols],
) -> str:
    """Return the page."""
    table, clips = rows.table, Clips(rows)
    total = numbers.groups(table)[0]
    speed = pc.utf8_length(table["text"]).to_numpy() / np.maximum(rows.numbers("seconds"), 1e-3)
    vocabulary, words = numbers.vocabulary(rows)
    once = [word for word, count in words.items() if count == 1]
    rare = generator.choice(len(once), min(_RARE, len(once)), replace=False)
    files = {
        "Ledger: rows left out": root / LEDGER_FILE,
        "Suspects: rows to check": root / SUSPECTS_FILE,
    }
    outliers = _outliers(rows, speed, sample)
    if (root / SUSPECTS_FILE).is_file():
        suspects = numbers.suspects(root / SUSPECTS_FILE, rows, _OUTLIERS)
        outliers |= {f"Suspect: {reason}": found for reason, found in suspects.items()}
    pairs = [("dialect", "split"), ("dialect", "age_group"), ("dialect", "gender")]
    same, not_compared = numbers.identical_audio(rows)
    return render_template(
        "dataset_page.html",
        name=root.resolve().name,
        titles=_TITLES,
        limits=(MIN_SPEAKERS, numbers.FEW_HOURS, SILENCE, MAX_PAGE_BYTES / 1e6),
        warnings=_warnings(root, rows, sample),
        total=total,
        unit=unit_of(total.hours * 3600),
        groupings={key: numbers.groups(table, key) for key in _TITLES},
        crosses={pair: numbers.cross(table, *pair) for pair in pairs},
        gaps={
            "Groups that lack data": [
                gap
                for keys in ((), *((key,) for key in _SPEAKER))
                for gap in numbers.gaps(table, *keys)
            ],
            "Combinations that lack data": [
                gap for key in _SPEAKER[1:] for gap in numbers.gaps(table, "dialect", key)
            ],
        },
        leaks=numbers.leaks(rows),
        same=[[_entry(rows, row) for row in each[:10]] for each in same],
        not_compared=not_compared,
        charts=_charts(rows, speed, sample),
        sample=sample,
        by_dialect=_by_dialect(rows, sample),
        reasons={title: numbers.reasons(path) for title, path in files.items() if path.is_file()},
        outliers={
            title: [_entry(rows, row, value, clips) for row, value in lines]
            for title, lines in outliers.items()
        },
        samples=_samples(rows, clips, generator),
        clips=clips,
        vocabulary=vocabulary,
        characters=numbers.characters(table["text"]),
        once=len(once),
        rare=sorted(once[place] for place in rare),
        tokenizer=tokenizer,
        unknown=unknown,
    )


def _warnings(root: Path, rows: Rows, sample: Sample) -> list[str]:
    found = []
    absent = [
        name
        for name in ("speaker_id", *_SPEAKER)
        if set(rows.table[name].unique().to_pylist()) <= {None, UNKNOWN}
    ]
    if absent:
        found.append(
            f"No row has a value of {', '.join(absent)}. If the source has such a column under "
            "another name, `danish-asr convert` reads it with --column "
            f"{absent[0].removesuffix('_group')}=COLUMN; if it has none, make a table (CSV) that "
            "has."
        )
    if "test" not in rows.splits:
        found.append("There is no test split: no group can be scored.")
    if not (root / INVENTORY_FILE).is_file():
        found.append(
            f"{INVENTORY_FILE} is missing: the conversion is unfinished, or another program wrote "
            "this dataset. The same `danish-asr convert` command completes it."
        )
    if sample.undecodable:
        found.append(
            f"{sample.undecodable} of the sampled rows cannot be decoded. `danish-asr verify` "
            "lists all such rows."
        )
    return found


def _charts(rows: Rows, speed: FloatArray, sample: Sample) -> dict[str, str]:
    every, some = np.ones(len(speed)), sample.weights
    charts = {
        "Length": (rows.numbers("seconds"), every, "seconds"),
        "Speed": (speed, every, "characters per second"),
        "Loudness": (sample.loudness, some, "RMS, dB of full scale"),
        "Estimated SNR": (sample.snr, some, "dB"),
        "Silence at the ends": (sample.silence, some, "seconds"),
        "Clipping": (100 * sample.clipped, some, "% of the samples at full scale"),
    }
    return {title: histogram_chart(title, *c) for title, c in charts.items() if len(c[0])}


def _by_dialect(rows: Rows, sample: Sample) -> list[tuple[Any, ...]]:
    names = np.array(rows.table["dialect"].take(pa.array(sample.rows)).to_pylist(), str)
    lines = []
    for name in np.unique(names):
        here = names == name
        medians = [np.median(each[here]) for each in (sample.loudness, sample.snr, sample.silence)]
        lines.append((name, int(here.sum()), *medians, 100 * (sample.clipped[here] > 0).mean()))
    return lines


def _outliers(rows: Rows, speed: FloatArray, sample: Sample) -> dict[str, list[tuple[int, str]]]:
    every, seconds = np.arange(len(speed)), rows.numbers("seconds")
    clipped = np.where(sample.clipped, 100 * sample.clipped, np.nan)
    kinds: dict[str, tuple[Any, FloatArray, int, str]] = {
        "Longest": (every, seconds, -1, "{:.1f} s"),
        "Shortest": (every, seconds, 1, "{:.2f} s"),
        "Fastest": (every, speed, -1, "{:.1f} characters per second"),
        "Slowest": (every, speed, 1, "{:.1f} characters per second"),
        "Quietest": (sample.rows, sample.loudness, 1, "{:.1f} dB of full scale"),
        "Most clipped": (sample.rows, clipped, -1, "{:.2f} % of the samples"),
        "Lowest estimated SNR": (sample.rows, sample.snr, 1, "{:.1f} dB"),
    }
    return {
        title: [
            (int(place[at]), form.format(values[at]))
            for at in np.argsort(sign * values, kind="stable")[:_OUTLIERS]
            if np.isfinite(values[at])
        ]
        for title, (place, values, sign, form) in kinds.items()
    }


def _samples(
    rows: Rows, clips: Clips, generator: np.random.Generator
) -> dict[str, list[dict[str, Any]]]:
    dialects = rows.table["dialect"]
    chosen, _ = stratified(dialects, _PER_DIALECT * len(dialects.unique()), generator)
    found = defaultdict[str, list[dict[str, Any]]](list)
    for row in chosen.tolist():
        entry = _entry(rows, row, "", clips)
        found[entry["dialect"]].append(entry)
    return dict(sorted(found.items()))


def _entry(rows: Rows, row: int, value: str = "", clips: Clips | None = None) -> dict[str, Any]:
    names = ("id", "text", "speaker_id", "dialect", "split", "seconds")
    entry = {name: rows.table[name][row].as_py() for name in names}
    url, note = clips.of(row) if clips else ("", "")
    return entry | {"value": value, "url": url, "note": note}
