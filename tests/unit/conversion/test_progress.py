from __future__ import annotations

import io

import pytest
from rich.console import Console

from danish_asr.conversion import progress
from danish_asr.conversion.progress import watch


def measure(rows: int) -> tuple[int, int]:
    return rows, rows * 16_000


def test_a_log_gets_plain_lines_whose_rates_leave_out_earlier_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "_INTERVAL", 0)
    output = io.StringIO()
    console = Console(file=output, width=200)
    assert list(watch("converted", [40, 50], measure, 100, done=5, console=console)) == [40, 50]
    first, _, last = output.getvalue().splitlines()
    assert "converted 45/100 rows" in first
    assert "converted 95/100 rows" in last
    for unit in ("rows/s", "audio-hours/s", "ETA"):
        assert unit in last
    resumed = io.StringIO()
    list(watch("converted", [], measure, 100, done=100, console=Console(file=resumed, width=200)))
    assert "converted 100/100 rows  0 rows/s  0.00 audio-hours/s" in resumed.getvalue()


def test_a_terminal_gets_a_display() -> None:
    output = io.StringIO()
    terminal = Console(file=output, force_terminal=True, width=150)
    list(watch("converted", [100], measure, 100, console=terminal))
    assert "100/100 rows" in output.getvalue()
