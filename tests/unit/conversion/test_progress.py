import pytest

from danish_asr.base import progress
from danish_asr.base.progress import watch


def measure(rows: int) -> tuple[int, int]:
    return rows, rows * 16_000


def test_a_log_gets_plain_lines_whose_rates_leave_out_earlier_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_INTERVAL", 0)
    assert list(watch("converted", [40, 50], measure, 100, done=5)) == [40, 50]
    first, *_, last = capsys.readouterr().err.strip().splitlines()
    assert "converted 45/100 rows" in first
    assert "converted 95/100 rows" in last
    assert list(watch("converted", [], measure, 100, done=100)) == []
    assert capsys.readouterr().err.strip() == "converted 100/100 rows"
