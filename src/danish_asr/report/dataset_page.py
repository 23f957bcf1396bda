"""One offline page about a built dataset, which ``danish-asr verify --page`` writes."""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from rich.console import Console

from danish_asr.base.errors import AudioError, ConfigError, DatasetError
from danish_asr.base.files import publish_text, refuse_overwriting, sha256_of
from danish_asr.base.schema import (
    FLAC_MD5,
    INVENTORY_FILE,
    LEDGER_FILE,
    MIN_SPEAKERS,
    SUSPECTS_FILE,
)
from danish_asr.corpus.inventory import content_of, read_inventory
from danish_asr.corpus.verify import (
    SentenceProfile,
    leaks_of,
    sentence_profile,
    sentences_under,
)
from danish_asr.report import dataset
from danish_asr.report.components import histogram_chart, render_template
from danish_asr.report.dataset import SILENCE, Clips, Rows, measure_rows, read_rows
from danish_asr.report.tables import say, warn
from danish_asr.scoring.intervals import FloatArray

_TITLES: Final = {
    "corpus": "Corpus",
    "dialect": "Dialect",
    "age_group": "Age group",
    "gender": "Gender",
}
_MOST: Final = 5
_PER_DIALECT: Final = 3

Entry = dict[str, Any]
"""What the page shows of a row."""


class _Sample(NamedTuple):
    """The rows whose audio was measured."""

    rows: NDArray[np.int64]
    measures: FloatArray  # (rows, 4), in the order of `dataset.Measures`
    undecodable: int


def write_dataset_page(
    root: Path,
    out: Path,
    *,
    sample: int = 2_000,
    seed: int = 0,
    audio: bool = True,
    contradictions: Sequence[str] = (),
    console: Console | None = None,
) -> None:
    """Write the page about the dataset at ``root``; the audio of ``sample`` rows is measured.

    Without ``audio`` the page holds no speech. ``contradictions`` are those of a `Verification`.

    Raises:
        ConfigError: ``out`` is a directory, or a file of the dataset.
        DatasetError: There is no built dataset, it has no rows, or a file is damaged.
    """
    console = console or Console(stderr=True)
    check_page(root, out)
    generator = np.random.default_rng(seed)
    with console.status("reading columns, measuring audio, drawing"):
        rows = read_rows(root)
        chosen = np.sort(
            generator.choice(len(rows.table), min(sample, len(rows.table)), replace=False)
        )
        measured = _measured(rows, chosen)
        clips = Clips(rows, audio=audio)
        text = _render(root, clips, measured, generator, contradictions)
    publish_text(out, text)
    for line in clips.left_out:
        warn(line, console)
    say(f"{len(rows.table):,} rows, audio of {len(chosen):,} measured; wrote {out}", console)


def check_page(root: Path, out: Path) -> None:
    """Raise ConfigError if the page cannot be at ``out``: a directory, or a file of the dataset."""
    if out.is_dir():
        raise ConfigError([f"--page: expected a file; found the directory {out}"], where="verify")
    refuse_overwriting([out], content_of(root), option="--page")


def _measured(rows: Rows, chosen: NDArray[np.int64]) -> _Sample:
    measures = [*measure_rows(rows, chosen)]
    good = [place for place, values in enumerate(measures) if values is not None]
    values = np.array([measures[place] for place in good], float).reshape(-1, 4)
    return _Sample(chosen[good], values, len(measures) - len(good))


def _render(
    root: Path,
    clips: Clips,
    sample: _Sample,
    generator: np.random.Generator,
    contradictions: Sequence[str],
) -> str:
    rows, manifest = clips.rows, root / INVENTORY_FILE
    faults = [*filter(None, [_profile(root, rows).fault]), *contradictions]
    table = rows.table
    (total,) = dataset.groups(table)
    speed = pc.utf8_length(table["text"]).to_numpy() / np.maximum(rows.seconds, 1e-3)
    listed, ledger = root / SUSPECTS_FILE, root / LEDGER_FILE
    suspects = dataset.suspects(listed, rows) if listed.is_file() else {}
    return render_template(
        "dataset_page.html",
        name=_name(root),
        manifest=sha256_of(manifest) if manifest.is_file() else None,
        languages=sorted({*rows.table["language"].to_pylist()}),
        titles=_TITLES,
        limits=(MIN_SPEAKERS, SILENCE),
        warnings=[*_warnings(root, rows, sample), *faults],
        total=total,
        unit=("hours", 3600) if total.hours >= 1 else ("minutes", 60),
        splits={group.names[0]: group for group in dataset.groups(table, "split")},
        groupings={
            key: dataset.lines(table, key) for key in _TITLES if dataset.has_values(table, key)
        },
        leaks=leaks_of(compared(root, rows)),
        charts=_charts(rows, speed, sample),
        measured=len(sample.rows),
        ledger=dataset.reasons(ledger) if ledger.is_file() else None,
        suspects=suspects,
        to_check={
            reason: [clips.entry(row, value) for row, value in own[:_MOST]]
            for reason, own in suspects.items()
        },
        extremes=_extremes(rows, speed, sample, clips),
        samples=_samples(rows, clips, generator),
        clips=clips,
        vocabulary=dataset.vocabulary(rows),
        characters=dataset.characters(table["text"]),
    )


def compared(root: Path, rows: Rows) -> pa.Table:
    """What `leaks_of` compares; of audio, only that whose length occurs in several splits."""
    table = rows.table
    splits_of_length = table.group_by("seconds").aggregate([("split", "count_distinct")])
    shared = splits_of_length.filter(pc.greater(splits_of_length["split_count_distinct"], 1))
    digests: list[bytes | None] = [None] * len(table)
    for row in np.flatnonzero(pc.is_in(table["seconds"], shared["seconds"])).tolist():
        with suppress(AudioError):
            digests[row] = rows.audio(row)[FLAC_MD5]
    columns = {name: table[name] for name in ("corpus", "split", "id", "speaker_id", "person")}
    sentences = sentences_under(_profile(root, rows).name, table["text"])
    return pa.table(columns | {"sentence": sentences, "audio": pa.array(digests, pa.binary())})


def _profile(root: Path, rows: Rows) -> SentenceProfile:
    return sentence_profile(root, _name(root), rows.table["language"][0].as_py())


def _name(root: Path) -> str:
    """The name that the dataset was given, or its directory's if that is not known."""
    try:
        return read_inventory(root).name
    except DatasetError:
        return root.resolve().name


def _warnings(root: Path, rows: Rows, sample: _Sample) -> list[str]:
    warnings = []
    names = ("speaker_id", "dialect", "age_group", "gender")
    absent = [name for name in names if not dataset.has_values(rows.table, name)]
    if absent:
        option = f"--column {absent[0].removesuffix('_group')}=COLUMN"
        warnings.append(
            f"No row has a value of {', '.join(absent)}. If the source has such a column under "
            f"another name, `danish-asr convert` reads it with {option}."
        )
    if "test" not in [index.name for index in rows.indexes]:
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


def _charts(rows: Rows, speed: FloatArray, sample: _Sample) -> dict[str, str]:
    loudness, clipped, silence, snr = sample.measures.T
    charts = {
        "Length": (rows.seconds, "seconds"),
        "Speed": (speed, "characters per second"),
        "Loudness": (loudness, "RMS, dB of full scale"),
        "Estimated SNR": (snr, "dB"),
        "Silence at the ends": (silence, "seconds"),
        "Clipping": (100 * clipped, "% of the samples at full scale"),
    }
    return {
        title: histogram_chart(title, values, unit)
        for title, (values, unit) in charts.items()
        if len(values)
    }


def _extremes(
    rows: Rows, speed: FloatArray, sample: _Sample, clips: Clips
) -> dict[str, list[Entry]]:
    """Return the first rows by each measure, to listen to."""
    numbered = np.arange(len(speed))
    loudness, _, _, snr = sample.measures.T
    measures: dict[str, tuple[Any, FloatArray, int, str]] = {
        "Longest": (numbered, rows.seconds, -1, "{:.1f} s"),
        "Shortest": (numbered, rows.seconds, 1, "{:.2f} s"),
        "Fastest": (numbered, speed, -1, "{:.1f} characters per second"),
        "Slowest": (numbered, speed, 1, "{:.1f} characters per second"),
        "Quietest": (sample.rows, loudness, 1, "{:.1f} dB of full scale"),
        "Lowest estimated SNR": (sample.rows, snr, 1, "{:.1f} dB"),
    }
    return {
        title: [
            clips.entry(int(row_numbers[place]), form.format(values[place]))
            for place in np.argsort(sign * values, kind="stable")[:_MOST]
        ]
        for title, (row_numbers, values, sign, form) in measures.items()
    }


def _samples(rows: Rows, clips: Clips, generator: np.random.Generator) -> dict[str, list[Entry]]:
    """Return some rows of each dialect at random."""
    dialects = rows.table["dialect"]
    samples = defaultdict[str, list[Entry]](list)
    for dialect in sorted(dialects.unique().to_pylist()):
        own = np.flatnonzero(pc.equal(dialects, pa.scalar(dialect)).to_numpy())
        size = min(_PER_DIALECT, len(own))
        chosen = np.sort(generator.choice(own, size, replace=False))
        samples[dialect] = [clips.entry(row) for row in chosen.tolist()]
    return dict(samples)
