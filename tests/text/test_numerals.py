import pytest

from danish_asr.text.numerals import by_hundreds, cardinal, ordinal, spell_numerals


@pytest.mark.parametrize(
    ("numeral", "words"),
    [
        ("0", "nul"),
        ("19. 20", "nitten. tyve"),
        ("100", "hundrede"),
        ("1000", "tusind"),
        ("101.000", "et hundrede og en tusind"),
        ("1.005", "et tusind og fem"),
        ("1.099", "et tusind og nioghalvfems"),
        ("1.100", "et tusind et hundrede"),
        ("1987", "et tusind ni hundrede og syvogfirs"),
        ("1.001.000", "en million et tusind"),
        ("1.000.100", "en million et hundrede"),
        ("2.002.000", "to millioner to tusind"),
        ("230000000", "to hundrede og tredive millioner"),
        ("1234567890", "1234567890"),
        ("10,01", "ti komma nul et"),
        ("0,5", "nul,fem"),  # as CoRal's expression takes it
        ("007 a1", "007 a1"),
    ],
)
def test_a_numeral_is_spelled_as_coral_spells_it(numeral: str, words: str) -> None:
    assert spell_numerals(numeral) == words


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "nulte"),
        (19, "nittende"),
        (20, "tyvende"),
        (42, "toogfyrretyvende"),
        (100, "hundrede"),
        (119, "et hundrede og nittende"),
        (231, "to hundrede og enogtredivte"),
        (300, "tre hundrede"),
    ],
)
def test_an_ordinal_is_spelled_in_one_word_below_a_hundred(number: int, words: str) -> None:
    assert ordinal(number) == ordinal(number, neuter=True) == words


def test_only_a_last_one_and_a_last_second_have_a_neuter() -> None:
    for number, common, neuter in (
        (1, "en", "et"),
        (201, "to hundrede og en", "to hundrede og et"),
        (1_000_000_000, "en milliard", "en milliard"),
    ):
        assert (cardinal(number), cardinal(number, neuter=True)) == (common, neuter)
    assert (ordinal(2), ordinal(102, neuter=True)) == ("anden", "et hundrede og andet")


def test_a_year_is_spelled_by_hundreds() -> None:
    years = [by_hundreds(year) for year in (1900, 1987)]
    assert years == ["nittenhundrede", "nittenhundrede og syvogfirs"]
