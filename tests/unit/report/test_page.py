"""The page, opened in a real browser."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from danish_asr.errors import DatasetError
from danish_asr.report import score_file
from danish_asr.report.curves import Panel
from danish_asr.report.page import MAX_CLIP_BYTES, audio_clips, render_page
from danish_asr.schema import partition_dir
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
            Panel("GPUs", "%", {"computing": pd.Series([90.0, 91.0], [0.0, 0.5])}, "hour", (0.25,)),
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
          charts: [count("svg[role=img]"), count("svg[role=img] > title + desc")],
          tables: [count("table"), [...document.querySelectorAll("table")].filter(
            (table) => document.getElementById(table.getAttribute("aria-labelledby"))).length],
          labels: [...document.querySelectorAll("input, select")].every((f) => f.labels.length),
          audio: [...document.querySelectorAll("audio")].map((clip) => clip.ariaLabel),
        };
        """,
    )
    assert HOSTILE in found["groups"]
    assert found["foreign"] == 0
    assert found["charts"] == [5, 5]
    assert found["tables"][0] == found["tables"][1] == 9
    assert found["labels"]
    assert found["audio"] == ["Audio of worst-of-all"]


@needs_browser
def test_a_click_sorts_a_column_and_a_second_click_reverses_it(report: Path) -> None:
    found = in_browser(
        report,
        """
        const table = document.querySelector(".grouping table");
        const column = (n) => [...table.tBodies[0].rows].map((row) => row.cells[n].textContent);
        const click = (n) => {
          table.tHead.rows[0].cells[n].querySelector("button").click();
          return [column(n), [...table.tHead.rows[0].cells].map((c) => c.ariaSort)];
        };
        return [click(1), click(1), click(4), [click(0), click(0)][1]];
        """,
    )
    (down, sort), (up, _), (rows, _), (names, sort_by_name) = found
    assert list(map(float, down)) == sorted(map(float, down), reverse=True)
    assert sort[:3] == ["none", "descending", "none"]
    assert list(map(float, up)) == sorted(map(float, up))
    assert list(map(int, rows)) == sorted(map(int, rows), reverse=True)
    assert names.index("Sjællandsk") < names.index("Østjysk")
    assert sort_by_name[:3] == ["ascending", "none", "none"]


@needs_browser
@pytest.mark.parametrize("width", [380, 1200])
def test_utterances_and_errors_are_filtered(report: Path, width: int) -> None:
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
        const dialects = () => rows("#worst-table", (row) => row.cells[3].textContent);
        const errors = () => rows("#confusions", (row) => row.textContent);
        const found = {all: dialects(), errors: errors()};
        enter("#find-worst", "WORST-OF-ALL");
        found.one = [dialects(), document.querySelector("#worst-count").textContent];
        enter("#find-worst", "");
        enter("#pick-dialect", "Fynsk");
        found.fynsk = dialects();
        enter("#find-error", "rødgrø");
        found.rodgrod = errors();
        return found;
        """,
        width=width,
    )
    assert len(found["all"]) == 50
    assert found["one"] == [[HOSTILE], "1 shown"]
    assert found["fynsk"] == [name for name in found["all"] if name == "Fynsk"] != []
    assert found["rodgrod"] == [text for text in found["errors"] if "rødgrø" in text] != []


_CONTRAST_AND_WIDTH = r"""
const light = (text) => {
  const [r, g, b] = text.match(/[\d.]+/g).slice(0, 3).map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (node) => {
  for (let n = node; n; n = n.parentElement) {
    const colour = window.getComputedStyle(n).backgroundColor;
    if (!colour.startsWith("rgba(0, 0, 0, 0")) return colour;
  }
};
const contrasts = [...document.querySelectorAll("body *:not(svg *)")]
  .filter((node) => [...node.childNodes].some((c) => c.nodeType === 3 && c.data.trim()))
  .filter((node) => node.getClientRects().length && !node.closest("script, style, option"))
  .map((node) => {
    const [a, b] = [light(window.getComputedStyle(node).color), light(behind(node))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  });
return [
  Math.min(...contrasts),
  light(window.getComputedStyle(document.body).backgroundColor),
  document.documentElement.scrollWidth,
];
"""


@needs_browser
@pytest.mark.parametrize(("width", "dark"), [(380, True), (380, False), (1200, True)])
def test_text_has_the_contrast_of_wcag_aa_and_nothing_scrolls_sideways(
    report: Path, width: int, *, dark: bool
) -> None:
    contrast, paper, needed = in_browser(report, _CONTRAST_AND_WIDTH, width=width, dark=dark)
    assert contrast >= 4.5
    assert (paper < 0.5) == dark
    assert needed <= width


def test_a_page_without_errors_without_groups_and_without_training_renders(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    write_predictions(path, [prediction("a", "ja", "ja")])
    page = tmp_path / "report.html"
    score_file(path, by=[], html_path=page, console=Console(file=io.StringIO()))
    assert "No utterance has an error." in page.read_text(encoding="utf-8")


def _table_page(rows: list[Prediction], by: list[str]) -> str:
    return render_page(score_predictions(rows, by=by), analyse_errors(rows), about={}, clips={})


def test_an_utterance_of_hours_does_not_make_the_page_large() -> None:
    reference, hypothesis = (" ".join(f"{name}{n}" for n in range(5000)) for name in ("ord", "tal"))
    letters = prediction("letters", "a" * 50_000, "b" * 50_000)
    page = _table_page([prediction("long", reference, hypothesis), letters], [])
    assert "… and 4700 more" in page
    assert len(page) < 200_000


def test_more_groups_than_fit_into_a_chart_are_only_a_table() -> None:
    rows = [prediction(str(n), "ja", "nej", dialect=f"dialekt {n}") for n in range(100)]
    page = _table_page(rows, ["dialect", "gender"])
    assert page.count("<svg") == 1
    assert page.count('<th scope="row">dialekt') == 100


def _shard(root: Path, split: str, clips: dict[str, bytes | None]) -> Path:
    shard = partition_dir(root, "coral", split) / "part-00000.parquet"
    shard.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"id": list(clips), "audio_bytes": list(clips.values())})
    pq.write_table(table, shard, row_group_size=1)
    return shard


def test_clips_are_the_audio_of_the_dataset_from_any_shard(tmp_path: Path) -> None:
    _shard(tmp_path, "dev", {"a": b"fLaC one", "b": b"fLaC two"})
    _shard(tmp_path, "test", {"c": b"fLaC 3", "none": None, "long": bytes(MAX_CLIP_BYTES + 1)})
    console = Console(record=True, width=200, file=io.StringIO())
    urls = audio_clips(tmp_path, {"c", "a", "not there", "none", "long"}, console)
    clips = {name: base64.b64decode(url.partition("base64,")[2]) for name, url in urls.items()}
    assert clips == {"a": b"fLaC one", "c": b"fLaC 3"}
    assert "has audio of 2 of the 5 worst utterances" in console.export_text()


def test_a_damaged_shard_is_named_and_a_directory_without_shards_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="expected the root of a dataset"):
        audio_clips(tmp_path, {"a"}, Console())
    shard = _shard(tmp_path, "test", {"a": b"fLaC"})
    shard.write_bytes(shard.read_bytes()[:-100])
    with pytest.raises(DatasetError, match=r"part-00000.parquet: .*danish-asr verify"):
        audio_clips(tmp_path, {"a"}, Console())
