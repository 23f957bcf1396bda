"""The table of several corpora."""

import json

from danish_asr.report.corpora_table import corpora_table
from danish_asr.report.tables import to_markdown
from danish_asr.scoring.predictions import Prediction, to_predictions
from danish_asr.scoring.scores import score_predictions


def rows(corpora: int, dialects: int) -> list[Prediction]:
    """Ten speakers of each dialect in each corpus but the last, which has one and no dialect."""
    values = []
    for corpus in range(corpora):
        last = corpora > 1 and corpus == corpora - 1
        for dialect in range(1 if last else dialects):
            for speaker in range(1 if last else 10):
                for number in range(4):
                    words = ["en", "to", "tre", "fire", "fem", "seks", "syv"]
                    wrong = ["x"] * (speaker % 3) + words[speaker % 3 :]
                    values.append(
                        {
                            "id": f"{corpus}-{dialect}-{speaker}-{number}",
                            "corpus": f"corpus_{corpus}",
                            "split": "test",
                            "dialect": None if last else f"dialect {dialect:02}",
                            "speaker_id": f"{corpus}-{dialect}-{speaker}",
                            "reference": " ".join(words),
                            "hypothesis": " ".join(wrong),
                        }
                    )
    return list(to_predictions(values))


def test_several_corpora_have_a_column_each_and_dialects_a_line_each() -> None:
    scores = score_predictions(rows(4, 12))
    table = corpora_table(scores)
    assert table
    assert table.headings == ["WER %", *(f"corpus_{n}" for n in range(4)), "all"]
    assert [row[0] for row in table.rows] == [
        *(f"dialect {n:02}" for n in range(12)),
        "unknown",
        "all",
    ]
    overall = f"{100 * scores.overall.wer.value:.2f}"
    assert table.rows[-1][-1] == overall
    assert table.rows[0][1] == "12.86"
    assert table.rows[0][4] == ""
    assert table.rows[-2][1:] == ["", "", "", "(0.00)", "(0.00)"]
    assert table.note
    assert max(map(len, table.rows[0])) <= 10, "four corpora fit in a terminal"
    assert "WER % by corpus and dialect" in to_markdown(scores)
    saved = json.loads(json.dumps(scores.to_dict()))["by_corpus"]
    assert len(saved) == 4 + 13 + 37


def test_one_corpus_has_no_such_table() -> None:
    scores = score_predictions(rows(1, 2))
    assert scores.by_corpus == ()
    assert corpora_table(scores) is None
    assert "by corpus" not in to_markdown(scores)
