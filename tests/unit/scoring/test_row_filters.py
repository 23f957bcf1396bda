"""Which rows are scored."""

from __future__ import annotations

import pytest

from danish_asr.errors import ConfigError
from danish_asr.scoring.row_filters import row_filter_reason
from tests.score_rows import prediction


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"duration": 0.5}, "0.5 s or shorter"),
        ({"duration": 0.51}, None),
        ({"duration": 9.99}, None),
        ({"duration": 10.0}, "10 s or longer"),
        ({"extra": {"validated": "rejected"}}, "rejected by the corpus's validators"),
        ({"extra": {"validated": "Rejected"}}, "rejected by the corpus's validators"),
        ({"extra": {"validated": "maybe"}}, None),
        ({"extra": {"validated": None}}, None),
    ],
)
def test_the_official_filter_is_strict_at_its_bounds(
    changes: dict[str, object], reason: str | None
) -> None:
    row = prediction("a", "ja", "ja", **changes)
    assert row_filter_reason("coral")(row) == reason
    assert row_filter_reason("all")(row) is None


def test_the_official_filter_leaves_out_empty_references_and_keeps_empty_hypotheses() -> None:
    reason_of = row_filter_reason("coral")
    assert reason_of(prediction("a", " ", "ja")) == "empty reference"
    assert reason_of(prediction("a", "ja", "")) is None


def test_an_unknown_filter_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="expected one of all, coral; found 'official'"):
        row_filter_reason("official")
