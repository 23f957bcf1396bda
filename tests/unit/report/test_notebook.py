"""Scores in a notebook: tables as HTML, and figures."""

from danish_asr.scoring.comparison import compare_runs
from danish_asr.scoring.scores import score_predictions
from tests.score_rows import prediction, random_rows

HOSTILE = "<script>$x^$</script>"


def test_results_are_tables_in_per_cent_without_markup_of_the_data() -> None:
    rows = [*random_rows(300), prediction("x", "ja", "nej", dialect=HOSTILE)]
    for found in (
        score_predictions(rows, by=["dialect"]),
        compare_runs({HOSTILE: {"a": rows}, "b": {"b": rows}}, by=["dialect"]),
    ):
        html = found._repr_html_()
        assert "profile coral" in html
        assert "<td>100.00</td>" in html  # the rate of the last row
        assert "&lt;script&gt;" in html
        assert "301 rows" in html
        for wrong in ("<script", "None", "nan", "NaN"):
            assert wrong not in html
