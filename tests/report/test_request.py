"""The options that `score` and `compare` have in common."""

from pathlib import Path

import pandas as pd
import pytest

from danish_asr.base.errors import ConfigError
from danish_asr.report.request import Request, listed
from danish_asr.scoring.predictions import read_references
from danish_asr.scoring.settings import Settings
from tests.parts import build_part


def test_a_request_has_the_settings_of_its_options_and_the_profile_that_was_chosen() -> None:
    request = Request(profile="raw", row_filter="rye", denominator="coral")
    settings = Settings(profile="plain", row_filter="rye", denominator="coral")
    assert request.settings("plain") == settings


def test_rows_are_loaded_as_the_options_say(tmp_path: Path) -> None:
    build_part(tmp_path / "data", rows={"train": 2, "test": 3}, people="012")
    known = read_references(tmp_path / "data", "train")
    frame = pd.DataFrame({"id": known["id"], "whisper": "x", "text": known["reference"] + "!"})
    columns = {"hypothesis": "whisper", "reference": "text"}
    request = Request(dataset=tmp_path / "data", split="train", columns=columns)
    loaded = request.load(iter([frame]), Settings())
    assert loaded.in_dataset == 2
    assert loaded.rows["hypothesis"].tolist() == ["x", "x"]
    assert loaded.rows["speaker_id"].tolist() == known["speaker_id"].tolist()


def test_groupings_are_one_several_or_none() -> None:
    assert [listed(by) for by in ("a,b", ("a", "b"), None)] == [["a,b"], ["a", "b"], []]


@pytest.mark.parametrize("by", [[""], ["dialect", " "]])
def test_an_empty_name_of_a_column_is_refused(by: list[str]) -> None:
    with pytest.raises(ConfigError, match="by"):
        Request(by=by)
