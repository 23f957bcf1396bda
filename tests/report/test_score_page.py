import io
import re
import shutil
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from danish_asr.base.tables import Row
from danish_asr.report.score import score_files
from danish_asr.report.score_page import RateAxis, score_page
from tests.browser import faults_of, in_browser, needs_browser
from tests.hostile import HOSTILE
from tests.score_rows import changed, prediction, random_rows, scored, write_evaluation, write_rows
from tests.shards import utterance, write_shard

ROWS = [
    *random_rows(400),
    prediction("worst-of-all", f"{HOSTILE} {'ord ' * 30}", HOSTILE, dialect=HOSTILE),
]


def _score_page(rows: list[Row], dataset: Path | None = None) -> str:
    by = ["dialect", "age_group,gender", "duration"]
    scores = scored(rows, by=by, rows_in_split=500)
    return score_page(scores, [Path("p.jsonl")], dataset).data.decode()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of scores with hostile texts."""
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(_score_page(ROWS), encoding="utf-8")
    return file


FOUND = """
const all = (selector) => [...document.querySelectorAll(selector)];
all("table.worst thead button")[1].click();
return [
  all(".groups tbody th").map((cell) => cell.textContent),
  all(".alignment:not([lang=da][dir=auto])").length,
  all("table.worst tbody tr").map((row) => Number(row.cells[1].textContent)),
];
"""

BEYOND = """
return [...document.querySelectorAll(".groups, .worst")].map((table) => table.parentElement)
  .filter((region) => region.scrollWidth > region.clientWidth + 1)
  .map((region) => [region.scrollWidth, region.clientWidth]);
"""


CUT = """
const height = () => document.documentElement.scrollHeight;
const before = height();
const buttons = [...document.querySelectorAll("button.more")];
buttons.forEach((button) => button.click());
return [before, buttons.length, height(), document.querySelectorAll("button.more").length];
"""


@needs_browser
def test_a_phone_shows_the_beginning_of_long_sections_until_all_is_asked_for(page: Path) -> None:
    before, buttons, after, left = in_browser(page, CUT, width=390)
    assert before < 6_000 < after
    assert (buttons > 0, left) == (True, 0)
    assert in_browser(page, CUT)[1] == 0


HALVES = """
const box = (one) => one.getBoundingClientRect();
return [...document.querySelectorAll("section.cut")].flatMap((section) => {
  const { bottom } = box(section);
  const rows = [...section.querySelectorAll("tbody tr")]
    .filter((row) => box(row).bottom <= box(row.closest(".scroll")).bottom + 1)
    .filter((row) => box(row).top < bottom - 1 && box(row).bottom > bottom + 1);
  const titles = [...section.querySelectorAll(".card:has(tbody) > h3")]
    .filter((title) => box(title).top < bottom)
    .filter((title) => box(title.closest(".card").querySelector("tbody tr")).top >= bottom - 1);
  return [...rows, ...titles].map((one) => one.textContent);
});
"""


@needs_browser
def test_a_phone_shows_no_half_of_a_row_and_no_title_without_one(page: Path) -> None:
    assert in_browser(page, HALVES, width=390) == []


@needs_browser
def test_the_page_is_whole_on_a_phone_and_shows_hostile_texts_as_text(page: Path) -> None:
    assert faults_of(page) == []
    groups, foreign, rates = in_browser(page, FOUND)
    assert HOSTILE in groups
    assert foreign == 0
    assert rates == sorted(rates, reverse=True)
    assert _score_page(ROWS) == page.read_text(encoding="utf-8")
    assert in_browser(page, BEYOND, width=390) == []


def _numbered(dialect: str, words: int, errors: int, speakers: int = 10) -> list[Row]:
    """Rows of ``words`` words, of which ``errors`` are wrong; the speakers differ a little."""
    rows = []
    for number in range(speakers):
        wrong = ["x"] * (errors + number % 2)
        said = " ".join([*wrong, *["ord"] * (words - len(wrong))])
        name = f"{dialect}-{number}"
        text = " ".join(["ord"] * words)
        rows.append(prediction(name, text, said, dialect=dialect, speaker_id=name))
    return rows


def test_groups_stand_worst_first_bands_by_size_and_those_without_a_rate_last() -> None:
    rows = [*_numbered("good", 40, 1), *_numbered("bad", 40, 9), *_numbered("worse", 40, 39, 1)]
    rows += [prediction("none", "øh", "ja", dialect="no words", speaker_id="n")]
    rows = [changed(row, duration=16.0 if row["dialect"] == "bad" else 2.0) for row in rows]
    scores = scored(rows, by=["dialect", "duration"])
    text = score_page(scores, [Path("p.jsonl")]).data.decode()
    headings = re.findall(r'<th scope="row"[^>]*>(.*?)</th>', text)
    assert headings == ["worse", "bad", "good", "no words", "2–4 s", "10–20 s"]


def test_the_axis_reaches_the_worst_group_and_intervals_up_to_four_times_the_rate() -> None:
    rows = [*_numbered("usual", 400, 40, 40), *_numbered("far", 10, 8)]
    scores = scored(rows, by=["dialect"])
    axis = RateAxis(scores)
    worst = max(group.wer.value for group in scores.groupings["dialect"].groups)
    assert not axis.beyond(worst)
    assert (axis.ticks[-1] <= 100, axis.beyond(1.2)) == (True, True)
    assert not axis.beyond(axis.ticks[-1] / 100)
    assert (axis.x(0), axis.x(axis.ticks[-1] / 100), axis.x(9)) == (10, 190, 190)
    near = RateAxis(scored([*_numbered("usual", 40, 4), *_numbered("b", 40, 8)], by=["dialect"]))
    assert near.ticks[-1] >= 21, "the interval of b ends there"
    without = scored([prediction("a", "et to tre fire", "et to tre fem")], by=["dialect"])
    assert RateAxis(without).ticks[-1] >= 25


SPEECH = [utterance(number, split="test") for number in range(6)]


@pytest.fixture
def predicted(tmp_path: Path) -> Path:
    """Predictions of a test split, all of them wrong, as an evaluation leaves them."""
    write_shard(data := tmp_path / "data", SPEECH, split="test")
    write_shard(data, [utterance(0)])
    file = tmp_path / "run" / "predictions.jsonl"
    file.parent.mkdir()
    rows = [prediction(row["id"], row["text"], "nej", corpus="a") for row in SPEECH]
    write_rows(file, rows)
    write_evaluation(file, dataset_root=str(data))
    return file


def test_a_page_of_scores_has_its_clips_counted_or_none_with_no_audio(predicted: Path) -> None:
    page, console = predicted.with_name("report.html"), Console(record=True, file=io.StringIO())
    score_files([predicted], console=console)
    assert page.read_text("utf-8").count("data:audio/flac") == 6
    assert re.search(r"\b6; [^.]*--no-audio", page.read_text("utf-8"))
    score_files([predicted], console=console, audio=False)
    assert "data:audio" not in page.read_text("utf-8")
    assert "--no-audio" not in page.read_text("utf-8")
    assert "warning" not in console.export_text()
    rows = [prediction(row["id"], row["text"], "nej", corpus="a", split=None) for row in SPEECH]
    write_rows(predicted, rows)
    write_evaluation(predicted, dataset_root=str(predicted.parents[1] / "data"))
    score_files([predicted], console=console)
    assert page.read_text("utf-8").count("data:audio/flac") == 6


def _rebuilt(**values: Any) -> Callable[[Path], object]:
    """Build the test split again, its first two rows with other values."""
    rows = [row | values if number < 2 else row for number, row in enumerate(SPEECH)]
    return lambda data: write_shard(data, rows, split="test")


def _moved(data: Path, root: str) -> None:
    write_evaluation(data.parent / "run" / "predictions.jsonl", dataset_root=root)


@pytest.mark.parametrize(
    ("spoil", "left_out"),
    [
        (shutil.rmtree, 6),
        (lambda data: shutil.rmtree(next(data.rglob("split=test"))), 6),
        (lambda data: next(data.rglob("split=test/**/*.parquet")).write_bytes(b"PAR1"), 6),
        (lambda data: _moved(data, "x" * 300), 6),
        (_rebuilt(id="another"), 2),
        (_rebuilt(text="en helt anden tekst"), 2),
        (_rebuilt(audio_bytes=b"no audio"), 2),
    ],
    ids=[
        *("no dataset", "no split", "damaged shard", "a name that is no path", "other ids"),
        *("other texts", "no FLAC"),
    ],
)
def test_audio_that_fails_or_has_another_text_is_left_out_and_counted_and_changes_no_score(
    predicted: Path, spoil: Callable[[Path], object], left_out: int
) -> None:
    before = score_files([predicted], console=Console(file=io.StringIO()))
    spoil(predicted.parents[1] / "data")
    console = Console(record=True, width=500, file=io.StringIO())
    assert score_files([predicted], console=console).to_dict() == before.to_dict()
    page = predicted.with_name("report.html").read_text("utf-8")
    assert page.count("data:audio/flac") == 6 - left_out
    lines = [line for line in console.export_text().splitlines() if "out of the page" in line]
    assert [line.split()[1] for line in lines] == [str(left_out)]
    assert lines[0].removeprefix("warning: ") in unescape(page)
    gone = not (predicted.parents[1] / "data").exists()
    assert ("--dataset" in lines[0]) is gone


def test_models_of_several_files_are_told_apart(tmp_path: Path) -> None:
    files = []
    for fold in "ab":
        files.append(tmp_path / f"fold-{fold}" / "predictions.jsonl")
        write_rows(files[-1], [prediction(fold, "ja", "nej")])
        write_evaluation(files[-1], weights=fold, model="step_1", step=1, dataset="mine")
    score_files(files, outputs=[tmp_path / "page.html"], console=Console(file=io.StringIO()))
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "2 files on mine" in page
    assert "fold-a/predictions.jsonl, fold-b/predictions.jsonl" in page
    assert "step_1" not in page


def test_a_file_may_lie_in_no_folder_but_the_root() -> None:
    assert b"p.jsonl" in score_page(scored([prediction("a", "ja", "ja")]), [Path("/p.jsonl")]).data


def test_an_utterance_of_hours_does_not_make_the_page_large() -> None:
    reference, hypothesis = (" ".join(f"{name}{n}" for n in range(5000)) for name in ("ord", "tal"))
    letters = prediction("letters", "a" * 50_000, "b" * 50_000)
    assert len(_score_page([prediction("long", reference, hypothesis), letters])) < 200_000
