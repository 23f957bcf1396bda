import dataclasses
import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from danish_asr.base.errors import ConfigError
from danish_asr.base.files import sha256_of
from danish_asr.corpus.verify import verify
from danish_asr.report.dataset_page import check_page, write_dataset_page
from tests.browser import faults_of, in_browser, needs_browser
from tests.builders import build_dataset
from tests.hostile import HOSTILE, _row
from tests.shards import write_inventory, write_shard


def _page(root: Path, out: Path, **options: Any) -> str:
    if not (root / "manifest.json").exists():
        write_inventory(root)
    options = {"console": Console(file=io.StringIO())} | options
    write_dataset_page(root, out, verify(root), **options)
    return out.read_text(encoding="utf-8")


FOUND = """
const cells = (row) => [...row.cells].map((cell) => cell.textContent);
const rows = (id) =>
  [...document.querySelectorAll(`table[aria-labelledby^="${id}"] tbody tr`)].map(cells);
return {
  charts: document.querySelectorAll("svg[role=img] > title + desc").length,
  players: document.querySelectorAll("audio").length,
  ledger: rows("ledger"), suspects: rows("suspects"), leaks: rows("shared-by-splits"),
  dialects: rows("dialect").map((row) => row[0]),
};
"""


@needs_browser
def test_the_page_is_whole_on_a_phone_the_same_each_time_and_shows_hostile_texts_as_text(
    dataset: Path, tmp_path: Path
) -> None:
    text = _page(dataset, page := tmp_path / "page.html")
    assert _page(dataset, tmp_path / "again.html") == text
    assert faults_of(page) == []
    found = in_browser(page, FOUND)
    assert found["charts"] == 2
    assert 8 <= found["players"] <= 11  # of 11 rows
    assert found["ledger"] == [[HOSTILE, "unknown", "3"]]
    assert found["suspects"] == [["seconds of silence", "6"]]
    assert found["leaks"] == [
        ["speakers", "train, test", "1", "1", "12.5", "s1"],
        ["sentences", "train, test", "1", "1", "12.5", "hej med dig"],
        ["audio", "train, test", "1", "1", "12.5", "a-test-0"],
    ]
    assert found["dialects"][0].startswith(HOSTILE)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the template of the page was given."""
    values: dict[str, Any] = {}

    def render(_: str, **given: Any) -> str:
        values.update(given)
        return ""

    monkeypatch.setattr("danish_asr.report.dataset_page.render_template", render)
    return values


def test_the_page_has_five_rows_of_each_extreme_and_warns_of_what_the_dataset_lacks(
    tmp_path: Path, shown: dict[str, Any]
) -> None:
    nobody = dict.fromkeys(("speaker_id", "dialect", "age_group", "gender"))
    rows = [
        _row(n, "train", text="å" * (10 + 3 * n % 8), audio_size=8_000 + 800 * (n % 5), **nobody)
        for n in range(8)
    ]
    write_shard(tmp_path / "ds", rows)
    _page(tmp_path / "ds", tmp_path / "page.html")
    lengths = [row["audio_size"] / 16_000 for row in rows]
    speeds = [len(row["text"]) / own for row, own in zip(rows, lengths, strict=True)]
    for title, values, sign, form in (
        ("Longest", lengths, -1, "{:.1f} s"),
        ("Shortest", lengths, 1, "{:.2f} s"),
        ("Fastest", speeds, -1, "{:.1f} characters per second"),
        ("Slowest", speeds, 1, "{:.1f} characters per second"),
    ):
        ranks = sorted((sign * value, row) for row, value in enumerate(values))
        found = [(entry["row"], entry["value"]) for entry in shown["extremes"][title]]
        assert found == [(row, form.format(values[row])) for _, row in ranks[:5]], title
    about = ["speaker_id, dialect", "no test split"]
    assert [part in line for part, line in zip(about, shown["warnings"], strict=True)] == [True] * 2


def test_the_page_has_five_suspects_of_a_reason_and_three_rows_of_a_dialect(
    dataset: Path, tmp_path: Path, shown: dict[str, Any]
) -> None:
    _page(dataset, tmp_path / "page.html")
    assert {reason: len(rows) for reason, rows in shown["to_check"].items()} == {
        "seconds of silence": 5
    }
    counts = {dialect: len(rows) for dialect, rows in shown["samples"].items()}
    assert counts == {"Fynsk": 3, HOSTILE: 1, "unknown": 1, "Østjysk": 1}
    assert (shown["unit"], shown["ledger"]) == (("minutes", 60), [(HOSTILE, "unknown", 3)])
    assert shown["warnings"] == []


def test_texts_that_differ_and_what_could_not_be_compared_are_warnings_of_the_page(
    dataset: Path, tmp_path: Path, shown: dict[str, Any]
) -> None:
    faults: Any = {"contradictions": ["train: a and b differ"], "unchecked": ["no profile"]}
    checked = dataclasses.replace(verify(dataset), **faults)
    write_dataset_page(
        dataset, tmp_path / "page.html", checked, console=Console(file=io.StringIO())
    )
    assert shown["warnings"] == ["train: a and b differ", "no profile"]


def test_a_clip_that_cannot_be_heard_is_left_out_and_counted_and_all_without_audio(
    tmp_path: Path,
) -> None:
    rows = [_row(number, "train") for number in range(3)]
    rows[1]["audio_bytes"] = b"no audio"
    write_shard(tmp_path, rows)
    write_shard(tmp_path, [_row(3, "test")], split="test")
    console = Console(record=True, width=300, file=io.StringIO())
    page = _page(tmp_path, tmp_path / "page.html", console=console)
    assert page.count("data:audio/flac") == 3
    assert re.search(r"\b3; [^.]*--no-audio", page)
    (line,) = [line for line in console.export_text().splitlines() if "out of the page" in line]
    assert line.split()[:2] == ["warning:", "1"]
    assert line.removeprefix("warning: ") in page
    page = _page(tmp_path, tmp_path / "page.html", audio=False)
    assert "a-train-0" in page
    assert "data:audio" not in page
    assert "--no-audio" not in page


def test_the_page_has_the_name_and_the_manifest_of_the_dataset(tmp_path: Path) -> None:
    build_dataset(root := tmp_path / "ds", name="radio", train=2, dev=1, test=1)
    text = _page(root, tmp_path / "page.html")
    assert sha256_of(root / "manifest.json") in text
    assert "<title>Speech dataset: radio" in text


@pytest.mark.parametrize("name", ["suspects.parquet", "version=0/page.html"])
def test_the_page_replaces_no_file_of_the_dataset(dataset: Path, name: str) -> None:
    before = {path: path.stat().st_mtime_ns for path in dataset.rglob("*")}
    with pytest.raises(ConfigError, match=f"{name}(.|\n)*--page"):
        check_page(dataset, dataset / name)
    assert {path: path.stat().st_mtime_ns for path in dataset.rglob("*")} == before
