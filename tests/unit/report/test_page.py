"""The page, opened in a real browser."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from danish_asr.report import score_file
from danish_asr.report.page import PageData, render_page
from danish_asr.report.training import training_panels
from danish_asr.report.usage import usage_panels
from danish_asr.scoring.error_analysis import analyse_errors
from danish_asr.scoring.predictions import Prediction, write_predictions
from danish_asr.scoring.scores import score_predictions
from tests.browser import Page, browser_path, chromium
from tests.score_rows import heard_rows, prediction

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"
ROWS = [
    *heard_rows(400),
    prediction("worst-of-all", f"{HOSTILE} {'ord ' * 30}", HOSTILE, dialect=HOSTILE),
]

needs_browser = pytest.mark.skipif(
    browser_path() is None, reason="no Chromium on this machine: apt-get install chromium"
)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with everything on it: curves, a clip, hostile texts, a partial split."""
    root = tmp_path_factory.mktemp("report")
    _write_metrics(root / "run")
    page = root / "report.html"
    page.write_text(_page(ROWS, root / "run"), encoding="utf-8")
    return page


def _page(rows: list[Prediction], run: Path) -> str:
    data = PageData(
        title="Danish speech recognition: scores",
        scores=score_predictions(
            rows, by=["dialect", "age_group,gender", "duration"], rows_in_split=500
        ),
        analysis=analyse_errors(rows),
        training=[*training_panels(run), *usage_panels(run)],
        clips={"worst-of-all": "data:audio/flac;base64,ZkxhQw=="},
    )
    return render_page(data)


def _write_metrics(run: Path) -> None:
    (run / "metrics").mkdir(parents=True)
    lines = [{"Step": step, "CTC Loss": 100 / step} for step in range(1, 30)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (run / "metrics" / "train.jsonl").write_text(text, encoding="utf-8")
    valid = {"Step": 10, "CTC Loss": 9.0, "Word Error Rate (WER)": 0.0}
    (run / "metrics" / "valid.jsonl").write_text(json.dumps(valid) + "\n", encoding="utf-8")
    (run / "trace").mkdir()
    gpu = {"utilisation_percent": 90.0, "memory_mib": 30_000, "memory_total_mib": 40_960}
    for job, begin in ((7, 0), (8, 9000)):
        about = {"job": str(job), "host": "n-1", "memory_mib": 6000, "gpus": [gpu]}
        moments = [json.dumps({"time": begin + 10 * i, **about}) + "\n" for i in range(100)]
        file = run / "trace" / f"{job}.n-1.jsonl"
        file.write_text("".join(moments), encoding="utf-8")


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with chromium() as page:
        yield page


@pytest.fixture
def opened(browser: Page, report: Path) -> Page:
    browser.problems.clear()
    browser.open(report)
    return browser


def test_the_page_is_one_file_without_links_to_others(report: Path) -> None:
    text = report.read_text(encoding="utf-8")
    assert "http-equiv" in text
    links = [part.split('"')[0] for part in text.split('href="')[1:]]
    assert all(link.startswith(("#", "data:")) for link in links)
    assert '<link rel="stylesheet' not in text
    assert "script src" not in text


def test_the_same_scores_make_the_same_page(report: Path) -> None:
    assert _page(ROWS, report.parent / "run") == report.read_text(encoding="utf-8")


def test_the_use_of_gpus_and_memory_stands_beside_the_training_curves(report: Path) -> None:
    text = report.read_text(encoding="utf-8")
    section = text[text.index('<section id="training">') : text.index('<section id="errors">')]
    assert "<h3>GPUs</h3>" in section
    assert "<h3>Memory of the jobs</h3>" in section
    assert "<desc>computing: 90 at hour 0, lowest 90" in section
    assert "another job at hour 0.275</desc>" in section


def test_hostile_texts_are_text(report: Path) -> None:
    text = report.read_text(encoding="utf-8")
    assert "<img src=x" not in text
    assert text.count("<script>") == 1


@needs_browser
def test_the_browser_has_nothing_to_complain_about(opened: Page) -> None:
    assert opened.evaluate("document.title") == "Danish speech recognition: scores"
    assert opened.problems == []


@needs_browser
def test_the_browser_shows_hostile_texts_as_text(opened: Page) -> None:
    groups = opened.evaluate(
        "[...document.querySelectorAll('.grouping tbody th')].map(cell => cell.textContent)"
    )
    assert HOSTILE in groups
    assert opened.evaluate("document.images.length") == 0


@needs_browser
@pytest.mark.parametrize("width", [380, 768, 1200])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_scrolls_sideways(browser: Page, report: Path, width: int, *, dark: bool) -> None:
    browser.open(report, width=width, dark=dark)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    if folder := os.environ.get("SCREENSHOTS"):
        browser.screenshot(Path(folder) / f"report-{width}-{'dark' if dark else 'light'}.png")


_COLUMN = "[...document.querySelectorAll('.grouping')[0].querySelectorAll('tbody tr')]"


@needs_browser
def test_a_click_on_a_column_sorts_and_another_turns_it_round(opened: Page) -> None:
    heads = "document.querySelectorAll('.grouping')[0].querySelectorAll('thead th')"
    values = f"{_COLUMN}.map(row => Number(row.cells[1].dataset.value))"
    opened.evaluate(f"{heads}[1].querySelector('button').click()")
    down = opened.evaluate(values)
    assert down == sorted(down, reverse=True)
    assert opened.evaluate(f"{heads}[1].getAttribute('aria-sort')") == "descending"
    opened.evaluate(f"{heads}[1].querySelector('button').click()")
    assert opened.evaluate(values) == sorted(down)
    opened.evaluate(f"{heads}[0].querySelector('button').click()")
    assert opened.evaluate(f"{heads}[1].getAttribute('aria-sort')") == "none"


@needs_browser
def test_sorting_works_with_the_keyboard(opened: Page) -> None:
    opened.evaluate("document.querySelector('.grouping thead th:nth-child(5) button').focus()")
    opened.press("Enter", "\r")
    rows = opened.evaluate(f"{_COLUMN}.map(row => Number(row.cells[4].dataset.value))")
    assert rows == sorted(rows, reverse=True)


@needs_browser
def test_danish_letters_sort_last(opened: Page) -> None:
    head = "document.querySelector('.grouping thead th button')"
    opened.evaluate(f"{head}.click(); {head}.click()")
    groups = opened.evaluate(f"{_COLUMN}.map(row => row.cells[0].textContent)")
    assert groups.index("Sjællandsk") < groups.index("Østjysk")


_SHOWN = (
    "[...document.querySelectorAll('#worst-table tbody tr')]"
    ".filter(row => row.getClientRects().length).map(row => row.cells[3].textContent)"
)


@needs_browser
@pytest.mark.parametrize("width", [380, 1200])
def test_utterances_are_filtered_by_text_and_by_dialect(
    browser: Page, report: Path, width: int
) -> None:
    browser.open(report, width=width)
    everything = browser.evaluate(_SHOWN)
    assert len(everything) == 50
    browser.evaluate("document.querySelector('#find-worst').focus()")
    browser.type("WORST-OF-ALL")
    assert browser.evaluate(_SHOWN) == [HOSTILE]
    assert browser.evaluate("document.querySelector('#worst-count').textContent") == "1 shown"
    browser.evaluate(
        "const field = document.querySelector('#find-worst'); field.value = '';"
        "const pick = document.querySelector('#pick-dialect'); pick.value = 'Fynsk';"
        "pick.dispatchEvent(new Event('input', {bubbles: true}))"
    )
    shown = browser.evaluate(_SHOWN)
    assert shown == [name for name in everything if name == "Fynsk"] != []


@needs_browser
def test_errors_are_filtered_by_text(opened: Page) -> None:
    shown = (
        "[...document.querySelectorAll('#confusions tbody tr')]"
        ".filter(row => row.getClientRects().length).map(row => row.textContent)"
    )
    everything = opened.evaluate(shown)
    opened.evaluate("document.querySelector('#find-error').focus()")
    opened.type("rødgrø")
    assert opened.evaluate(shown) == [text for text in everything if "rødgrø" in text] != []


@needs_browser
def test_everything_has_a_name_for_those_who_do_not_see_it(opened: Page) -> None:
    charts = "document.querySelectorAll('svg[role=img]').length"
    named = "document.querySelectorAll('svg[role=img] > title + desc').length"
    assert opened.evaluate(charts) == opened.evaluate(named) == 7
    fields = "[...document.querySelectorAll('input, select')].every(field => field.labels.length)"
    assert opened.evaluate(fields)
    assert opened.evaluate("[...document.querySelectorAll('audio')].every(a => a.ariaLabel)")


_CONTRAST = """
(() => {
  const parse = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const light = (text) => {
    const [r, g, b] = parse(text).map((c) => c / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (let n = node; n; n = n.parentElement) {
      const colour = getComputedStyle(n).backgroundColor;
      if (!colour.startsWith("rgba(0, 0, 0, 0")) return colour;
    }
  };
  return Math.min(...[...document.querySelectorAll("body *:not(svg *)")]
    .filter((node) => [...node.childNodes].some((c) => c.nodeType === 3 && c.data.trim()))
    .filter((node) => node.getClientRects().length && !node.closest("script, style, option"))
    .map((node) => {
      const [a, b] = [light(getComputedStyle(node).color), light(behind(node))];
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    }));
})()
"""


@needs_browser
@pytest.mark.parametrize("dark", [False, True])
def test_all_text_has_the_contrast_of_wcag_aa(browser: Page, report: Path, *, dark: bool) -> None:
    browser.open(report, dark=dark)
    assert browser.evaluate(_CONTRAST) >= 4.5


A4_BETWEEN_MARGINS = 717
"""CSS pixels: 210 mm less a centimetre on either side."""


@needs_browser
def test_the_page_fits_on_paper_in_black_on_white(browser: Page, report: Path) -> None:
    browser.open(report, width=A4_BETWEEN_MARGINS, dark=True)
    browser.call("Emulation.setEmulatedMedia", media="print")
    assert browser.evaluate("document.documentElement.scrollWidth") <= A4_BETWEEN_MARGINS
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(255, 255, 255)"
    )
    if folder := os.environ.get("SCREENSHOTS"):
        browser.screenshot(Path(folder) / "report-print.png")
    browser.call("Emulation.setEmulatedMedia", media="screen")
    assert browser.pdf().startswith(b"%PDF")


def test_a_page_without_errors_without_groups_and_without_training_renders(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    write_predictions(path, [prediction("a", "ja", "ja")])
    page = tmp_path / "report.html"
    score_file(path, by=[], html_path=page, console=Console(file=io.StringIO()))
    assert "No utterance has an error." in page.read_text(encoding="utf-8")


def test_an_utterance_of_hours_does_not_swell_the_page() -> None:
    said, heard = (" ".join(f"{name}{n}" for n in range(5000)) for name in ("ord", "tal"))
    rows = [prediction("long", said, heard), prediction("letters", "a" * 50_000, "b" * 50_000)]
    page = render_page(
        PageData(title="t", scores=score_predictions(rows, by=[]), analysis=analyse_errors(rows))
    )
    assert "… and 4700 more" in page
    assert len(page) < 200_000


def test_more_groups_than_a_picture_can_show_are_a_table_alone() -> None:
    rows = [prediction(str(n), "ja", "nej", dialect=f"dialekt {n}") for n in range(100)]
    scores = score_predictions(rows, by=["dialect", "gender"])
    page = render_page(PageData(title="t", scores=scores, analysis=analyse_errors(rows)))
    assert page.count("<svg") == 1
    assert page.count('<th scope="row">dialekt') == 100
