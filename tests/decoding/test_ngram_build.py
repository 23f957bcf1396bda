"""A language model holds the text it should, and nothing of dev and test."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from danish_asr.base.errors import ConfigError, DanishAsrError, LanguageModelError
from danish_asr.decoding.ngram import find_language_model
from danish_asr.decoding.ngram_build import build_language_model
from tests.shards import utterance, write_shard


def build(texts: list[Path], out: Path, **options: Any) -> dict[str, Any]:
    options = {"profile": "coral", **options}
    return build_language_model(texts, out, **options)


TEXTS = {
    "train": ["Hun går en tur.", "Jeg bor i Ribe ved åen", "Vi ses i morgen"],
    "dev": ["Jeg bor i Ribe, ved åen.", "Ja!", "Køb kun to åen", "vi ses snart"],
    "test": ["Prisen er f.eks. 20 kroner i Ribe"],
}


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    for split, texts in TEXTS.items():
        rows = [utterance(at, split=split, text=text) for at, text in enumerate(texts)]
        write_shard(tmp_path / "ds", rows, split=split)
    return tmp_path / "ds"


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("JEG BOR I RIBE VED ÅEN!", 0),
        ("»Jeg bor i Ribe - ved åen«, sagde hun", 0),
        ("Det regner. Og så: jeg bor. I Ribe? Ved åen! Det sner.", 0),
        ("hun sagde prisen er for eksempel tyve kroner i ribe mindst", 0),
        ("ja", 0),
        ("han sagde køb kun to åen i dag", 0),  # four words
        ("hej vi ses snart igen", 1),  # three
        ("Ja, det er det.", 1),
        ("jeg bor i Ribe", 1),
    ],
)
@pytest.mark.parametrize("profile", ["coral", "raw"])
def test_no_sentence_of_dev_and_test_is_left_whatever_its_form(
    dataset: Path, tmp_path: Path, capfd: Any, *, line: str, kept: int, profile: str
) -> None:
    (tmp_path / "web.txt").write_text(line, encoding="utf-8")
    saved = build([tmp_path / "web.txt"], tmp_path / "lm", dataset=dataset, profile=profile)
    assert saved["sentences"]["kept"] == 2 + kept
    counts = saved["sentences"]
    assert counts["held_out"] == counts["sentences"] - counts["duplicates"] - 2 - kept
    assert "warning: " not in capfd.readouterr().err
    words = set(find_language_model(tmp_path / "lm").words())
    assert {"tur", "tur."} & words
    assert not {"åen", "åen.", "kroner"} & words


def test_only_the_text_column_of_a_table_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id;sentence\na1;"en ko; ko"\n', encoding="utf-8")
    (tmp_path / "b.tsv").write_text("id\tbody\tn\nb1\tet får\t7\n", encoding="utf-8")
    build([tmp_path / "a.csv"], tmp_path / "one")
    assert find_language_model(tmp_path / "one").words() == ["en", "ko"]
    with pytest.raises(LanguageModelError, match="no column has the text; name it one of text"):
        build([tmp_path / "b.tsv"], tmp_path / "other")


def test_text_comes_from_several_kinds_of_files_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / name for name in ("a.txt", "b.txt.gz", "c.jsonl", "d.parquet")]
    files[0].write_text("En ko.\nEn hest! En ko.\n\n??", encoding="utf-8")
    files[1].write_bytes(gzip.compress("et får\nen ko".encode()))
    files[2].write_text(json.dumps({"text": "en gås\nen and"}) + "\n", encoding="utf-8")
    pq.write_table(pa.table({"text": ["en ulv", None], "n": [1, 2]}), files[3])
    saved = build(files, tmp_path / "lm")
    counts = {"sentences": 9, "kept": 6, "duplicates": 2, "held_out": 0, "empty": 1, "words": 12}
    assert saved["sentences"] == counts
    printed = capfd.readouterr().err
    assert "warning: " in printed  # as no dataset was named
    assert "9 sentences read: 6 kept (12 words), 2 duplicates, 0 held out" in printed
    assert str(tmp_path / "lm") in printed
    words = (tmp_path / "lm" / "unigrams.txt").read_text("utf-8").split()
    assert sorted(words) == sorted(["en", "ko", "hest", "et", "får", "gås", "and", "ulv"])
    written = {path.name for path in (tmp_path / "lm").iterdir()}
    assert written == {"3gram.arpa", "lm.json", "unigrams.txt"}


@pytest.mark.parametrize("name", ["a.ARPA", "a.arpa.gz", "a.srt"])
def test_a_file_that_is_no_text_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("en ko")
    with pytest.raises(LanguageModelError, match=name):
        build([tmp_path / name], tmp_path / "lm")


def test_an_existing_language_model_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("en ko")
    build([tmp_path / "a.txt"], tmp_path / "lm")
    before = (tmp_path / "lm" / "3gram.arpa").read_bytes()
    with pytest.raises(DanishAsrError, match="exists"):
        build([tmp_path / "a.txt"], tmp_path / "lm", order=4)
    assert (tmp_path / "lm" / "3gram.arpa").read_bytes() == before


def test_a_text_is_not_in_the_folder_that_a_build_clears(tmp_path: Path) -> None:
    text = tmp_path / ".lm.partial" / "web.txt"
    text.parent.mkdir()
    text.write_text("det er en sætning", encoding="utf-8")
    with pytest.raises(ConfigError, match=str(text)):
        build([text], tmp_path / "lm")
    assert text.is_file()
