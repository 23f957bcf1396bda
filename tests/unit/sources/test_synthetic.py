"""The synthetic corpus, made by the real synthesiser once for all tests."""

from __future__ import annotations

import hashlib
import io
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import soundfile

from danish_asr.errors import ConfigError, MissingExtraError, SourceError
from danish_asr.sources import open_source
from danish_asr.sources.metadata import DIALECTS
from danish_asr.sources.synthetic import SyntheticSize, synthesise
from danish_asr.sources.voices import DIALECT_VOICES

SIZE = SyntheticSize(train=120, dev=40, test=80)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("synthetic")
    synthesise(folder, size=SIZE, seed=3, workers=2)
    return folder


@pytest.fixture(scope="module")
def rows(corpus: Path) -> dict[tuple[str, str], list[dict[str, Any]]]:
    return {
        (path.parent.name, path.name.split("-")[0]): pq.read_table(path).to_pylist()
        for path in sorted(corpus.rglob("*.parquet"))
    }


def digests(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_it_has_corals_subsets_splits_and_columns(
    rows: dict[tuple[str, str], list[dict[str, Any]]],
) -> None:
    assert set(rows) == {
        (subset, split)
        for subset in ("read_aloud", "conversation")
        for split in ("train", "val", "test")
    }
    assert {"id_recording", "id_sentence", "validated", "asr_wer"} <= set(
        rows["read_aloud", "train"][0]
    )
    assert {"id_conversation", "id_segment", "occupation"} <= set(rows["conversation", "val"][0])


def test_its_audio_is_48_khz(rows: dict[tuple[str, str], list[dict[str, Any]]]) -> None:
    for row in rows["read_aloud", "test"]:
        samples, rate = soundfile.read(io.BytesIO(row["audio"]["bytes"]))
        assert rate == 48_000
        assert 0.5 < len(samples) / rate < 6
        assert samples.std() > 0.01


def test_speakers_and_sentences_are_disjoint_between_splits(
    rows: dict[tuple[str, str], list[dict[str, Any]]],
) -> None:
    for column in ("id_speaker", "text"):
        values = {
            split: {row[column] for key in rows if key[1] == split for row in rows[key]}
            for split in ("train", "val", "test")
        }
        assert not values["train"] & values["test"]
        assert not values["train"] & values["val"]
        assert not values["val"] & values["test"]


def test_every_dialect_and_age_group_is_tested(corpus: Path) -> None:
    source = open_source(str(corpus))
    found = [
        row.speaker
        for file in source.files
        if file.split == "test"
        for row in source.read(file, 0, file.rows)
    ]
    assert {speaker.dialect for speaker in found} == set(DIALECTS)
    assert {speaker.age_group for speaker in found} == {"0-24", "25-49", "50+"}
    assert {speaker.gender for speaker in found} >= {"female", "male"}


def test_the_dialects_have_about_corals_shares(
    rows: dict[tuple[str, str], list[dict[str, Any]]], corpus: Path
) -> None:
    source = open_source(str(corpus))
    (file,) = [f for f in source.files if (f.corpus, f.split) == ("coral_read_aloud", "train")]
    found = [row.speaker.dialect for row in source.read(file, 0, file.rows)]
    for dialect, voice in DIALECT_VOICES.items():
        share = 100 * found.count(dialect) / len(rows["read_aloud", "train"])
        assert share == pytest.approx(voice.share, abs=1.2)


def test_the_same_seed_gives_the_same_bytes_whatever_the_workers(
    corpus: Path, tmp_path: Path
) -> None:
    synthesise(tmp_path, size=SIZE, seed=3, workers=1)
    assert digests(tmp_path) == digests(corpus)


def test_what_is_missing_is_made_again(corpus: Path) -> None:
    before = digests(corpus)
    (corpus / "read_aloud" / "val-00000-of-00001.parquet").unlink()
    (corpus / "read_aloud" / ".test-00000-of-00001.parquet.17.partial").write_bytes(b"half")
    synthesise(corpus, size=SIZE, seed=3, workers=1)
    assert digests(corpus) == before


def test_another_seed_is_not_mixed_in(corpus: Path) -> None:
    with pytest.raises(SourceError, match=r"holds a synthetic corpus of .*3.*, not .*4"):
        synthesise(corpus, size=SIZE, seed=4)


def test_all_numbers_out_of_range_are_listed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        synthesise(tmp_path, size=SyntheticSize(train=-5, dev=0, test=-1), workers=-1)
    assert error.value.faults == (
        "--train: at least 0; found -5",
        "--test: at least 0; found -1",
        "--workers: at least 1; found -1",
    )
    assert not list(tmp_path.iterdir())


def test_espeak_is_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "espeakng_loader", None)
    with pytest.raises(MissingExtraError, match="synthetic speech needs the extra 'synthetic'"):
        synthesise(tmp_path)
