"""``danish-asr explore``: one offline page about a built dataset."""

from collections import defaultdict
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console

from danish_asr.base.errors import ConfigError, DatasetError
from danish_asr.base.files import publish_text, sha256_of
from danish_asr.base.schema import (
    CARDS_DIR,
    INVENTORY_FILE,
    LEDGER_FILE,
    MIN_SPEAKERS,
    SUSPECTS_FILE,
)
from danish_asr.corpus.cards import unit_of
from danish_asr.corpus.division import sentences_of
from danish_asr.corpus.shards import read_inventory
from danish_asr.corpus.verify import leaks_of, sentence_profile
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
from danish_asr.text.profiles import normalizer

_TITLES: Final = {
    "split": "Split",
    "corpus": "Corpus",
    "dialect": "Dialect",
    "age_group": "Age group",
    "gender": "Gender",
}
_SPEAKER: Final = ("dialect", "age_group", "gender")
_MOST: Final = 5
_PER_DIALECT: Final = 3
_RARE: Final = 100

Entry = dict[str, Any]
"""What the page shows of a row."""


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
        measured = Sample(chosen, weights, measure_rows(rows, chosen))
        unknown = {index.split: count_unknown(index, opened) for index in rows.indexes if opened}
        text = _render(root, rows, measured, generator, tokenizer=tokenizer, unknown=unknown)
    publish_text(out, text)
    say(f"{len(rows.table):,} rows, audio of {len(chosen):,} measured; wrote {out}", console)


def _render(
    root: Path,
    rows: Rows,
    sample: Sample,
    generator: np.random.Generator,
    *,
    tokenizer: str | None,
    unknown: Mapping[str, UnknownSymbols],
) -> str:
    table, clips, manifest = rows.table, Clips(rows), root / INVENTORY_FILE
    total = numbers.groups(table)[0]
    speed = pc.utf8_length(table["text"]).to_numpy() / np.maximum(rows.numbers("seconds"), 1e-3)
    vocabulary, words = numbers.vocabulary(rows)
    once = [word for word, count in words.items() if count == 1]
    rare = generator.choice(len(once), min(_RARE, len(once)), replace=False)
    has_suspects = (root / SUSPECTS_FILE).is_file()
    suspects = numbers.suspects(root / SUSPECTS_FILE, rows, _MOST) if has_suspects else {}
    same, not_compared = numbers.identical_audio(rows)
    pairs = [
        pair
        for pair in combinations(_SPEAKER, 2)
        if all(len(numbers.known(table, key)) > 1 for key in pair)
    ]
    by_line = [key for key in ("corpus", *_SPEAKER) if numbers.known(table, key)]
    return render_template(
        "dataset_page.html",
        name=_name(root),
        manifest=sha256_of(manifest) if manifest.is_file() else None,
        languages=sorted({p.language for index in rows.indexes for p in index.partitions}),
        titles=_TITLES,
        limits=(MIN_SPEAKERS, SILENCE, MAX_PAGE_BYTES / 1e6),
        warnings=_warnings(root, rows, sample),
        total=total,
        unit=unit_of(total.hours * 3600),
        splits={group.names[0]: group for group in numbers.groups(table, "split")},
        groupings={key: numbers.lines(table, key) for key in by_line},
        crosses={pair: numbers.cross(table, *pair) for pair in pairs},
        leaks=leaks_of(compared(root, rows)),
        same=[[rows.entry(row) for row in numbers_of_rows[:10]] for numbers_of_rows in same],
        not_compared=not_compared,
        charts=_charts(rows, speed, sample),
        sample=sample,
        by_dialect=_by_dialect(rows, sample),
        ledger=numbers.reasons(root / LEDGER_FILE) if (root / LEDGER_FILE).is_file() else None,
        suspects=suspects,
        to_check={
            reason: [clips.entry(row, value) for row, value in found.first]
            for reason, found in suspects.items()
        },
        extremes=_extremes(rows, speed, sample, clips),
        samples=_samples(rows, clips, generator),
        clips=clips,
        vocabulary=vocabulary,
        characters=numbers.characters(table["text"]),
        once=len(once),
        rare=sorted(once[place] for place in rare),
        tokenizer=tokenizer,
        unknown=unknown,
    )


def compared(root: Path, rows: Rows) -> pa.Table:
    """What `leaks_of` compares, without the audio: this page looks for the same samples itself."""
    table = rows.table
    languages = sorted({part.language for index in rows.indexes for part in index.partitions})
    spoken = normalizer(sentence_profile(root, _name(root), languages))
    columns = {name: table[name] for name in ("split", "id", "speaker_id")}
    no_audio = pa.nulls(len(table), pa.binary())
    return pa.table(columns | {"sentence": sentences_of(table["text"], spoken), "audio": no_audio})


def _name(root: Path) -> str:
    """The name that the dataset was given, or its directory's if that is not known."""
    try:
        return read_inventory(root).name
    except DatasetError:
        return root.resolve().name


def _warnings(root: Path, rows: Rows, sample: Sample) -> list[str]:
    warnings = []
    absent = [
        name
        for name in ("speaker_id", *_SPEAKER)
        if set(rows.table[name].unique().to_pylist()) <= {None, UNKNOWN}
    ]
    if absent:
        option = f"--column {absent[0].removesuffix('_group')}=COLUMN"
        warnings.append(
            f"No row has a value of {', '.join(absent)}. If the source has such a column under "
            f"another name, `danish-asr convert` reads it with {option}."
        )
    if "test" not in rows.splits:
        warnings.append("There is no test split: no group can be scored.")
    if not (root / INVENTORY_FILE).is_file():
        warnings.append(
            f"{INVENTORY_FILE} is missing: the conversion is unfinished, or another program wrote "
            "this dataset. The same `danish-asr convert` command completes it."
        )
    if sample.undecodable:
        warnings.append(
            f"{sample.undecodable} of the sampled rows cannot be decoded. `danish-asr verify` "
            "lists all such rows."
        )
    return warnings


def _charts(rows: Rows, speed: FloatArray, sample: Sample) -> dict[str, str]:
    ones, weights = np.ones(len(speed)), sample.weights
    charts = {
        "Length": (rows.numbers("seconds"), ones, "seconds"),
        "Speed": (speed, ones, "characters per second"),
        "Loudness": (sample.loudness, weights, "RMS, dB of full scale"),
        "Estimated SNR": (sample.snr, weights, "dB"),
        "Silence at the ends": (sample.silence, weights, "seconds"),
        "Clipping": (100 * sample.clipped, weights, "% of the samples at full scale"),
    }
    return {
        title: histogram_chart(title, values, weights, unit)
        for title, (values, weights, unit) in charts.items()
        if len(values)
    }


def _by_dialect(rows: Rows, sample: Sample) -> list[tuple[Any, ...]]:
    """Return dialect, rows, medians of loudness, SNR and silence, and the % of rows that clip."""
    names = np.array(rows.table["dialect"].take(pa.array(sample.rows)).to_pylist(), str)
    lines = []
    for name in np.unique(names):
        own = names == name
        medians = [np.median(m[own]) for m in (sample.loudness, sample.snr, sample.silence)]
        lines.append((name, int(own.sum()), *medians, 100 * (sample.clipped[own] > 0).mean()))
    return lines


def _extremes(
    rows: Rows, speed: FloatArray, sample: Sample, clips: Clips
) -> dict[str, list[Entry]]:
    """Return the first rows by each measure, to listen to."""
    numbered, seconds = np.arange(len(speed)), rows.numbers("seconds")
    measures: dict[str, tuple[Any, FloatArray, int, str]] = {
        "Longest": (numbered, seconds, -1, "{:.1f} s"),
        "Shortest": (numbered, seconds, 1, "{:.2f} s"),
        "Fastest": (numbered, speed, -1, "{:.1f} characters per second"),
        "Slowest": (numbered, speed, 1, "{:.1f} characters per second"),
        "Quietest": (sample.rows, sample.loudness, 1, "{:.1f} dB of full scale"),
        "Lowest estimated SNR": (sample.rows, sample.snr, 1, "{:.1f} dB"),
    }
    return {
        title: [
            clips.entry(int(row_numbers[place]), form.format(values[place]))
            for place in np.argsort(sign * values, kind="stable")[:_MOST]
        ]
        for title, (row_numbers, values, sign, form) in measures.items()
    }


def _samples(rows: Rows, clips: Clips, generator: np.random.Generator) -> dict[str, list[Entry]]:
    dialects = rows.table["dialect"]
    chosen, _ = stratified(dialects, _PER_DIALECT * len(dialects.unique()), generator)
    samples = defaultdict[str, list[Entry]](list)
    for row in chosen.tolist():
        entry = clips.entry(row)
        samples[entry["dialect"]].append(entry)
    return dict(sorted(samples.items()))
