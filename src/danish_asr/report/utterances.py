"""Scored utterances as files: a CSV with a line for each, and NIST's trn.

In: scores. Out: a table, and texts.
"""

import re
from typing import Final
from urllib.parse import quote

import pandas as pd

from danish_asr.base.tables import TRN_MARKUP
from danish_asr.metrics import align_words, split_words
from danish_asr.scoring.intervals import COUNTS, rates
from danish_asr.scoring.rows import HIDDEN
from danish_asr.scoring.scores import Scores

_WDIFF: Final = {
    "hit": "{0}",
    "substitution": "[-{0}-]{{+{1}+}}",
    "deletion": "[-{0}-]",
    "insertion": "{{+{1}+}}",
}


def utterance_table(scores: Scores) -> pd.DataFrame:
    """Return a line per scored row: what is known of it, texts, rates, counts and alignment.

    Over an empty reference there is no rate. The alignment is in the notation of GNU wdiff:
    ``det [-er-]{+var+} [-meget-] koldt {+nu+}``.
    """
    table = scores.table.drop(columns=[*HIDDEN, "words_per_second", *COUNTS], errors="ignore")
    wer, cer = rates(scores.table[[*COUNTS]].to_numpy(), scores.settings.denominator)
    table = table.assign(wer=wer, cer=cer)
    table[[*COUNTS]] = scores.table[[*COUNTS]]
    texts = zip(table["reference_normalised"], table["hypothesis_normalised"], strict=True)
    return table.assign(alignment=[_alignment(*pair) for pair in texts])


def _alignment(reference: str, hypothesis: str) -> str:
    if reference == hypothesis:
        return reference
    words = align_words(split_words(reference), split_words(hypothesis))
    return " ".join(_WDIFF[word.tag].format(word.reference, word.hypothesis) for word in words)


def trn_text(scores: Scores, side: str) -> str:
    """Return the scored rows, ``reference`` or ``hypothesis``, in NIST's ``trn``.

    A line is ``text (speaker-utterance)``. Both parts of the id are percent-encoded, so that ids
    stay unique. What sclite would read as markup is written in full-width forms.
    """
    lines = []
    columns = ["speaker_id", "id", f"{side}_normalised"]
    for speaker, row_id, text in scores.table[columns].itertuples(index=False):
        # A tab or newline does not separate words here.
        words = [re.sub(r"\s", "_", word) for word in split_words(text)]
        written = " ".join(words).translate(TRN_MARKUP)
        lines.append(f"{written} ({_encoded(speaker or 'unknown')}-{_encoded(row_id)})\n")
    return "".join(lines)


def _encoded(name: str) -> str:
    return quote(name, safe="").replace("-", "%2D").replace("_", "%5F")
