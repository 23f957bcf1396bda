"""What is left of the errors when a matter of writing is taken out."""

from __future__ import annotations

import pytest

from danish_asr.metrics import align_counts
from danish_asr.scoring.effects import EFFECTS

CASE, FILLERS, NUMERALS, COMPOUNDS, ALL = EFFECTS


@pytest.mark.parametrize(
    ("reference", "hypothesis", "removed_by"),
    [
        ("Hej, verden!", "hej verden", CASE),
        ("øh jeg mhm går", "jeg går", FILLERS),
        ("jeg går", "øøh jeg går hmm", FILLERS),
        ("Øh, jeg går, hmm...", "jeg går,", FILLERS),
        ("21 æbler", "enogtyve æbler", NUMERALS),
        ("1.203 kr", "et tusind to hundrede og tre kr", NUMERALS),
        ("rødgrød med", "rød grød med", COMPOUNDS),
    ],
)
def test_each_effect_takes_out_its_own_errors_and_no_others(
    reference: str, hypothesis: str, removed_by: str
) -> None:
    plain = align_counts(reference.split(), hypothesis.split()).errors
    assert plain > 0
    left = {name: effect(reference, hypothesis) for name, effect in EFFECTS.items()}
    assert left[removed_by] == 0
    assert left[ALL] == 0
    others = EFFECTS.keys() - {removed_by, ALL}
    assert all(left[name] == plain for name in others)


@pytest.mark.parametrize("name", EFFECTS)
def test_misheard_words_stay_errors(name: str) -> None:
    assert EFFECTS[name]("han går hjem", "hun står hjem") == 2


@pytest.mark.parametrize("text", ["ehm", "Øh", "øhm", "hm", "hmm", "mhm", "mm", "mmm", "æh", "øøh"])
def test_fillers_go(text: str) -> None:
    assert EFFECTS[FILLERS](text, "") == 0


@pytest.mark.parametrize("text", ["ohm", "ø", "hjem", "eh1", "m", "uh"])
def test_what_only_looks_like_a_filler_stays(text: str) -> None:
    assert EFFECTS[FILLERS](text, "") == 1
