"""Corpora in the folders in which they are published."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as pads
import pytest

from danish_asr.base.errors import SourceError
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.convert import convert
from danish_asr.corpus.sources import SourceOptions, open_source, resolve_source
from danish_asr.corpus.sources.base import Source, Utterance
from danish_asr.corpus.tasks import find_duplicates
from tests.builders import encode, tone

RADIO = SourceOptions(corpus="radio")


def read_all(source: Source) -> list[Utterance]:
    return [row for file in source.files for row in source.read(file, 0, file.rows)]


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def write_tsv(path: Path, *rows: str) -> None:
    """Rows whose fields are separated by `` | ``."""
    write(path, "".join("\t".join(row.split(" | ")) + "\n" for row in rows))


def write_pairs(folder: Path) -> None:
    for name in ("train/s1/a", "train/s2/a", "test/b"):
        write(folder / f"{name}.wav", tone(0.2))
        write(folder / f"{name}.txt", "på Ærø\n")


def write_common_voice(folder: Path) -> None:
    head = "client_id | path | sentence_id | sentence | up_votes | age | gender | accents | locale"
    for split in ("train", "dev", "test"):
        rows = [
            f'c1 | {split}1.mp3 | s | Er "nemt" | 2 | thirties | female_feminine | fynsk | da',
            f"c2 | {split}2.mp3 | s | på Ærø | 2 | twenties |  |  | da",
        ]
        write_tsv(folder / "da" / f"{split}.tsv", head, *rows)
        for number in (1, 2):
            clip = tone(0.2, format="MP3", subtype="MPEG_LAYER_III")
            write(folder / "da" / "clips" / f"{split}{number}.mp3", clip)
    write_tsv(folder / "da" / "validated.tsv", head)


def write_fleurs(folder: Path) -> None:
    for split in ("train", "dev", "test"):
        rows = [
            f"7 | {n}.wav | På Ærø, | på ærø | p å | 3200 | FEMALE"
            for n in (f"{split}1", f"{split}2")
        ]
        write_tsv(folder / f"{split}.tsv", *rows)
        write(folder / "audio" / split / f"{split}1.wav", tone(0.2, rate=16_000))
        write(folder / "audio" / split / f"{split}2.wav", tone(0.2, rate=16_000))


def write_ft_speech(folder: Path) -> None:
    head = "utterance_id | speaker_gender | transcript | start_time | end_time"
    for part in ("train", "dev-balanced", "dev-other", "test-balanced", "test-other"):
        rows = [f"S{n:03}_20161_M012_{part}-{n} | F | ja <UNK> tak | {n} | {n}.5" for n in (0, 1)]
        write_tsv(folder / "text" / f"ft-speech_{part}.tsv", head, *rows)
    write(folder / "audio" / "2016" / "20161_M012.wav", tone(1.5, rate=16_000))


def write_nst(folder: Path) -> None:
    for place, audio, pid in (
        ("ADB_OD_DAN_0565", "dk", "dk11x242-18072000-1149"),
        ("supplement_dk/testdata/metadata", "supplement_dk/testdata/audio", "dk99x1-1-1"),
    ):
        info = {"Speaker_ID": "242", "Age": "61", "Sex": "Male", "Region_of_Dialect": "Fynsk"}
        silence = "( ... tavshed under denne indspilning ...)"
        recordings = [
            {"file": f"U{n:04}.WAV", "text": text} for n, text in enumerate(("Ærø", silence), 1)
        ]
        session = {"pid": pid, "info": info, "val_recordings": recordings}
        write(folder / place / f"{pid}.json", json.dumps(session))
        write(folder / audio / pid / f"{pid}_u0001.wav", tone(0.2, channels=2))
        write(folder / audio / pid / f"{pid}_u0002-1.wav", tone(0.2))


def write_kaldi(folder: Path) -> None:
    for split in ("train", "test"):
        place = folder / "data" / split
        write(place / "wav" / "call.wav", tone(2.0, rate=16_000))
        write(place / "wav.scp", "call wav/call.wav\npiped sph2pipe x.sph |\n")
        write(place / "text", f"{split}1 på Ærø\n{split}2 ja  tak\n{split}3 nej\n")
        write(
            place / "segments", f"{split}1 call 0 0.2\n{split}2 call 0.5 0.8\n{split}3 piped 0 1\n"
        )
        write(place / "utt2spk", f"{split}1 s1\n{split}2 s2\n")
        write(place / "spk2gender", "s1 f\n")


LAYOUTS: dict[str, tuple[Callable[[Path], None], str, int]] = {
    "pairs": (write_pairs, "radio", 3),
    "common-voice": (write_common_voice, "common_voice_da", 6),
    "fleurs": (write_fleurs, "fleurs_da", 6),
    "ft-speech": (write_ft_speech, "ftspeech", 10),
    "nst": (write_nst, "nst_da", 2),
    "kaldi": (write_kaldi, "radio", 4),
}


@pytest.mark.parametrize("kind", LAYOUTS)
def test_a_corpus_is_recognised_and_converted(tmp_path: Path, kind: str) -> None:
    build, corpus, written = LAYOUTS[kind]
    build(tmp_path / "in")
    assert resolve_source(str(tmp_path / "in"))[:2] == (kind, str(tmp_path / "in"))
    options = RADIO if corpus == "radio" else SourceOptions()
    source = open_source(str(tmp_path / "in"), options)
    assert {"train", "test"} <= {file.split for file in source.files}
    inventory = convert(source, tmp_path / "ds", name="x", options=ConvertOptions(max_drop=0.5))
    rows = pads.dataset(tmp_path / "ds" / "version=0", partitioning="hive").to_table().to_pylist()
    assert len(rows) == inventory.rows == written
    assert corpus in {row["corpus"] for row in rows}
    assert all(2000 < row["audio_size"] < 9000 for row in rows)
    assert len({row["id"] for row in rows}) == written
    for file in source.files:
        local = list(source.local_files(file))
        assert local
        assert all(path.is_file() for path in local)
        middle = list(source.read(file, 1, file.rows))
        assert middle == list(source.read(file, 0, file.rows))[1:]


def rows_of(folder: Path, kind: str, split: str = "test", **options: Any) -> list[Utterance]:
    LAYOUTS[kind][0](folder)
    source = open_source(f"{kind}:{folder}", SourceOptions(**({"corpus": "radio"} | options)))
    files = [file for file in source.files if file.split == split]
    return [row for file in files for row in source.read(file, 0, file.rows)]


def test_folders_of_recordings_are_speakers_only_if_requested(tmp_path: Path) -> None:
    found = rows_of(tmp_path / "in", "pairs", "train")
    assert [row.id for row in found] == ["in/train/s1/a", "in/train/s2/a"]
    assert {row.speaker.speaker_id for row in found} == {None}
    found = rows_of(tmp_path / "in", "pairs", "train", columns=("speaker_id=folder",))
    assert [row.speaker.speaker_id for row in found] == ["s1", "s2"]


@pytest.mark.parametrize(
    "text",
    [
        "0 32000 hun cykler\n",
        "0.7\t2.3\thun cykler\n",
        "00:00 hun cykler\n",
        "1\n00:00:00,700 --> 00:00:01,000\nhun cykler\n",
        "Line\tSpkr\tStTime\tContent\tEnTime\n",
    ],
)
def test_text_files_of_times_or_columns_are_refused_if_most_are(tmp_path: Path, text: str) -> None:
    for name, content in (("a", text), ("b", text), ("c", "3 7 9 1")):
        write(tmp_path / f"train/{name}.wav", tone(0.2))
        write(tmp_path / f"train/{name}.txt", content)
    with pytest.raises(SourceError, match="2 of 3 text files"):
        open_source(str(tmp_path), RADIO)
    write(tmp_path / "train/b.txt", "3 7 9 1")
    assert len(read_all(open_source(str(tmp_path), RADIO))) == 3


@pytest.mark.parametrize(
    ("column", "speakers"), [("folder_above", {"anna", "bo"}), ("folder", {"day1"})]
)
def test_folders_of_one_name_below_several_are_no_speakers_until_that_is_said(
    tmp_path: Path, column: str, speakers: set[str]
) -> None:
    for name in ("anna/day1/1", "bo/day1/1"):
        write(tmp_path / f"{name}.wav", tone(0.2))
        write(tmp_path / f"{name}.txt", "ja")
    with pytest.raises(SourceError, match="folder_above"):
        open_source(str(tmp_path), SourceOptions(corpus="x", by_speaker=True))
    options = SourceOptions(corpus="x", by_speaker=True, columns=(f"speaker_id={column}",))
    found = read_all(open_source(str(tmp_path), options))
    assert {row.speaker.speaker_id for row in found} == speakers


def test_recordings_and_text_files_without_the_other_are_named(tmp_path: Path) -> None:
    for name in ("a.wav", "b.WAV", "c.wav", "orphan.txt"):
        write(tmp_path / "train" / name, b"")
    write(tmp_path / "train/a.txt", "\ufeffjeg\r\ner \n".encode())
    write(tmp_path / "train/b.TXT", b"ja")
    source = open_source(str(tmp_path), SourceOptions(corpus="x"))
    assert [(row.text, row.refused) for row in read_all(source)] == [
        ("jeg\ner", None),
        ("ja", None),
        (None, "no text file"),
    ]
    assert source.notes == (
        f"text files without a recording: 1, such as {tmp_path.name}/train/orphan.txt",
    )
    write(tmp_path / "train/c.txt", "nej\ntå".encode("latin-1"))
    with pytest.raises(SourceError, match=r"/c\.txt:2: .*iconv"):
        read_all(source)


def test_a_link_to_a_folder_above_it_adds_no_recordings(tmp_path: Path) -> None:
    outside = tmp_path / "disk" / "s2"
    for folder in (tmp_path / "in" / "train" / "s1", outside):
        write(folder / "a.wav", b"")
        write(folder / "a.txt", b"ja")
    (tmp_path / "in" / "train" / "s1" / "loop").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "train" / "s2").symlink_to(outside)
    (outside / "again").symlink_to(outside)
    assert resolve_source(str(tmp_path / "in")).kind == "pairs"
    source = open_source(str(tmp_path / "in"), RADIO)
    assert [row.id for row in read_all(source)] == ["in/train/s1/a", "in/train/s2/a"]


def test_common_voices_metadata_are_read(tmp_path: Path) -> None:
    first, second = rows_of(tmp_path, "common-voice")
    assert (first.id, first.text) == ("test1", 'Er "nemt"')
    speaker = first.speaker
    assert (speaker.speaker_id, speaker.dialect, speaker.gender) == ("c1", "Fynsk", "female")
    assert (speaker.age, speaker.age_group) == (None, "25-49")
    assert (second.speaker.age_group, second.speaker.dialect, second.speaker.gender) == (None,) * 3


def test_fleurs_gives_the_normalised_text_or_the_raw_one(tmp_path: Path) -> None:
    assert [(row.id, row.text) for row in rows_of(tmp_path, "fleurs")] == [
        ("test1", "på ærø"),
        ("test2", "på ærø"),
    ]
    (first, _) = rows_of(tmp_path, "fleurs", columns=("text=raw_transcription",))
    assert (first.text, first.speaker.gender) == ("På Ærø,", "female")


def test_ft_speechs_utterances_are_parts_of_a_meeting(tmp_path: Path) -> None:
    write_ft_speech(tmp_path)
    source = open_source(str(tmp_path))
    assert {(file.corpus, file.split) for file in source.files} == {
        ("ftspeech", "train"),
        *(
            (corpus, split)
            for corpus in ("ftspeech", "ftspeech_other")
            for split in ("dev", "test")
        ),
    }
    found = read_all(source)[1]
    assert (found.text, found.start, found.seconds) == ("ja  tak", 1.0, 0.5)
    assert found.audio == tmp_path / "audio/2016/20161_M012.wav"
    assert (found.speaker.speaker_id, found.speaker.gender) == ("S001", "female")


def test_nsts_sessions_are_read(tmp_path: Path) -> None:
    spoken, silent = rows_of(tmp_path, "nst")
    assert (spoken.id, spoken.text, silent.text) == ("dk99x1-1-1_U0001", "Ærø", None)
    speaker = spoken.speaker
    assert (speaker.speaker_id, speaker.age, speaker.gender) == ("242", 61, "male")
    assert speaker.dialect == "Fynsk"


def test_a_folder_of_manifests_is_not_taken_for_fleurs(tmp_path: Path) -> None:
    write_tsv(tmp_path / "test.tsv", "path | sentence", "a.wav | ja")
    assert resolve_source(str(tmp_path))[0] == "manifest"
    write(tmp_path / "test.tsv", "7\ta.wav\tæ\tæ\tæ\t1\n".encode("latin-1"))
    assert resolve_source(str(tmp_path))[0] == "manifest"


def test_kaldis_segments_speakers_and_genders_are_read(tmp_path: Path) -> None:
    found = rows_of(tmp_path / "data", "kaldi")
    assert [(row.id, row.text, row.start, row.seconds, row.refused) for row in found] == [
        ("test1", "på Ærø", 0.0, 0.2, None),
        ("test2", "ja  tak", 0.5, pytest.approx(0.3), None),
        ("test3", "nej", 0.0, None, "a command in wav.scp"),
    ]
    assert [row.speaker.gender for row in found] == ["female", None, None]
    assert found[0].audio == tmp_path / "data" / "data" / "test" / "wav" / "call.wav"


@pytest.mark.parametrize(
    ("channels", "names", "found"),
    [
        (2, ("a", "b"), [(1, None), (2, None)]),
        (1, ("a", "b"), [(None, None)] * 2),
        (2, ("file", "file"), [(None, "no known channel")] * 2),
        (2, ("other", "other"), [(None, None)] * 2),
    ],
)
def test_the_channel_of_a_kaldi_recording_is_read(
    tmp_path: Path,
    channels: int,
    names: tuple[str, str],
    found: list[tuple[int | None, str | None]],
) -> None:
    speech = np.full((16_000, channels), 0.1)
    write(tmp_path / "train" / "call.wav", encode(speech, 16_000))
    write(tmp_path / "train" / "wav.scp", "".join(f"{name} call.wav\n" for name in {*names}))
    write(tmp_path / "train" / "reco2file_and_channel", "a file A\nb file B\n")
    write(tmp_path / "train" / "segments", f"u1 {names[0]} 0 0.5\nu2 {names[1]} 0.5 1\n")
    write(tmp_path / "train" / "text", "u1 ja\nu2 nej\n")
    source = open_source(f"kaldi:{tmp_path}", SourceOptions(corpus="radio"))
    (file,) = source.files
    assert [(row.channel, row.refused) for row in source.read(file, 0, 2)] == found


@pytest.mark.parametrize(
    ("table", "line", "refused"),
    [
        ("text", "test1 nej", [None, None, "a command in wav.scp", None]),
        ("segments", "test1 call 1 1.5", ["duplicate id", None, "a command in wav.scp"]),
        ("utt2spk", "\ntest1 s2", ["duplicate id", None, "a command in wav.scp"]),
        ("wav.scp", "call b.wav", ["duplicate id"] * 2 + ["a command in wav.scp"]),
        ("segments", "test1 call 0 0.2", [None, None, "a command in wav.scp"]),
    ],
)
def test_an_id_with_two_values_in_kaldis_tables_goes_to_the_ledger(
    tmp_path: Path, table: str, line: str, refused: list[str | None]
) -> None:
    write_kaldi(tmp_path)
    path = tmp_path / "data" / "test" / table
    path.write_text(path.read_text() + line + "\n")
    source = open_source(f"kaldi:{tmp_path}", RADIO)
    (file,) = (file for file in source.files if file.split == "test")
    rows = list(source.read(file, 0, file.rows))
    assert [row.refused for row in rows] == refused
    assert (rows[0].text, len(find_duplicates(source)[file.name])) == ("på Ærø", table == "text")


def test_texts_of_the_montreal_forced_aligner_are_read(tmp_path: Path) -> None:
    for name in ("0", "1"):
        write(tmp_path / "anna" / f"{name}.wav", tone(0.2))
        write(tmp_path / "anna" / f"{name}.lab", f"på Ærø {name}\n")
    source = open_source(str(tmp_path), SourceOptions(corpus="x", split="train", by_speaker=True))
    rows = [row for file in source.files for row in source.read(file, 0, file.rows)]
    assert [(row.text, row.speaker.speaker_id) for row in rows] == [
        ("på Ærø 0", "anna"),
        ("på Ærø 1", "anna"),
    ]
