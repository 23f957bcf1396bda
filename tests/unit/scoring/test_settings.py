"""Scoring settings and row filters."""

from __future__ import annotations

from typing import Any

import pytest

from danish_asr.errors import ConfigError
from danish_asr.scoring.settings import ROW_FILTERS, Settings
from tests.score_rows import prediction


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"profile": "corl"}, "profile: expected one of raw, coral, rye; found 'corl'"),
        ({"remove_fillers": True}, "remove_fillers: .*profile rye; found profile 'coral'"),
        ({"row_filter": "official"}, "row filter: expected one of all, coral; found 'official'"),
        ({"denominator": "both"}, "denominator: expected one of standard, coral; found 'both'"),
        ({"resamples": 10}, "resamples: expected 100 to 1000000; found 10"),
        ({"seed": -1}, "seed: expected 0 or more; found -1"),
    ],
)
def test_an_invalid_value_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Settings(**values)


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        Settings(profile="corl", row_filter="official", denominator="both", seed=-1)  # type: ignore[arg-type]
    assert len(caught.value.faults) == 4


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"duration": 0.5}, "0.5 s or shorter"),
        ({"duration": 0.51}, None),
        ({"duration": 9.99}, None),
        ({"duration": 10.0}, "10 s or longer"),
        ({"reference": " "}, "empty reference"),
        ({"hypothesis": ""}, None),
        ({"extra": {"validated": "Rejected"}}, "rejected by the corpus's validators"),
        ({"extra": {"validated": "maybe"}}, None),
        ({"extra": {"validated": None}}, None),
    ],
)
def test_the_coral_filter_is_strict_at_its_bounds(
    changes: dict[str, object], reason: str | None
) -> None:
    row = prediction("a", **{"reference": "ja", "hypothesis": "ja"} | changes)  # type: ignore[arg-type]
    assert ROW_FILTERS["coral"](row) == reason
    assert ROW_FILTERS["all"](row) is None
