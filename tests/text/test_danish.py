from __future__ import annotations

import re
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from danish_asr.text.danish import CHARACTERS, RULES, say
from danish_asr.text.profiles import normalize

GOLDEN = Path(__file__).parents[1] / "golden"


def _vectors() -> dict[str, str]:
    lines = (GOLDEN / "danish_text.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return dict(line.split("\t") for line in lines)


def test_danish_writes_its_texts_as_a_dane_reads_them() -> None:
    vectors = _vectors()
    assert len(vectors) == 688
    assert {written: normalize(written, "danish") for written in vectors} == vectors


@given(st.text(alphabet="akrcn.p /'x½²⁶+-5€^<"))
@example("ca to")
@example("kr/kg")
@example("maj-juni")
@example("kontonr.")
@example("per l")
@example("flere mdr.")
@example("en million €")
@example("kaffe el. te")
@example("stuen t.v.")
@example("stuen, th")
@example("lør. klokken ni")
def test_a_text_that_is_not_looked_at_further_is_one_that_no_rule_changes(text: str) -> None:
    expected = " ".join(text.split())
    for rule in RULES:
        expected = rule.pattern.sub(rule.words, expected)
    assert say(text) == expected


def test_a_rule_without_its_sign_matches_nothing() -> None:
    for written in _vectors():
        text = " ".join(written.translate(CHARACTERS).split())
        for rule in RULES:
            changed = rule.pattern.sub(rule.words, text)
            assert changed == text or rule.sign in text, rule
            text = changed


@given(st.text(alphabet="0123456789.,:;-–/% krdenkltms'½²⁶⅓₂°€x+=§^AN"))
@example("0kr0")
@example("k'r")
def test_danish_leaves_no_digit_and_single_spaces_only(text: str) -> None:
    normalised = normalize(text, "danish")
    assert not re.search(r"\d", normalised)
    assert normalised == " ".join(normalised.split())
    assert normalize(normalised, "danish") == normalised
