"""The page, opened in a real browser."""

import re
from pathlib import Path

import pandas as pd
import pytest

from danish_asr.report.page import render_page
from danish_asr.report.run_history import Panel
from danish_asr.scoring.error_analysis import analyse_errors
from danish_asr.scoring.scores import score_predictions
from tests.browser import in_browser, needs_browser
from tests.score_rows import prediction, random_rows

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"
ROWS = [
    *random_rows(400),
    prediction("worst-of-all", f"{HOSTILE} {'ord ' * 30}", HOSTILE, dialect=HOSTILE),
]


def _page() -> str:
    return render_page(
        score_predictions(ROWS, by=["dialect", "age_group,gender", "duration"], rows_in_split=500),
        analyse_errors(ROWS),
        panels=[
            Panel("Loss", "CTC loss", {"training": pd.Series([9.0, 5.0, 4.0], [1, 2, 3])}),
        ],
        about={},
        clips={"worst-of-all": "data:audio/flac;base64,ZkxhQw=="},
    )


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with everything on it: curves, a clip, hostile texts, a partial split."""
    page = tmp_path_factory.mktemp("report") / "report.html"
    page.write_text(_page(), encoding="utf-8")
    return page


def test_the_page_is_one_file_without_external_links_and_always_the_same(report: Path) -> None:
    text = report.read_text(encoding="utf-8")
    links = re.findall(r'(?:href|src)="([^"]*)"', text)
    assert all(link.startswith(("#", "data:")) for link in links)
    assert "default-src 'none'" in text
    assert _page() == text


@needs_browser
def test_hostile_texts_are_shown_as_text_and_everything_has_a_name(report: Path) -> None:
    found = in_browser(
        report,
        """
        const count = (selector) => document.querySelectorAll(selector).length;
        return {
          groups: [...document.querySelectorAll(".grouping tbody th")].map((c) => c.textContent),
          foreign: count("img") + count("script") - 1,
          charts: [count("svg[role=img] > title + desc"), count("svg[role=img][aria-label]"),
            count("svg:not([role=img], [aria-hidden])")],
          danish: count(".alignment:not([lang=da][dir=auto]), .raw bdi:not([lang=da])"),
          tables: [count("table"), [...document.querySelectorAll("table")].filter(
            (table) => document.getElementById(table.getAttribute("aria-labelledby"))).length],
          labels: [...document.querySelectorAll("input, select")].every((f) => f.labels.length),
          audio: [...document.querySelectorAll("audio")].map((clip) => clip.ariaLabel),
        };
        """,
    )
    assert HOSTILE in found["groups"]
    assert found["foreign"] == 0
    assert found["charts"] == [1, 3, 0]
    assert found["danish"] == 0
    assert found["tables"][0] == found["tables"][1] == 9
    assert found["labels"]
    assert found["audio"] == ["Audio of worst-of-all"]


@needs_browser
def test_utterances_and_errors_are_ranked_folded_and_searched(report: Path) -> None:
    found = in_browser(
        report,
        """
        const rows = (selector, text) => [...document.querySelectorAll(`${selector} tbody tr`)]
          .filter((row) => row.getClientRects().length).map(text);
        const enter = (selector, value) => {
          const field = document.querySelector(selector);
          field.value = value;
          field.dispatchEvent(new window.Event("input"));
        };
        const column = (n) => rows("#worst-table", (row) => row.cells[n].textContent);
        const errors = () => rows("#confusions", (row) => row.textContent);
        const found = {before: document.querySelector("#worst-count").textContent};
        Object.assign(found, {folded: column(0), wer: (enter("#rank", "wer"), column(1))});
        enter("#rank", "errors");
        document.querySelector("#worst-table + .more").click();
        found.all = column(4);
        document.querySelector("#worst-table + .more").click();
        enter("#find-worst", "WORST-OF-ALL");
        found.one = [column(4), document.querySelector("#worst-count").textContent];
        enter("#find-worst", "");
        enter("#pick-dialect", "Fynsk");
        document.querySelector("#worst-table + .more").click();
        found.fynsk = column(4);
        enter("#find-error", "rødgrø");
        found.rodgrod = errors();
        return found;
        """,
    )
    for ranked in (found["folded"], found["wer"]):
        values = list(map(float, ranked))
        assert len(values) == 10
        assert values == sorted(values, reverse=True)
    assert len(found["all"]) == 50
    assert found["before"] == ""
    assert found["one"] == [[HOSTILE], "1 found"]
    assert found["fynsk"] == [name for name in found["all"] if name == "Fynsk"] != []
    assert found["rodgrod"] == [text for text in found["rodgrod"] if "rødgrø" in text] != []


def test_an_utterance_of_hours_does_not_make_the_page_large() -> None:
    reference, hypothesis = (" ".join(f"{name}{n}" for n in range(5000)) for name in ("ord", "tal"))
    letters = prediction("letters", "a" * 50_000, "b" * 50_000)
    rows = [prediction("long", reference, hypothesis), letters]
    page = render_page(score_predictions(rows, by=[]), analyse_errors(rows), about={}, clips={})
    assert "… and 4,700 more" in page
    assert len(page) < 200_000
