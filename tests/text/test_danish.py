from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from danish_asr.text.danish import RULES, say
from danish_asr.text.profiles import normalize

GOLDEN = Path(__file__).parents[1] / "golden"


def test_danish_writes_its_texts_as_a_dane_reads_them() -> None:
    lines = (GOLDEN / "danish_text.tsv").read_text(encoding="utf-8").splitlines()[1:]
    pairs = dict(line.split("\t") for line in lines)
    assert len(pairs) == 338
    assert {written: normalize(written, "danish") for written in pairs} == pairs


@given(st.text(alphabet="akrc. /'x½²+5"))
@example("ca to")
@example("kr/kg")
def test_a_text_that_is_not_looked_at_further_is_one_that_no_rule_changes(text: str) -> None:
    expected = text
    for pattern, words in RULES:
        expected = pattern.sub(words, expected)
    assert say(text) == expected


@given(st.text(alphabet="0123456789.,:;-–/% krdenkltms'½²°€x+=§ADN"))
@example("0kr0")
@example("k'r")
def test_danish_leaves_no_digit_and_single_spaces_only(text: str) -> None:
    normalised = normalize(text, "danish")
    assert not re.search(r"\d", normalised)
    assert normalised == " ".join(normalised.split())
    assert normalize(normalised, "danish") == normalised


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("år 200 f.Kr. og 100 e.Kr.", "år to hundrede før kristus og hundrede efter kristus"),
        ("§ 12, stk. 3", "paragraf tolv stykke tre"),
        ("3 stk. æbler", "tre styk æbler"),
        ("kl 12 var ca 5 på nr 7", "klokken tolv var cirka fem på nummer syv"),
        ("10 pct af dem", "ti procent af dem"),
        ("50 kr./stk.", "halvtreds kroner per styk"),
        ("50 kr./kg", "halvtreds kroner per kilo"),
        ("1,5 mio. kr.", "en komma fem millioner kroner"),
        ("Kr. Himmelfart", "kr himmelfart"),
        ("den 3.5.24", "den tredje i femte fireogtyve"),
        ("7-9-13", "syv ni tretten"),
    ],
)
def test_danish_reads_what_has_two_readings_by_what_stands_beside_it(
    written: str, spoken: str
) -> None:
    assert normalize(written, "danish") == spoken
