from __future__ import annotations

import io

from rich.console import Console

from danish_asr.conversion.progress import ConversionProgress
from danish_asr.conversion.shard import Record, RejectedRow


def record(task: int, rows: int, dropped: int) -> Record:
    lost = RejectedRow(source="a", row=0, id="x", dialect=None, reason="empty text")
    return Record(
        task=task,
        rows=rows,
        samples=rows * 16_000,
        size=1,
        sha256="",
        dropped=(lost,) * dropped,
        unmapped={},
        characters="",
    )


def test_a_log_gets_one_plain_line_with_all_that_matters() -> None:
    output = io.StringIO()
    with ConversionProgress(100, [record(0, 40, 2)], console=Console(file=output)) as progress:
        progress.advance(record(1, 50, 3))
        assert progress.dropped == 5
    (line,) = output.getvalue().strip().splitlines()
    assert "converted 95/100 rows" in line
    assert "5 dropped" in line
    for unit in ("rows/s", "audio-hours/s", "ETA"):
        assert unit in line


def test_a_terminal_gets_a_display() -> None:
    output = io.StringIO()
    terminal = Console(file=output, force_terminal=True, width=120)
    with ConversionProgress(100, console=terminal) as progress:
        progress.advance(record(1, 100, 0))
    assert "100/100 rows" in output.getvalue()


def test_rates_leave_out_what_an_earlier_run_did() -> None:
    output = io.StringIO()
    with ConversionProgress(10_000, [record(0, 10_000, 0)], console=Console(file=output)):
        pass
    assert "converted 10,000/10,000 rows  0 rows/s  0.00 audio-hours/s" in output.getvalue()
