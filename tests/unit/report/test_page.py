"""The page, opened in a real browser."""

import io
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from danish_asr.report import ReportOptions, score_file
from danish_asr.report.page import render_page
from danish_asr.report.run_history import Panel
from danish_asr.report.wording import gap_verdict
from danish_asr.scoring.error_analysis import analyse_errors
from danish_asr.scoring.predictions import Prediction, write_predictions
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
def test_numbers_are_sorted_from_the_largest_names_from_a_and_a_second_click_reverses(
    report: Path,
) -> None:
    found = in_browser(
        report,
        """
        const table = document.querySelector(".grouping table");
        const heads = [...table.tHead.rows[0].cells];
        const state = (n) => [
          [...table.tBodies[0].rows].map((row) => row.cells[n].textContent.replace(",", "")),
          heads.map((head) => head.ariaSort),
        ];
        const click = (n) => {
          heads[n].querySelector("button").click();
          return state(n);
        };
        return [state(1), click(1), click(5), click(5), click(0)];
        """,
    )
    (wer, sort), (up, _), (rows, _), (fewest, _), (names, sort_by_name) = found
    assert sort[:4] == ["none", "descending", None, None]
    assert sort_by_name[:2] == ["ascending", "none"]
    # The group without an interval is last in any order.
    assert names.pop() == HOSTILE
    assert names == ["Bornholmsk", "Fynsk", "Nordjysk", "Sjællandsk", "Østjysk"]
    for numbers, largest_first in ((wer, True), (up, False), (rows, True), (fewest, False)):
        *values, _ = map(float, numbers)
        assert values == sorted(values, reverse=largest_first)


@needs_browser
@pytest.mark.parametrize("width", [380, 1200])
def test_utterances_and_errors_are_ranked_folded_and_searched(report: Path, width: int) -> None:
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
        enter("#find-worst", found.last = document.querySelector("#worst-table tbody")
          .lastElementChild.querySelector(".raw:last-of-type").textContent);
        found.folded_row = column(4).length;
        enter("#find-worst", "");
        enter("#pick-dialect", "Fynsk");
        document.querySelector("#worst-table + .more").click();
        found.fynsk = column(4);
        enter("#find-error", "rødgrø");
        found.rodgrod = errors();
        return found;
        """,
        width=width,
    )
    for ranked in (found["folded"], found["wer"]):
        values = list(map(float, ranked))
        assert len(values) == 10
        assert values == sorted(values, reverse=True)
    assert len(found["all"]) == 50
    assert found["before"] == ""
    assert found["one"] == [[HOSTILE], "1 found"]
    assert found["folded_row"] == 1
    assert found["fynsk"] == [name for name in found["all"] if name == "Fynsk"] != []
    assert found["rodgrod"] == [text for text in found["rodgrod"] if "rødgrø" in text] != []


def test_a_page_without_errors_without_groups_and_without_training_renders(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    write_predictions(path, [prediction("a", "ja", "ja")])
    page = tmp_path / "report.html"
    score_file(path, ReportOptions(by=[], outputs=[page]), console=Console(file=io.StringIO()))
    assert "No utterance has an error." in page.read_text(encoding="utf-8")


def _table_page(rows: list[Prediction], by: list[str]) -> str:
    return render_page(score_predictions(rows, by=by), analyse_errors(rows), about={}, clips={})


def test_an_utterance_of_hours_does_not_make_the_page_large() -> None:
    reference, hypothesis = (" ".join(f"{name}{n}" for n in range(5000)) for name in ("ord", "tal"))
    letters = prediction("letters", "a" * 50_000, "b" * 50_000)
    page = _table_page([prediction("long", reference, hypothesis), letters], [])
    assert "… and 4,700 more" in page
    assert len(page) < 200_000


def test_an_utterance_without_a_duration_is_on_the_page() -> None:
    page = _table_page([prediction("no-duration", "ja", "nej", duration=None)], ["duration"])
    assert "no-duration" in page


@pytest.mark.parametrize(
    ("about", "name"),
    [
        ({"file": "test/predictions.jsonl"}, "test/predictions.jsonl"),
        ({"file": "f", "model": "m1", "dataset": "coral"}, "m1 on coral"),
        ({"checkpoint": "/runs/a/step_9", "run": ""}, "step_9"),
        ({"model": "step_9", "run": "/runs/a/checkpoints", "dataset": "d"}, "a/step_9 on d"),
    ],
)
def test_title_and_heading_name_what_was_scored(about: dict[str, str], name: str) -> None:
    rows = [prediction("a", "ja", "nej")]
    page = render_page(score_predictions(rows, by=[]), analyse_errors(rows), about=about, clips={})
    assert f"<title>{name}: WER and CER</title>" in page
    assert f"<h1>{name}</h1>" in page


def _of_dialect(dialect: str, errors: float, seed: int) -> list[Prediction]:
    return [
        replace(
            row, id=f"{dialect}-{row.id}", speaker_id=f"{dialect}-{row.speaker_id}", dialect=dialect
        )
        for row in random_rows(400, speakers=20, errors=errors, seed=seed)
    ]


def test_the_verdict_says_which_groups_differ() -> None:
    rows = [*_of_dialect("Fynsk", 0.1, 1), *_of_dialect("Bornholmsk", 0.5, 2)]
    verdict = gap_verdict(score_predictions(rows, by=["dialect", "gender", "duration"]))
    assert verdict.startswith("WER differs by dialect (Bornholmsk is ")
    assert "points above Fynsk, 95 % interval " in verdict
    assert verdict.endswith("; no difference between groups is resolvable by gender.")
    few = score_predictions(rows[:1], by=["dialect"])
    assert gap_verdict(few).startswith("No two groups have an interval")


def test_many_groups_are_all_in_the_table_the_worst_first() -> None:
    rows = [prediction(str(n), "ja " * 100, "ja " * n, dialect=f"dialekt {n}") for n in range(100)]
    page = _table_page(rows, ["dialect"])
    groups = re.findall(r'<th scope="row"[^>]*>dialekt (\d+)<', page)
    assert list(map(int, groups)) == sorted(range(100))
