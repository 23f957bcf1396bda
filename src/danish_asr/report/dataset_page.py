"""One offline page about a built dataset, which ``danish-asr verify --page`` writes."""

from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console

from danish_asr.base.errors import ConfigError
from danish_asr.base.files import publish_text, refuse_overwriting, sha256_of
from danish_asr.base.progress import plain_console
from danish_asr.base.schema import INVENTORY_FILE, LEDGER_FILE, MIN_SPEAKERS, SUSPECTS_FILE
from danish_asr.corpus.inventory import content_of, read_inventory
from danish_asr.corpus.verify import Verification, shown_of
from danish_asr.report import dataset
from danish_asr.report.components import histogram_chart, render_template
from danish_asr.report.dataset import Clips, Rows, read_rows
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


def write_dataset_page(
    root: Path,
    out: Path,
    checked: Verification,
    *,
    audio: bool = True,
    console: Console | None = None,
) -> None:
    """Write the page about the dataset at ``root``, which `verify` has found to be undamaged.

    It may be at ``out`` by `check_page`. Without ``audio`` the page holds no speech.

    Raises:
        DatasetError: A file cannot be read.
    """
    console = console or plain_console(stderr=True)
    with console.status("reading columns, drawing"):
        rows = read_rows(root)
        clips = Clips(rows, audio=audio)
        text = _render(root, clips, checked)
    publish_text(out, text)
    for line in clips.left_out:
        warn(line, console)
    say(f"{len(rows.table):,} rows; wrote {out}", console)


def check_page(root: Path, out: Path) -> None:
    """Raise ConfigError if the page cannot be at ``out``: a directory, or a file of the dataset."""
    if out.is_dir():
        raise ConfigError([f"--page: expected a file; found the directory {out}"], where="verify")
    refuse_overwriting([out], content_of(root), option="--page")


def _render(root: Path, clips: Clips, checked: Verification) -> str:
    rows = clips.rows
    table = rows.table
    (total,) = dataset.groups(table)
    speed = pc.utf8_length(table["text"]).to_numpy() / np.maximum(rows.seconds, 1e-3)
    listed, ledger = root / SUSPECTS_FILE, root / LEDGER_FILE
    suspects = dataset.suspects(listed, rows) if listed.is_file() else {}
    return render_template(
        "dataset_page.html",
        name=read_inventory(root).name,
        manifest=sha256_of(root / INVENTORY_FILE),
        languages=sorted({*rows.table["language"].to_pylist()}),
        titles=_TITLES,
        few=MIN_SPEAKERS,
        warnings=[*_warnings(rows), *shown_of(checked.contradictions), *checked.unchecked],
        total=total,
        unit=("hours", 3600) if total.hours >= 1 else ("minutes", 60),
        splits={group.names[0]: group for group in dataset.groups(table, "split")},
        groupings={
            key: dataset.lines(table, key) for key in _TITLES if dataset.has_values(table, key)
        },
        leaks=checked.leaks,
        charts={
            "Length": histogram_chart("Length", rows.seconds, "seconds"),
            "Speed": histogram_chart("Speed", speed, "characters per second"),
        },
        ledger=dataset.reasons(ledger) if ledger.is_file() else None,
        suspects=suspects,
        to_check={
            reason: [clips.entry(row, value) for row, value in own[:_MOST]]
            for reason, own in suspects.items()
        },
        extremes=_extremes(rows, speed, clips),
        samples=_samples(rows, clips),
        clips=clips,
        vocabulary=dataset.vocabulary(rows),
        characters=dataset.characters(table["text"]),
    )


def _warnings(rows: Rows) -> list[str]:
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
    return warnings


def _extremes(rows: Rows, speed: FloatArray, clips: Clips) -> dict[str, list[Entry]]:
    """Return the first rows by each measure, to listen to."""
    measures: dict[str, tuple[FloatArray, int, str]] = {
        "Longest": (rows.seconds, -1, "{:.1f} s"),
        "Shortest": (rows.seconds, 1, "{:.2f} s"),
        "Fastest": (speed, -1, "{:.1f} characters per second"),
        "Slowest": (speed, 1, "{:.1f} characters per second"),
    }
    return {
        title: [
            clips.entry(int(row), form.format(values[row]))
            for row in np.argsort(sign * values, kind="stable")[:_MOST]
        ]
        for title, (values, sign, form) in measures.items()
    }


def _samples(rows: Rows, clips: Clips) -> dict[str, list[Entry]]:
    """Return some rows of each dialect at random, always the same."""
    generator = np.random.default_rng(0)
    dialects = rows.table["dialect"]
    samples = defaultdict[str, list[Entry]](list)
    for dialect in sorted(dialects.unique().to_pylist()):
        own = np.flatnonzero(pc.equal(dialects, pa.scalar(dialect)).to_numpy())
        size = min(_PER_DIALECT, len(own))
        chosen = np.sort(generator.choice(own, size, replace=False))
        samples[dialect] = [clips.entry(row) for row in chosen.tolist()]
    return dict(samples)
