import pytest

from danish_asr.base.errors import ConfigError
from danish_asr.report.request import Request


@pytest.mark.parametrize("by", [[""], ["dialect", " "]])
def test_an_empty_name_of_a_column_is_refused(by: list[str]) -> None:
    with pytest.raises(ConfigError, match="by"):
        Request(by=by)
