import pytest

from danish_asr.planning.gpus import card_of, preset_for
from tests.plans import planned, preset


@pytest.mark.parametrize("name", ["12GB", "rtx3090", "a100-40", "a100-80"])
def test_the_preset_of_a_card_fits_it(name: str) -> None:
    files, _ = preset_for(card_of(name))
    assert planned(preset(*(file.stem for file in files)), card=name).fits
