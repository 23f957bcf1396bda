import pytest

from danish_asr.base import progress
from danish_asr.base.progress import watch


def test_a_log_gets_plain_lines_whose_rates_leave_out_earlier_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_INTERVAL", 0)
    assert list(watch("converted", ["a" * 40, "b" * 50], len, 100, done=5))[1][0] == "b"
    first, *_, last = capsys.readouterr().err.strip().splitlines()
    assert "converted 45/100 rows" in first
    assert "converted 95/100 rows" in last
    assert list(watch("converted", [""][:0], len, 100, done=100)) == []
    assert capsys.readouterr().err.strip() == "converted 100/100 rows"
