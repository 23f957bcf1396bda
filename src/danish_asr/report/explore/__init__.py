"""``danish-asr explore``: one offline page about a built dataset."""

from pathlib import Path

import numpy as np
from rich.console import Console

from danish_asr.base.errors import ConfigError
from danish_asr.base.files import publish_text
from danish_asr.base.progress import track
from danish_asr.base.schema import CARDS_DIR
from danish_asr.recipe.data.targets import count_unknown
from danish_asr.recipe.models.assets import open_tokenizer
from danish_asr.report.explore.audio import Sample, measure_rows, stratified
from danish_asr.report.explore.page import render
from danish_asr.report.explore.rows import read_rows
from danish_asr.report.tables import say


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
    rows = read_rows(root)
    chosen, weights = stratified(rows.table["dialect"], sample, generator)
    measures = track(measure_rows(rows, chosen), "measuring audio", len(chosen))
    measured = Sample(chosen, weights, list(measures))
    unknown = {index.split: count_unknown(index, opened) for index in rows.indexes if opened}
    text = render(root, rows, measured, generator, tokenizer=tokenizer, unknown=unknown)
    publish_text(out, text)
    say(f"{len(rows.table):,} rows, audio of {len(chosen):,} measured; wrote {out}", console)
