from __future__ import annotations

import re
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from danish_asr.text.danish import RULES, say
from danish_asr.text.profiles import normalize

GOLDEN = Path(__file__).parents[1] / "golden"


def test_danish_writes_its_texts_as_a_dane_reads_them() -> None:
    lines = (GOLDEN / "danish_text.tsv").read_text(encoding="utf-8").splitlines()[1:]
    pairs = dict(line.split("\t") for line in lines)
    assert len(pairs) == 352
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
