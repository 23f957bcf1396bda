"""What docs/howto/label-recordings.md does, and the scripts of other pages."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Literal
from unicodedata import normalize

import datasets
import pandas as pd
import pyarrow.parquet as pq
import pytest

from danish_asr import convert
from danish_asr.base.config_tree import merge, read_yaml
from danish_asr.corpus import ConvertOptions
from danish_asr.decoding.transcript import Segment, Transcript, Word
from danish_asr.inference.formats import FORMATS, SUFFIXES
from danish_asr.recipe.config.load import load
from danish_asr.recipe.data.index import DanishAsrDataset
from danish_asr.scoring.predictions import read_predictions
from tests.builders import tone
from tests.datasets_files import dataset_of
from tests.transcripts import elan

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("form", ["textgrid", "srt", "json"])
def test_transcripts_that_a_person_corrected_become_a_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """What `transcribe` writes, edited as text and converted."""
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    names = ("anna", "bo", "carl")
    for name in names:
        Path("in", f"{name}.wav").write_bytes(tone(8.0, rate=16_000))
        parts = [Segment(n, n + 1.5, [Word(f"fejl {n}", n, n + 1.5)]) for n in (0.0, 3.0, 6.0)]
        written = FORMATS[form](Transcript(8.0, parts, f"in/{name}.wav"))
        corrected = written.replace("fejl 3.0", f"på Ærø, {name}")
        Path("in", f"{name}{SUFFIXES[form]}").write_text(corrected, encoding="utf-8")
    inventory = convert("in", "out", ConvertOptions(name="x", split_by_speaker="40/30/30"))
    assert inventory.rows == 9
    assert inventory.hours * 3600 == pytest.approx(9 * 1.5)
    rows = pd.read_parquet("out/version=0")
    assert {*rows["text"]} == {
        "fejl 0.0",
        "fejl 6.0",
        *(f"på Ærø, {n}" for n in ("anna", "bo", "carl")),
    }
    assert {*rows["speaker_id"]} == {*names}
    assert {*rows["split"]} == {"train", "dev", "test"}


def script_of(page: str, name: str) -> str:
    """A Python script of a page, by its docstring."""
    text = (ROOT / "docs" / "howto" / page).read_text(encoding="utf-8")
    scripts = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return next(str(code) for code in scripts if code.startswith(f'"""{name}'))


def run_script(page: str, name: str, *arguments: object, cwd: Path | None = None) -> bytes:
    command = [sys.executable, "-c", script_of(page, name), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, cwd=cwd).stdout


def test_kaldis_folder_becomes_a_table(tmp_path: Path) -> None:
    folder = tmp_path / "train"
    folder.mkdir()
    (tmp_path / "meeting.wav").write_bytes(tone(4.0, rate=16_000))
    (folder / "wav.scp").write_text(f"m {tmp_path}/meeting.wav\n")
    (folder / "text").write_text("u1 på Ærø\nu2 ja, tak\n", encoding="utf-8")
    (folder / "segments").write_text("u1 m 0.5 1.5\nu2 m 2 2.75\n")
    (folder / "utt2spk").write_text("u1 anna\nu2 bo\n")
    table = tmp_path / "train.csv"
    table.write_bytes(run_script("write-a-table.md", "kaldi.py", folder))
    convert(table, tmp_path / "out", ConvertOptions(name="x"))
    rows = pd.read_parquet(tmp_path / "out" / "version=0")
    assert [*rows["id"]] == ["u1", "u2"]
    assert [*rows["text"]] == ["på Ærø", "ja, tak"]
    assert [*rows["speaker_id"]] == ["anna", "bo"]
    assert [*rows["audio_size"]] == [16_000, 12_000]


def test_what_save_to_disk_wrote_becomes_parquet(tmp_path: Path) -> None:
    rows = [{"audio": {"bytes": tone(0.5), "path": f"{n}.wav"}, "text": f"nr {n}"} for n in (1, 2)]
    audio = datasets.Audio(sampling_rate=48_000)
    made = dataset_of(rows, {"audio": audio, "text": datasets.Value("string")})
    datasets.DatasetDict(train=made, test=made).save_to_disk(str(tmp_path / "in"))
    (tmp_path / "out").mkdir()
    run_script("write-a-table.md", "parquet.py", tmp_path / "in", tmp_path / "out")
    inventory = convert(tmp_path / "out", tmp_path / "ds", ConvertOptions(name="x"))
    assert [shard.rows for shard in inventory.shards] == [2, 2]
    assert (inventory.rows, inventory.dropped) == (4, {})


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_an_id_of_hypotheses_is_that_of_the_dataset_in_any_unicode_form(
    tmp_path: Path, form: Literal["NFC", "NFD"]
) -> None:
    (tmp_path / "a.wav").write_bytes(tone(0.5))
    other: Literal["NFC", "NFD"] = "NFD" if form == "NFC" else "NFC"
    (tmp_path / "test.csv").write_text(f"path,text,id\na.wav,ja,{normalize(form, 'åse_1')}\n")
    convert(tmp_path / "test.csv", tmp_path / "ds", ConvertOptions(name="own"))
    hypotheses = tmp_path / "hypotheses.csv"
    hypotheses.write_text(f"id,hypothesis\n{normalize(other, 'åse_1')},nej\n")
    (prediction,) = read_predictions(hypotheses, dataset=tmp_path / "ds").itertuples()
    assert (prediction.reference, prediction.hypothesis) == ("ja", "nej")


def test_the_function_of_the_page_is_a_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_corpus.py").write_text(script_of("extend.md", "my_corpus.py"))
    monkeypatch.syspath_prepend(tmp_path)
    for split in ("train", "test"):
        folder = tmp_path / "in" / split
        folder.mkdir(parents=True)
        rows = ("0|a.wav|0|0.2|s|på Ærø", "1|a.wav|0.1|0.3||nej", "2|none.wav|0|1||ja")
        (folder / "list.txt").write_text("".join(f"{split}-{row}\n" for row in rows))
        (folder / "a.wav").write_bytes(tone(0.5))
    options = ConvertOptions(name="radio", max_drop=0.4, workers=2)
    convert(f"my_corpus.rows:{tmp_path / 'in'}", tmp_path / "ds", options)
    written = pd.read_parquet(tmp_path / "ds" / "version=0")
    columns = (written[name] for name in ("id", "text", "speaker_id", "audio_size"))
    assert {*zip(*columns, strict=True)} == {
        ("train-0", "på Ærø", "s", 3200),
        ("train-1", "nej", None, 3200),
        ("test-0", "på Ærø", "s", 3200),
        ("test-1", "nej", None, 3200),
    }


@pytest.mark.parametrize("form", ["srt", "csv"])
def test_a_table_of_people_gives_the_rows_of_any_source_dialects_and_ages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    (tmp_path / "people_of_the_page.py").write_text(script_of("write-a-table.md", "people.py"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    people = "\ufeffTaler;Dialekt;Alder\nAnna;Fynsk;34 år\nBo;Bornholmsk;\n"
    Path("people.csv").write_text(people, encoding="utf-8")
    Path("in").mkdir()
    said = (("Anna", "på Ærø"), ("Bo", "nej"), ("Carl", "ja"))
    if form == "srt":
        Path("in", "talk.wav").write_bytes(tone(4.0))
        # Each speaks twice: a word before a colon that never recurs is no name.
        cues = (
            f"{n}\n00:00:0{n // 2},{n % 2 * 5} --> 00:00:0{n // 2},{n % 2 * 5 + 4}\n{who}: {text}"
            for n, (who, text) in enumerate(said * 2)
        )
        Path("in", "talk.srt").write_text("\n\n".join(cues), encoding="utf-8")
    else:
        for who, _ in said[:2]:
            Path("in", f"{who}.wav").write_bytes(tone(0.5))
        lines = (f"{who}.wav,{text},{who}" for who, text in said)
        Path("in", "rows.csv").write_text(
            "\n".join(["path,text,speaker", *lines]), encoding="utf-8"
        )
    options = ConvertOptions(name="own", split="train", max_drop=0.4)
    inventory = convert("people_of_the_page.rows:in", "ds", options)
    rows = pq.read_table("ds/version=0", columns=["speaker_id", "dialect", "age"]).to_pylist()
    written = {row["speaker_id"]: (row["dialect"], row["age"]) for row in rows}
    known = {"Anna": ("Fynsk", 34), "Bo": ("Bornholmsk", None), "Carl": (None, None)}
    kept = said if form == "srt" else said[:2]
    assert written == {who: known[who] for who, _ in kept}
    assert (inventory.rows, sum(inventory.dropped.values())) == (
        (6, 0) if form == "srt" else (2, 1)
    )


def test_people_of_several_kinds_are_divided_once_by_the_source_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kinds_of_the_page.py").write_text(script_of("write-a-table.md", "kinds.py"))
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("read", "talk", "film"):
        (folder / f"{name}.wav").write_bytes(tone(6.0, rate=16_000))
    cues = "".join(
        f"{n + 1}\n00:00:0{n},000 --> 00:00:0{n},900\n{who}: ja {n}\n\n"
        for n, who in enumerate(("Anna", "Bo", "Anna", "Bo"))
    )
    for name in ("film", "talk"):  # the latter has an ELAN file too
        (folder / f"{name}.srt").write_text(cues)
    of_people = re.sub(r'(?s)<TIER \S+ TIER_ID="(?:pos|ord)".*?</TIER>', "", elan())
    (folder / "talk.eaf").write_text(of_people, encoding="utf-8")
    (folder / "rows.csv").write_text(
        "path,text,speaker,age,dialect\nread.wav,hele filen,Anna,30-39,thybomål\n", encoding="utf-8"
    )
    options = ConvertOptions(name="own", split_by_speaker="50/0/50", max_drop=1.0)
    convert(f"kinds_of_the_page.rows:{folder}", tmp_path / "ds", options)
    rows = pd.read_parquet(tmp_path / "ds" / "version=0")
    rows["kind"] = rows["source_id"].str.extract(r"\.(\w+):")
    assert not [name for name in rows["source_id"] if "talk.srt" in name]
    people = rows.groupby("speaker_id").agg({"kind": set, "split": "nunique"})
    assert people["kind"].to_dict() == {"Anna": {"csv", "eaf", "srt"}, "Bo": {"eaf", "srt"}}
    assert [*people["split"]] == [1, 1]
    groups = rows.loc[rows["kind"] == "csv", ["dialect", "sub_dialect", "age_group"]]
    assert groups.to_numpy().tolist() == [["Vestjysk", "thybomål", "25-49"]]


def test_the_folds_of_the_page_test_each_speaker_once(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"{number}.wav").write_bytes(tone(0.5 + number / 20))
    lines = [f"{n}.wav,nr {n},taler {n % 6}" for n in range(12)]
    (tmp_path / "own.csv").write_text("\n".join(["path,text,speaker", *lines]))
    convert(tmp_path / "own.csv", tmp_path / "ds", ConvertOptions(name="own", split="train"))
    run_script("check-data.md", "folds.py", tmp_path / "ds", 3, cwd=tmp_path)
    dataset, tested = DanishAsrDataset(tmp_path / "ds"), list[str]()
    for fold in (1, 2, 3):
        tree = merge(
            read_yaml(ROOT / "configs" / "demo.yaml"), read_yaml(tmp_path / f"fold-{fold}.yaml")
        )
        config = load(tree | {"dataset": tree["dataset"] | {"name": "own"}}, where="the page")
        parts = [
            dataset.read_index("train", where).rows["speaker_id"].unique().to_list()
            for where in (
                config.dataset.train_where,
                config.dataset.valid_where,
                config.evaluator.where,
            )
        ]
        assert sorted(name for part in parts for name in part) == [f"taler {n}" for n in range(6)]
        tested += parts[2]
    assert sorted(tested) == [f"taler {n}" for n in range(6)]
