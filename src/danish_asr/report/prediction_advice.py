"""What predictions show about the data: wrong texts, letters that are missing, speaking rate."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

from danish_asr.metrics import count_character_errors
from danish_asr.recipe.run.advice import Advice
from danish_asr.scoring.predictions import read_predictions
from danish_asr.scoring.settings import Settings

_OTHER_TEXT: Final = 0.6
"""CER of a row from which on its text may be that of another recording; two Danish sentences differ
by 0.7 and more."""

_WELL_READ: Final = 0.3
"""Median CER of the rows below which the model itself can be trusted to say so."""

_SHARE: Final = 0.02
_CHARACTERS: Final = 10
"""Of a reference, so that one wrong word is not a wrong text."""

_LETTER: Final = 0.002
_TIMES: Final = 10
"""The share and number of a letter in the references from which on it must occur."""

_RATES: Final = (8.0, 25.0)
"""Characters per second; read Danish has 12 to 16."""

_NAMED: Final = 3


def advise_predictions(file: Path, split: str) -> Iterator[Advice]:
    """Yield what the rows of a ``predictions.jsonl`` show that their mean rates do not."""
    rates: dict[str, float] = {}
    written, read, heard = Counter[str](), Counter[str](), list[float]()
    for row, reference, hypothesis in Settings().scored(read_predictions(file)):
        written.update(reference)
        read.update(hypothesis)
        if row.duration and len(reference) >= _CHARACTERS:
            heard.append(len(reference) / row.duration)
        if len(reference) >= _CHARACTERS:
            errors = count_character_errors(reference, hypothesis)
            rates[row.id] = errors.errors / max(errors.reference_length, 1)
    if not rates:
        return
    typical, others = median(rates.values()), [i for i, cer in rates.items() if cer > _OTHER_TEXT]
    if typical < _WELL_READ and len(others) > _SHARE * len(rates):
        worst = ", ".join(sorted(others, key=lambda row: -rates[row])[:_NAMED])
        yield Advice(
            f"{len(others)} of {len(rates)} rows of {split} have a CER above {_OTHER_TEXT:.0%}, "
            f"half of all rows below {typical:.0%}",
            f"their texts may be those of other recordings, or they hold no speech: listen to "
            f"{worst}; `danish-asr audit DATASET --model OUTDIR` lists them by kind",
        )
    letters = {
        letter: count
        for letter, count in written.items()
        if letter.isalnum() and count >= max(_TIMES, _LETTER * written.total())
    }
    missing = sorted(letter for letter in letters if not read[letter])
    if missing and typical < _OTHER_TEXT and len(missing) < len(letters) / 2:
        yield Advice(
            f"the model never writes {' '.join(missing)}, which the texts of {split} have "
            f"{sum(letters[letter] for letter in missing):,} times",
            "the tokenizer lacks them, or dataset.text_profile gives training other texts than "
            "scoring: see what the start of the log says is unknown",
        )
    if heard and not _RATES[0] <= (rate := median(heard)) <= _RATES[1]:
        yield Advice(
            f"the speakers of {split} read {rate:.1f} characters a second; 12 to 16 are usual",
            "the audio may play too slowly or too fast (a wrong sampling rate), or the texts cover "
            "a part of it; listen to some",
        )
