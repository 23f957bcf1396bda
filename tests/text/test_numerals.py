import pytest

from danish_asr.text.numerals import spell_numerals


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
