from typing import Any

import pytest

from danish_asr.base.errors import ConfigError
from danish_asr.scoring.intervals import COUNTS
from danish_asr.scoring.predictions import read_predictions
from danish_asr.scoring.scores import score_table
from danish_asr.scoring.settings import Settings
from tests.score_rows import prediction


def test_settings_name_themselves_and_report_all_faults_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        Settings(profile="corl", denominator="both", row_filter="x")  # type: ignore[arg-type]
    assert len(caught.value.faults) == 3
    settings = {"profile": "coral", "row_filter": "all", "denominator": "standard"}
    assert Settings().to_dict() == settings | {"profile_version": 1}
    named = [Settings(profile=name).in_words() for name in ("coral", "builtins:str")]
    words = "filter all, denominator standard"
    assert named == [f"profile coral v1, {words}", f"profile builtins:str, {words}"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"duration": 0.5}, "0.5 s or shorter"),
        ({"duration": 0.51}, None),
        ({"duration": 9.99}, None),
        ({"duration": 10.0}, "10 s or longer"),
        ({"duration": None, "reference": ""}, "duration unknown"),
        ({"reference": " "}, "empty reference"),
        ({"validated": "Rejected"}, "rejected by the corpus's validators"),
        ({"validated": "maybe"}, None),
    ],
)
def test_the_coral_filter_is_strict_at_its_bounds(
    changes: dict[str, Any], reason: str | None
) -> None:
    row = prediction("a", **{"reference": "ja", "hypothesis": "ja"} | changes)
    for row_filter, expected in (("coral", reason), ("all", None)):
        table = score_table(read_predictions([row]), Settings(row_filter=row_filter))
        assert table["left_out"].tolist() == [expected]


def test_the_rye_filter_excludes_references_that_normalisation_empties() -> None:
    rows = [prediction("a", "...", "ja"), prediction("b", "ja", "ja")]
    table = score_table(read_predictions(rows), Settings(profile="rye", row_filter="rye"))
    assert table["left_out"].tolist() == ["empty reference after normalisation", None]
    assert table[[*COUNTS]].sum(axis=1).tolist() == [0, 3]
