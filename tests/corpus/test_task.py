"""What a row becomes in a shard, why it may go to the ledger or among the suspects, and records."""

import math
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from danish_asr.base.audio import Recording, decode
from danish_asr.base.errors import AudioError
from danish_asr.corpus import task as task_module
from danish_asr.corpus.convert import convert
from danish_asr.corpus.inventory import read_inventory
from danish_asr.corpus.rows import Audio, table_of, understood
from danish_asr.corpus.task import (
    CUT,
    FILLED,
    STREAMS,
    Record,
    Task,
    convert_task,
    examine,
    oddities,
    read_record,
    text_profiles,
    to_row,
)
from tests.builders import coral_row, encode, tone, write_parquet
from tests.corpora import options, shards, table_in, write_lines
from tests.media import noise, openings, recording, several_streams
from tests.spoiled import read_rows


def test_rows_carry_text_audio_and_metadata(dataset: Path) -> None:
    row = read_rows(shards(dataset)[-1])[0]
    audio = row.pop("audio_bytes")
    assert audio.startswith(b"fLaC")
    assert row.pop("encoded_size") == len(audio)
    assert row == {
        "id": "rec_train_0",
        "text": "Anna køber 21 æbler i Århus",
        "audio_size": 8000,
        "speaker_id": "spe_train_0",
        "dialect": "Østjysk",
        "sub_dialect": "midtøstjysk",
        "age": 19,
        "age_group": "0-24",
        "gender": "female",
        "country_birth": "DK",
        "source_id": "read_aloud/train-00000-of-00001.parquet:0",
    }


BAD_ROWS: list[tuple[str, dict[str, Any]]] = [
    ("undecodable audio", {"audio": b"\x00garbage"}),
    ("undecodable audio", {"audio": tone(0.5, format="FLAC")[:700]}),
    *(("no audio", {"audio_struct": own}) for own in (None, {"bytes": b""}, {"path": "no.wav"})),
    ("empty text", {"text": None}),
    ("zero samples", {"audio": tone(0.0)}),
    ("non-finite samples", {"audio": encode(np.full((80, 1), math.nan), 16_000, subtype="FLOAT")}),
    ("longer than 3 s", {"audio": tone(3.5, rate=8000)}),
    ("digital silence", {"audio": encode(np.zeros((16_000, 1)), 16_000)}),
    ("more than 50 letters per second", {"text": "a" * 26 + "?", "audio": tone(0.5)}),
    ("replacement characters", {"text": "det er bl\ufffd"}),
    ("rejected", {"validated": "rejected"}),
    ("duplicate id", {"id_recording": "rec_train_0"}),
]


def test_every_source_row_is_written_or_in_the_ledger_with_its_reason(tmp_path: Path) -> None:
    # One file that cannot be decoded stops upstream's conversion (TRAPS).
    rows = [coral_row(number, **values) for number, (_, values) in enumerate(BAD_ROWS, 1)]
    good = coral_row(50, text="en bil 🚗 kører", audio=tone(0.6, channels=2, format="OGG"))
    write_parquet(tmp_path / "in" / "train.parquet", [coral_row(0), *rows, good])
    convert(tmp_path / "in", tmp_path / "ds", options(max_seconds=3.0, shard_rows=6, max_drop=1.0))
    entries = table_in(tmp_path / "ds", "ledger")
    assert [(entry["row"], entry["reason"]) for entry in entries] == [
        (number, reason) for number, (reason, _) in enumerate(BAD_ROWS, 1)
    ]
    about = "source", "corpus", "id", "dialect"
    known = ["train.parquet", "coral_read_aloud", "rec_train_1", "Sjællandsk"]
    assert [entries[0][name] for name in about] == known
    written = [row for shard in shards(tmp_path / "ds") for row in read_rows(shard)]
    assert [row["text"] for row in written] == [coral_row(0)["text"], "en bil 🚗 kører"]
    manifest = read_inventory(tmp_path / "ds")
    assert manifest.rows + manifest.dropped_rows == manifest.source_rows == len(rows) + 2


@pytest.mark.parametrize(
    ("limit", "sizes"), [(1 << 30, [100, 30]), (1, [1] * 3)], ids=["rows", "bytes"]
)
def test_a_row_group_ends_with_its_rows_or_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, sizes: list[int]
) -> None:
    monkeypatch.setattr(task_module, "ROW_GROUP_BYTES", limit)
    rows = [coral_row(number, text="ja", audio=tone(0.1)) for number in range(sum(sizes))]
    write_parquet(tmp_path / "in" / "train.parquet", rows, row_group_size=130)
    convert(tmp_path / "in", tmp_path / "ds", options())
    (path,) = shards(tmp_path / "ds")
    footer = pq.read_metadata(path)
    found = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
    assert found == sizes


def sounds(*parts: tuple[float, float]) -> bytes:
    """A recording of tones, of these seconds and amplitudes, with a DC offset."""
    waves = [level * np.sin(np.arange(round(seconds * 16_000)) / 5) for seconds, level in parts]
    return encode((np.concatenate(waves) + 0.02)[:, None], 16_000)


REST: list[tuple[dict[str, Any], list[tuple[float, float]], float | None]] = [
    ({"duration": 1}, [(0.6, 0.3)], 0.6),
    ({"duration": 1, "offset": 0}, [(0.6, 0.3)], 0.6),
    ({"start": 0.25, "end": 1}, [(0.4, 0.3)], 0.4),
    ({"duration": 1}, [(0.5, 0.0), (0.3, 0.3), (2.0, 0.0)], 0.3),
    ({"duration": 1}, [(0.3, 0.0033)], 0.3),
    ({"duration": 1}, [(0.3, 0.0027)], None),  # 40 dB below the loudest
    ({"duration": 1}, [(0.11, 0.3)], 0.11),
    ({"duration": 1}, [(0.1, 0.3)], None),
    ({"duration": 1.5}, [(0.5, 0.3)], None),
    ({"start": 0.25}, [(0.5, 0.3)], None),
    ({"duration": 1, "channel": 1}, [(12.0, 0.3)], 12.0),
    ({}, [(0.5, 0.3)], None),
]
"""Times of a recording's only row, what follows its first second, and what the times leave out."""


def test_sound_after_the_given_end_of_a_recordings_only_row_is_a_suspect(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    rows = [{"audio": f"{number}.wav", "text": "ja tak du"} for number in range(len(REST))]
    of_one = {"audio": "several.wav", "text": "ja tak du", "start": 0}
    several = [of_one | {"end": 1, "split": "train"}, of_one | {"end": 0.5, "split": "dev"}]
    rows = [row | times for row, (times, _, _) in zip(rows, REST, strict=True)]
    write_lines(folder / "train.jsonl", [*rows, *several])
    for number, (_, rest, _) in enumerate(REST):
        (folder / f"{number}.wav").write_bytes(sounds((1.0, 0.3), *rest))
    (folder / "several.wav").write_bytes(sounds((3.0, 0.3)))
    inventory = convert(folder, tmp_path / "out", options(shard_rows=1))
    found = table_in(tmp_path / "out", "suspects")
    own = {row["id"]: row["value"] for row in found if "end" in row["reason"]}
    left_out = {f"train.jsonl:{number}": row[2] for number, row in enumerate(REST) if row[2]}
    assert own == pytest.approx(left_out, abs=0.011)
    (line,) = (line for line in inventory.summary if "--column seconds=" in line)
    assert f" {sum(own.values()):.1f} s of " in line
    assert f" {len(left_out)} rows" in line


@pytest.mark.parametrize(
    ("own", "chosen", "peak"), [(None, None, 0.375), (None, 2, 0.5), (1, 2, 0.25), (2, None, 0.5)]
)
def test_a_channel_is_chosen_for_a_row(own: int | None, chosen: int | None, peak: float) -> None:
    wave = np.sin(np.arange(8_000) / 5)
    audio = encode(np.stack([wave / 4, wave / 2], axis=1), 16_000)
    record = {"file": "x", "row": 0, "text": "ja", "channel": own}
    (row,) = understood(table_of([record], options()), options())[0].to_pylist()
    with Recording(audio) as recording:
        written, _, rate = to_row(row, recording, options(channel=chosen))
    assert decode(written["audio_bytes"])[0].max() == pytest.approx(peak, abs=1e-2)
    assert rate == 16_000


def test_a_recording_is_opened_once_whatever_the_order_of_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = (0, noise(4, SECOND)), (6, noise(4, SECOND))  # and nothing between
    (tmp_path / "long.mka").write_bytes(recording("matroska", "flac", *pieces, rate=SECOND))
    (tmp_path / "short.wav").write_bytes(encode(noise(2, SECOND), SECOND))
    rows = ["long.mka,7,2", "long.mka,1,2", "short.wav,0,2", "long.mka,3,4", "long.mka,2.5,1"]
    lines = [f"{row},ja tak det er {number}" for number, row in enumerate(rows)]
    (tmp_path / "rows.csv").write_text("\n".join(["path,start,duration,text", *lines]))
    opened = openings(monkeypatch)
    convert(tmp_path / "rows.csv", tmp_path / "out", options(split="train", workers=1))
    table = pq.ParquetFile(shards(tmp_path / "out")[0]).read()
    assert [text[-1] for text in table["text"].to_pylist()] == ["0", "1", "2", "3", "4"]
    assert table["audio_size"].to_pylist() == [2 * SECOND] * 3 + [4 * SECOND, SECOND]
    assert len(opened) == 1
    for row, (_, wave) in ((1, pieces[0]), (0, pieces[1])):
        heard, _ = decode(table["audio_bytes"][row].as_py())
        np.testing.assert_allclose(heard, wave[SECOND : 3 * SECOND], atol=1e-4)
    suspects = table_in(tmp_path / "out", "suspects")
    filled = [(one["id"], one["value"]) for one in suspects if one["reason"] == FILLED]
    assert filled == [(table["id"][3].as_py(), 2.0)]


def test_a_whole_recording_without_a_mark_of_its_end_is_suspected(tmp_path: Path) -> None:
    whole = encode(noise(4, SECOND), SECOND, format="OGG")
    (tmp_path / "whole.ogg").write_bytes(whole)
    for name in ("cut.ogg", "part.ogg"):
        (tmp_path / name).write_bytes(whole[: whole.rindex(b"OggS")])
    rows = [
        "path,start,duration,text",
        "whole.ogg,,,ja tak",
        "cut.ogg,,,ja tak",
        "part.ogg,1,1,nej",
    ]
    (tmp_path / "rows.csv").write_text("\n".join(rows))
    convert(tmp_path / "rows.csv", tmp_path / "out", options(split="train", workers=1))
    suspects = table_in(tmp_path / "out", "suspects")
    (found,) = (one for one in suspects if one["reason"] == CUT)
    file = pq.ParquetFile(shards(tmp_path / "out")[0])
    columns = [file.metadata.row_group(0).column(n) for n in range(len(file.schema_arrow))]
    plain = [own.path_in_schema for own in columns if not own.is_stats_set]
    assert plain == ["audio_bytes"]  # whose least and greatest value would be two recordings
    table = file.read()
    assert found["id"] == table["id"][1].as_py()
    assert found["value"] == pytest.approx(table["audio_size"][1].as_py() / SECOND, abs=1e-3)


def test_a_recording_with_several_audio_streams_is_suspected(tmp_path: Path) -> None:
    for count in (1, 2):
        (tmp_path / f"{count}.mka").write_bytes(several_streams("matroska", count))
    (tmp_path / "rows.csv").write_text("path,text\n1.mka,ja tak\n2.mka,nej tak")
    convert(tmp_path / "rows.csv", tmp_path / "out", options(split="train", workers=1))
    suspects = table_in(tmp_path / "out", "suspects")
    assert [one["value"] for one in suspects if one["reason"] == STREAMS] == [2]


SECOND = 16_000


def sine(level: float, seconds: float = 1.0) -> Any:
    return level * np.sin(np.arange(round(seconds * SECOND)) / 5)


def clipped(samples: int) -> Any:
    """A tone of which that many samples are at full scale, most of them below zero."""
    wave = sine(0.5)
    wave[:samples] = -1
    return wave


def with_pause(seconds: float, level: float = 0.0) -> Any:
    return np.concatenate([sine(0.5), sine(level, seconds), sine(0.5)])


FINDINGS: list[tuple[Any, int, dict[str, float]]] = [
    (sine(0.5), 30, {}),
    (sine(0.5, 1.005), 9, {}),  # its end is no whole frame
    (sine(0.5), 31, {"letters per second": 31}),
    (sine(0.5), 50, {"letters per second": 50}),
    (sine(0.5), 1, {}),
    (sine(0.5, 2), 1, {"letters per second": 0.5}),
    (clipped(16), 9, {}),
    (clipped(17), 9, {"share of clipped samples": 17 / SECOND}),
    (-clipped(17), 9, {"share of clipped samples": 17 / SECOND}),
    (sine(0.9985), 9, {}),
    (sine(9.99), 9, {"share of clipped samples": 0.936}),
    (sine(0.5) + 0.17, 9, {}),
    (sine(0.5) - 0.18, 9, {"share of DC offset": 0.206}),
    (sine(0.00143), 9, {}),
    (sine(0.0014), 9, {"dBFS, very quiet": -60.09}),
    (sine(1.6 / 32768), 9, {"dBFS, very quiet": -89.24}),
    (with_pause(3), 9, {}),
    (with_pause(3.01), 9, {"seconds of silence": 3.01}),
    (with_pause(3.1) + 0.05, 9, {"seconds of silence": 3.1}),
    (with_pause(4, 0.0045), 9, {"seconds of silence": 4.0}),
    (with_pause(4, 0.0055), 9, {}),
    (np.concatenate([np.zeros(4 * SECOND), sine(0.5)]), 9, {"seconds of silence": 4.0}),
    (np.concatenate([sine(0.5), np.zeros(4 * SECOND)]), 9, {"seconds of silence": 4.0}),
]
"""A wave, letters of its text, and what is odd about it."""


@pytest.mark.parametrize(("wave", "letters", "expected"), FINDINGS)
def test_what_is_odd_is_measured(wave: Any, letters: int, expected: dict[str, float]) -> None:
    found = dict(examine(wave.astype(np.float32), "å" * letters + " ,.!"))
    assert found == {reason: pytest.approx(value, rel=0.01) for reason, value in expected.items()}


@pytest.mark.parametrize(
    ("wave", "letters", "reason"),
    [
        (sine(1.4 / 32768), 9, "digital silence"),
        (sine(1.4 / 32768) + 0.3, 9, "digital silence"),
        (sine(10.1), 9, "samples far outside -1 to 1"),
        (np.minimum(sine(10.1), 1), 9, "samples far outside -1 to 1"),
        (sine(0.5), 51, "more than 50 letters per second"),
    ],
)
def test_what_cannot_be_speech_is_refused(wave: Any, letters: int, reason: str) -> None:
    with pytest.raises(AudioError, match=f"^{reason}$"):
        dict(examine(wave.astype(np.float32), "a" * letters))


@pytest.mark.parametrize(
    ("text", "reason", "count"),
    [
        ("blÃ¥ bÃ¦r og Ã…rhus â€“", "mojibake", 4),
        ("Den gamle pr¾st k¿ber to l¿g pŒ Œse", "mojibake", 5),  # of an old Mac
        ("PR®ST, ®bler, ¯st, \x81se", "mojibake", 4),
        ("‘ l‘rer n›d †r p†", "mojibake", 4),  # of DOS
        ("prÊst k¯ber pÂ", "mojibake", 3),  # of Windows, read as of an old Mac
        ("prµst k°ber pÕ", "mojibake", 3),  # the same, read as of DOS
        ("f&aelig;lles &amp; godt &#230;", "HTML entities", 3),
        ("det er bl\ufffd", "replacement characters", 1),
    ],
)
def test_a_broken_text_is_kept_out_of_training_alone(text: str, reason: str, count: int) -> None:
    assert oddities(text, in_train=False) == {reason: count}
    with pytest.raises(AudioError, match=f"^{reason}$"):
        oddities(text, in_train=True)


def test_only_danish_is_trained_under_the_rules_of_danish() -> None:
    languages = ("dan_Latn", "nob_Latn")
    assert [*map(text_profiles, languages)] == [("coral", "danish"), ("plain",)]


@pytest.mark.parametrize("in_train", [True, False])
def test_a_text_without_words_is_refused_and_markup_a_suspect(*, in_train: bool) -> None:
    refused = {
        "empty text": ("", " \t"),
        "RTF, not plain text": (" {\\rtf1 ja}",),
        "no letter or digit": ("–", "\u200b\ufeff"),
    }
    for reason, texts in refused.items():
        for text in texts:
            with pytest.raises(AudioError, match=f"^{reason}$"):
                oddities(text, in_train=in_train)
    markup = ("<p>ja</p>", "ja <unk>", "[støj]", '{"text": "ja"}')
    of_excel = ("#N/A", "#I/T", "#NAVN?", "#NAME?", "#REFERENCE!", "#VÆRDI!", "#DIVISION/0!")
    for text in (*markup, *of_excel, " NaN", "null"):
        assert oddities(text, in_train=in_train) == {"markup or a missing value as text": len(text)}
    for text in (
        "x < 5 og y > 3",
        "ja [støj]",
        "nan er brød",
        "#ja tak!",
        "#dkpol",
        "blå bær & Århus",
        "3",
    ):
        assert oddities(text, in_train=in_train) == {}
    signs = ("2¾ liter, 3½l, 5µm", "20°C, n°2", "¿Qué?", "LEGO®, Lego®klodser", "› ja ›nej‹ og")
    letters = ("Œuvre, cœur, SŒUR", "Ârhus, Õ, Ê", "tv‘et, it‘s", "Hansen † 1990, †1990")
    for text in (*signs, *letters):
        assert oddities(text, in_train=in_train) == {}


ROWS = [
    {"text": "Åh 3", "split": "train", "id": "a"},
    {"text": "null", "split": "dev", "id": "b", "dialect": "fynsk"},
    {"text": "ja tak", "split": "train", "id": "c", "refused": "listed"},
    {"text": "ja du", "split": "train", "id": "d"},
    {"text": "ja", "split": "test", "id": "e"},
]


def a_task(number: int = 3, version: str = "v") -> Task:
    rows = table_of(({"file": "x", "row": n} | row for n, row in enumerate(ROWS)), options())
    versions = pa.array([version, *map(str, range(1, len(ROWS)))])
    rows = rows.set_column(rows.column_names.index("version"), "version", versions)
    paths = {("own", split): f"{split}.parquet" for split in ("train", "dev", "test")}
    return Task(number, rows, paths)


def fetch(rows: pa.Table) -> Iterator[Audio]:
    """A recording of each row but the last; none is asked for a refused one."""
    rates = {"a": 8_000, "b": 16_000, "d": 16_000}
    for own in rows["id"].to_pylist():
        yield AudioError("gone") if own == "e" else tone(1.5, rate=rates[own])


def converted(root: Path) -> Record:
    return convert_task(a_task(), fetch=fetch, root=root, options=options())


def test_a_record_counts_what_a_task_wrote_and_dropped(tmp_path: Path) -> None:
    record = converted(tmp_path)
    assert record.rows_read() == len(ROWS)
    found = [(shard["path"], shard["rows"], shard["seconds"]) for shard in record.shards]
    assert found == [("train.parquet", 2, 3.0), ("dev.parquet", 1, 1.5)]
    assert [row["id"] for row in read_rows(tmp_path / "train.parquet")] == ["a", "d"]
    assert [(row["id"], row["row"], row["reason"]) for row in record.dropped] == [
        ("c", 2, "listed"),
        ("e", 4, "gone"),
    ]
    about = {"corpus": "own", "split": "dev", "id": "b", "dialect": "Fynsk"}
    assert record.suspects == [about | {"reason": "markup or a missing value as text", "value": 4}]
    assert record.rates == {"8000": 1, "16000": 2}
    assert {*"Åh 3åtreja du"} == {*record.characters}  # as they are, and as they are spoken


@pytest.mark.parametrize("file", ["dev.parquet", ".convert/task-000003.json"])
@pytest.mark.parametrize("damaged", ["{", None])
def test_a_task_that_changed_is_done_again(tmp_path: Path, file: str, damaged: str | None) -> None:
    record = converted(tmp_path)
    assert read_record(tmp_path, a_task()) == record
    assert read_record(tmp_path, a_task(number=4)) is None
    assert read_record(tmp_path, a_task(version="v9")) is None
    (tmp_path / file).unlink()
    if damaged:
        (tmp_path / file).write_text(damaged)
    assert read_record(tmp_path, a_task()) is None


def test_a_task_takes_its_own_rows_to_a_process() -> None:
    many = table_of(({"file": "x", "row": n, "text": "ja" * 99} for n in range(999)), options())
    task = Task(1, many.slice(500, 2), {("a", "b"): "c"})
    data = pickle.dumps(task)
    assert len(data) < 9_000
    assert pickle.loads(data) == task  # noqa: S301 - made here
