"""What a score depends on."""

from __future__ import annotations

from typing import Any

import pytest

from danish_asr.errors import ConfigError
from danish_asr.scoring.settings import Settings


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"profile": "corl"}, "profile: expected one of raw, coral, rye; found 'corl'"),
        ({"remove_fillers": True}, "remove_fillers: an option of profile rye; found profile"),
        ({"row_filter": "official"}, "row filter: expected one of all, coral; found 'official'"),
        ({"denominator": "both"}, "denominator: expected one of standard, coral; found 'both'"),
        ({"resamples": 10}, "resamples: expected 100 to 1000000; found 10"),
        ({"seed": -1}, "seed: expected 0 or more; found -1"),
    ],
)
def test_a_value_that_there_is_not_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Settings(**values)


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        Settings(profile="corl", row_filter="official", denominator="both", seed=-1)  # type: ignore[arg-type]
    assert len(caught.value.faults) == 4
