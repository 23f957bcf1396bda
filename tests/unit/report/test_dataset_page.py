"""The page about a dataset: its numbers, and the page in a real browser."""

import io
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile
from rich.console import Console
from typer.testing import CliRunner

from danish_asr.base.errors import ConfigError
from danish_asr.base.files import sha256_of
from danish_asr.base.schema import LEDGER_SCHEMA, SAMPLE_RATE, SUSPECTS_SCHEMA
from danish_asr.cli.app import app
from danish_asr.corpus.verify import leaks_of
from danish_asr.report import dataset as numbers
from danish_asr.report.dataset import measure, read_rows
from danish_asr.report.dataset_page import compared, write_dataset_page
from tests.browser import WIDTH, in_browser, needs_browser
from tests.builders import build_dataset
from tests.foreign_code import NAME, ForeignCode
from tests.shards import flac, utterance, write_shard

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"


def _row(number: int, split: str, **values: Any) -> dict[str, Any]:
    audio = flac(values.get("audio_size", 8_000), number + 100 * (split == "test"))
    usual: dict[str, Any] = {"dialect": "Fynsk", "audio_size": 8_000, "audio_bytes": audio}
    return utterance(number, split=split, **usual | values)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("dataset")
    train = [
        _row(0, "train", text="Hej med Dig!", speaker_id="s1", audio_bytes=flac(8_000, 7)),
        _row(1, "train", text="god dag", speaker_id="s1", dialect=HOSTILE, gender=HOSTILE),
        _row(2, "train", text=f"{HOSTILE} ž", speaker_id="s2", dialect=None, age_group=None),
    ]
    # Test: a sentence and a speaker of the training data, and one of its recordings.
    test = [_row(n, "test", text="vi ses", speaker_id=f"t{n}", gender="female") for n in range(8)]
    test[0] |= {"text": "hej, med dig", "speaker_id": "s1", "audio_bytes": flac(8_000, 7)}
    test[1] |= {"dialect": "Østjysk"}
    write_shard(root, train)
    write_shard(root, test, split="test")
    ledger = {"source": "a", "row": 0, "id": "a", "dialect": None, "reason": HOSTILE}
    pq.write_table(pa.Table.from_pylist([ledger] * 3, LEDGER_SCHEMA), root / "ledger.parquet")
    suspect = {"corpus": "a", "split": "test", "id": "a-test-7", "dialect": "Fynsk"}
    suspects = [suspect | {"reason": "seconds of silence", "value": 4.5678}] * 6
    pq.write_table(pa.Table.from_pylist(suspects, SUSPECTS_SCHEMA), root / "suspects.parquet")
    return root


def test_groups_count_hours_rows_and_named_speakers(dataset: Path) -> None:
    table = read_rows(dataset).table
    (total,) = numbers.groups(table)
    assert total.hours == pytest.approx(11 * 0.5 / 3600)
    assert (total.rows, total.speakers) == (11, 9)
    by_split = {group.names: group[2:] for group in numbers.groups(table, "split")}
    assert by_split == {("train",): (3, 2), ("test",): (8, 8)}
    assert [*by_split] == [("train",), ("test",)]


def test_lines_have_only_groups_that_occur_and_name_what_each_lacks(dataset: Path) -> None:
    lines = {line.name: line for line in numbers.lines(read_rows(dataset).table, "dialect")}
    assert {name: line.lacks for name, line in lines.items()} == {
        "Fynsk": "fewer than 8 test speakers",
        HOSTILE: "no test data",
        "Østjysk": "no train data, fewer than 8 test speakers",
        "unknown": "",
    }
    assert (lines["Fynsk"].rows, lines["Fynsk"].test_speakers) == (8, 7)
    assert lines["Østjysk"].hours == {"test": pytest.approx(0.5 / 3600)}


def test_what_the_whole_dataset_lacks_is_not_said_of_each_group(tmp_path: Path) -> None:
    write_shard(tmp_path, [_row(0, "train", speaker_id="a")])
    write_shard(tmp_path, [_row(1, "test", speaker_id="b")], split="test")
    (line,) = numbers.lines(read_rows(tmp_path).table, "dialect")
    assert (line.name, line.lacks) == ("Fynsk", "")


def test_speakers_of_one_id_in_two_corpora_are_two_people(tmp_path: Path) -> None:
    for corpus, split in (("a", "train"), ("b", "test")):
        rows = [_row(number, split, speaker_id="1", text=f"tekst {split}") for number in range(2)]
        write_shard(tmp_path, rows, corpus=corpus, split=split)
    rows_of_all = read_rows(tmp_path)
    (line,) = numbers.lines(rows_of_all.table, "dialect")
    assert (line.speakers, line.test_speakers) == (2, 1)
    assert "speakers" not in [leak.what for leak in leaks_of(compared(tmp_path, rows_of_all))]


def test_leaks_are_speakers_sentences_and_audio_that_splits_share(dataset: Path) -> None:
    speakers, sentences, audio = leaks_of(compared(dataset, read_rows(dataset)))
    assert (speakers.one, speakers.other, speakers.examples) == ("train", "test", ["s1"])
    assert (sentences.rows, sentences.share, sentences.examples) == (1, 1 / 8, ["hej med dig"])
    assert (audio.shared, audio.rows) == (1, 1)


def test_identical_audio_is_found_without_a_common_speaker_or_text(tmp_path: Path) -> None:
    audio = flac(8_000, 7)
    for number, split in enumerate(("train", "test")):
        row = _row(number, split, text=f"tekst {split}", speaker_id=split, audio_bytes=audio)
        write_shard(tmp_path, [row], split=split)
    (leak,) = leaks_of(compared(tmp_path, read_rows(tmp_path)))
    assert (leak.what, leak.rows) == ("audio", 1)


def test_a_card_names_no_code_and_the_page_says_that_sentences_are_not_compared(
    tmp_path: Path, dataset: Path, foreign_code: ForeignCode
) -> None:
    root = shutil.copytree(dataset, tmp_path / "data")
    (root / "cards").mkdir()
    (root / "cards" / "data.yaml").write_text(f"text_profile: {NAME}")
    speakers, audio = leaks_of(compared(root, read_rows(root)))
    assert (speakers.what, audio.what) == ("speakers", "audio")
    page = _page(root, tmp_path / "page.html")
    assert "cards/data.yaml" in page
    assert "not computed" in page
    assert not foreign_code.ran


def test_words_and_characters_are_counted(dataset: Path) -> None:
    rows = read_rows(dataset)
    train, test = numbers.vocabulary(rows)
    assert (train["words"], train["unseen"]) == (5 + len(re.findall(r"\w+", f"{HOSTILE} ž")), None)
    assert (test["words"], test["distinct"], test["unseen"]) == (17, 5, pytest.approx(14 / 17))
    found = {name: count for _, name, count in numbers.characters(rows.table["text"])}
    assert found["U+017E LATIN SMALL LETTER Z WITH CARON"] == 1


def _encoded(wave: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, wave, SAMPLE_RATE, format="FLAC")
    return file.getvalue()


def test_measures_of_a_known_signal() -> None:
    noise = np.random.default_rng(0).normal(0, 0.001, 3 * SAMPLE_RATE)  # -60 dB
    wave = noise.copy()
    tone = 0.5 * np.sqrt(2) * np.sin(2 * np.pi * 200 * np.arange(SAMPLE_RATE) / SAMPLE_RATE)
    wave[SAMPLE_RATE : 2 * SAMPLE_RATE] += tone  # -6 dB
    found = measure(_encoded(wave))
    assert found.loudness == pytest.approx(-6.02 - 10 * np.log10(3), abs=0.05)
    assert found.snr == pytest.approx(54, abs=1)
    assert found.silence == pytest.approx(2, abs=0.05)
    assert found.clipped == 0
    assert measure(_encoded(np.clip(4 * wave, -1, 1))).clipped == pytest.approx(0.25, abs=0.05)
    assert measure(_encoded(wave + 0.2)) == pytest.approx(found, abs=0.05)  # a DC offset


def _page(root: Path, out: Path, **options: Any) -> str:
    write_dataset_page(root, out, console=Console(file=io.StringIO()), **options)
    return out.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    _page(dataset, folder / "page.html")
    return folder / "page.html"


def test_the_page_is_one_file_without_external_links_and_the_same_for_a_seed(
    dataset: Path, page: Path, tmp_path: Path
) -> None:
    text = page.read_text(encoding="utf-8")
    links = re.findall(r'(?:href|src)="([^"]*)"', text)
    assert all(link.startswith(("#", "data:")) for link in links)
    assert "default-src 'none'" in text
    assert "manifest.json is missing" in text
    assert _page(dataset, tmp_path / "a.html") == _page(dataset, tmp_path / "b.html")


@needs_browser
def test_hostile_texts_are_shown_as_text_and_everything_has_a_name(page: Path) -> None:
    found = in_browser(
        page,
        """
        const all = (selector) => [...document.querySelectorAll(selector)];
        const rows = (id) => all(`table[aria-labelledby^="${id}"] tbody tr`)
          .map((row) => [...row.cells].map((cell) => cell.textContent));
        return {
          foreign: all("img").length + all("script").length - 1,
          nameless: all("table").filter(
            (table) => !document.getElementById(table.getAttribute("aria-labelledby"))).length,
          ids: all("[id]").length - new Set(all("[id]").map((node) => node.id)).size,
          charts: all("svg[role=img] > title + desc").length,
          players: all("audio[aria-label]").length,
          ledger: rows("ledger"), suspects: rows("suspects"), leaks: rows("shared-by-splits"),
          dialects: rows("dialect").map((row) => row[0]), title: document.title,
        };
        """,
    )
    assert found["foreign"] == found["nameless"] == found["ids"] == 0
    assert found["charts"] == 6
    assert 8 <= found["players"] <= 11  # of 11 rows
    assert found["ledger"] == [[HOSTILE, "unknown", "3"]]
    assert found["suspects"] == [["seconds of silence", "6"]]
    assert found["leaks"] == [
        ["speakers", "train, test", "1", "1", "12.5", "s1"],
        ["sentences", "train, test", "1", "1", "12.5", "hej med dig"],
        ["audio", "train, test", "1", "1", "12.5", "a-test-0"],
    ]
    assert found["title"].startswith("Speech dataset: dataset")  # a folder of pytest
    assert found["dialects"][0].startswith(HOSTILE)
    assert in_browser(page, WIDTH, width=380) <= 380


@pytest.mark.parametrize("audio", [b"no audio", None])
def test_a_clip_that_cannot_be_heard_is_left_out_and_counted(
    tmp_path: Path, audio: bytes | None
) -> None:
    rows = [_row(number, "train") for number in range(3)]
    rows[1]["audio_bytes"] = audio or b""
    shard = write_shard(tmp_path, rows)
    if audio is None:
        rows[1]["audio_bytes"] = None
        pq.write_table(pa.Table.from_pylist(rows), shard)
    # As long as the others, so that the audio of both splits is compared.
    write_shard(tmp_path, [_row(3, "test")], split="test")
    console = Console(record=True, width=300, file=io.StringIO())
    write_dataset_page(tmp_path, tmp_path / "page.html", console=console)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("data:audio/flac") == 3
    assert re.search(r"\b3; [^.]*--no-audio", page)
    (line,) = [line for line in console.export_text().splitlines() if "out of the page" in line]
    assert line.split()[:2] == ["warning:", "1"]
    assert line.removeprefix("warning: ") in page


def test_the_page_holds_no_clips_with_no_audio_which_needs_a_page(tmp_path: Path) -> None:
    build_dataset(tmp_path / "ds", train=2, dev=1, test=1, conversation=False)
    page = tmp_path / "page.html"
    arguments = ["verify", str(tmp_path / "ds"), "--no-audio", "--workers", "1"]
    CliRunner().invoke(app, [*arguments, "--page", str(page)])
    text = page.read_text(encoding="utf-8")
    assert "rec_test_0" in text
    assert "data:audio" not in text
    assert "--no-audio" not in text
    without_page = CliRunner().invoke(app, arguments)
    assert without_page.exit_code == 2
    assert "--page" in without_page.output


@needs_browser
def test_no_table_is_cut_at_1280_pixels_and_the_title_is_the_name(tmp_path: Path) -> None:
    build_dataset(tmp_path / "ds", name="radio")
    text = _page(tmp_path / "ds", tmp_path / "page.html")
    assert sha256_of(tmp_path / "ds" / "manifest.json") in text
    script = """
        return [document.title, ...[...document.querySelectorAll(".scroll")]
          .filter((node) => node.scrollWidth > node.clientWidth)
          .map((node) => node.getAttribute("aria-labelledby"))];
        """
    assert in_browser(tmp_path / "page.html", script, width=1280) == ["Speech dataset: radio"]


@pytest.mark.parametrize("name", ["suspects.parquet", "version=0/page.html"])
def test_the_page_replaces_no_file_of_the_dataset(dataset: Path, name: str) -> None:
    before = {path: path.stat().st_mtime_ns for path in dataset.rglob("*")}
    with pytest.raises(ConfigError, match=f"{name}(.|\n)*--page"):
        write_dataset_page(dataset, dataset / name, sample=1)
    assert {path: path.stat().st_mtime_ns for path in dataset.rglob("*")} == before
