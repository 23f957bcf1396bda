"""What a score is made of: rows per utterance and per error, and the texts for NIST's sclite."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any, Final
from urllib.parse import quote

from danish_asr.metrics import align_words, count_errors, split_words
from danish_asr.scoring.error_analysis import ErrorAnalysis
from danish_asr.scoring.predictions import Prediction, to_row
from danish_asr.scoring.settings import Settings

_WDIFF: Final = {
    "hit": "{0}",
    "substitution": "[-{0}-]{{+{1}+}}",
    "deletion": "[-{0}-]",
    "insertion": "{{+{1}+}}",
}


def utterance_rows(
    predictions: Iterable[Prediction], *, settings: Settings | None = None
) -> Iterator[dict[str, Any]]:
    """Yield a flat dict per scored row: its metadata, texts, counts, rates and alignment.

    Over an empty reference there is no rate, only insertions.

    The alignment is in the notation of GNU wdiff: ``det [-er-]{+var+} [-meget-] koldt {+nu+}`` has
    a substitution, a deletion and an insertion.
    """
    settings = settings or Settings()
    for row, reference, hypothesis in settings.scored(predictions):
        errors = count_errors(reference, hypothesis)
        words = align_words(split_words(reference), split_words(hypothesis))
        yield {
            **to_row(row),
            "reference_normalised": reference,
            "hypothesis_normalised": hypothesis,
            "wer": errors.wer(settings.denominator) if reference else None,
            "cer": errors.cer(settings.denominator) if reference else None,
            **{f"word_{kind}": count for kind, count in asdict(errors.words).items()},
            **{f"character_{kind}": count for kind, count in asdict(errors.characters).items()},
            "alignment": " ".join(
                _WDIFF[word.tag].format(word.reference, word.hypothesis) for word in words
            ),
        }


def error_rows(analysis: ErrorAnalysis) -> Iterator[dict[str, Any]]:
    """Yield a flat dict per confusion and per error category.

    ``count`` are the errors, ``share`` their part of the profile's word errors; of a category those
    that disappear without it.
    """
    for kind, confusions in (
        ("substitution", analysis.substitutions),
        ("insertion", analysis.insertions),
        ("deletion", analysis.deletions),
        ("character", analysis.character_confusions),
    ):
        for pair in confusions:
            yield {
                "kind": kind,
                "profile": analysis.profile,
                "category": None,
                **asdict(pair),
                "share": None if kind == "character" else pair.count / analysis.word_errors,
            }
    for line in analysis.categories:
        yield {
            "kind": "category",
            "profile": line.profile,
            "category": line.category,
            "reference": None,
            "hypothesis": None,
            "count": line.errors - line.errors_without,
            "share": line.share,
        }


# What sclite reads as alternatives, optional words, the empty word and comments.
# Their full-width forms have the same number of characters.
_TRN_MARKUP: Final = str.maketrans("(){}@;", "（）｛｝＠；")


def trn_lines(
    predictions: Iterable[Prediction], *, settings: Settings | None = None
) -> Iterator[tuple[str, str]]:
    """Yield each scored row as a line of a reference and of a hypothesis file in NIST's ``trn``.

    A line is ``text (speaker-utterance)``. Both parts of the id are percent-encoded, so that ids
    stay unique and `urllib.parse.unquote` gives them back.
    """
    for row, *texts in (settings or Settings()).scored(predictions):
        name = f"({_encoded(row.speaker_id or 'unknown')}-{_encoded(row.id)})"
        reference, hypothesis = (
            f"{' '.join(map(_trn_word, split_words(text)))} {name}" for text in texts
        )
        yield reference, hypothesis


def _trn_word(word: str) -> str:
    return re.sub(r"\s", "_", word).translate(_TRN_MARKUP)  # a tab does not separate words here


def _encoded(name: str) -> str:
    return quote(name, safe="").replace("-", "%2D").replace("_", "%5F")
