"""``danish-asr report``: one offline page about a run, also while it trains."""

import time
from pathlib import Path
from typing import Final

from rich.console import Console

from danish_asr.base.files import publish_text
from danish_asr.recipe.run.run_directory import CONFIG_FILE, ENVIRONMENT
from danish_asr.report.run.history import History
from danish_asr.report.run.page import render
from danish_asr.report.tables import say

RELOAD: Final = 30
"""Seconds after which a page that is followed is written, and loaded, again."""


def report_run(
    run: Path,
    page: Path | None = None,
    *,
    follow: bool = False,
    seconds: int = RELOAD,
    console: Console | None = None,
) -> None:
    """Write the page of a run, to ``OUTDIR/report.html`` by default.

    ``follow`` writes it again every ``seconds`` until the run has ended. The page reloads itself
    until then, or until Ctrl-C. It waits for a run that has not begun.

    Raises:
        RunError: The directory is not that of a run, or a metrics file is damaged.
        PredictionsError: An evaluation of the run cannot be scored.
    """
    console = console or Console(stderr=True)
    page = page or run / "report.html"
    begun = (run / CONFIG_FILE, run / ENVIRONMENT)  # when all is loaded
    if follow and not all(file.is_file() for file in begun):
        say(f"waiting until a run begins in {run}; Ctrl-C stops it", console)
        while not all(file.is_file() for file in begun):
            time.sleep(1)
    history = History(run)
    if follow and not history.ended:
        text = f"writing {page} every {seconds} s, without further lines, until the run ends"
        say(f"{text}; Ctrl-C stops it", console)
    try:
        while follow and not history.ended:
            publish_text(page, render(history, page, reload=seconds))
            time.sleep(seconds)
            history = History(run)
    finally:
        publish_text(page, render(history, page))
        say(f"{history.run.name}: step {history.step:,}, {history.state}; wrote {page}", console)
