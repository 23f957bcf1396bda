import pytest

from danish_asr.text.danish_words import ABBREVIATIONS, MONTHS, UNITS, WEEKDAYS
from danish_asr.text.profiles import normalize


def test_a_unit_has_a_name_for_one_and_one_for_several() -> None:
    assert UNITS["µg"] == UNITS["μg"] == ("et mikrogram", "mikrogram")
    assert UNITS["°C"] == ("en grad celsius", "grader celsius")
    assert UNITS["Mbit/s"] == ("en megabit per sekund", "megabit per sekund")
    assert (MONTHS["aug"], WEEKDAYS["ti"]) == ("august", "tirsdag")


@pytest.mark.parametrize("number", ["1", "2"])
def test_every_unit_month_and_abbreviation_is_said(number: str) -> None:
    expected = {
        f"{number} {unit}": one if number == "1" else f"to {several}"
        for unit, (one, several) in UNITS.items()
    }
    day = "første" if number == "1" else "anden"
    expected |= {f"{number}. {short} ": f"{day} {month}" for short, month in MONTHS.items()}
    expected |= {f"{number}. {month}": f"{day} {month}" for month in MONTHS.values()}
    expected |= {f"Ja {short} nej": f"ja {said} nej" for short, said in ABBREVIATIONS.items()}
    assert {written: normalize(written, "danish") for written in expected} == expected
