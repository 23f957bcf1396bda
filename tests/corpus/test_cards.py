"""What is beside the shards, and the tokenizer as fairseq2 itself loads it."""

import io
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pytest
import soundfile
import torch
from fairseq2.data.tokenizers import Tokenizer
from fairseq2.data.tokenizers.char import load_char_tokenizer
from hypothesis import given
from hypothesis import strategies as st

from danish_asr.base.files import from_yaml
from danish_asr.base.schema import LEDGER_SCHEMA, SUSPECTS_SCHEMA
from danish_asr.corpus.cards import SPECIAL_SYMBOLS, build_char_tokenizer, complete
from danish_asr.corpus.inventory import ListedShard, read_inventory
from tests.fairseq2_context import fairseq2_context


def shard(corpus: str, split: str, seconds: float, language: str = "dan_Latn") -> ListedShard:
    path = f"version=0/corpus={corpus}/split={split}/language={language}/x.parquet"
    return ListedShard(path=path, rows=2, seconds=seconds, sha256="")


SHARDS = [
    shard("b", "train", 360.0),
    shard("a", "test", 7200.0),
    shard("a", "train", 1800.0),
    shard("b", "train", 36.0),
    shard("b", "train", 3600.0, "nob_Latn"),
    shard("c", "test", 9.0),
]


@pytest.mark.parametrize("characters", ["", "abc"])
def test_what_is_beside_the_shards_counts_them(tmp_path: Path, characters: str) -> None:
    reasons = ["no audio", "empty text", "empty text"]
    known = {"source": "x", "corpus": "a", "split": "test", "id": "i", "value": 1.0}
    ledger = [known | {"row": n, "reason": reason} for n, reason in enumerate(reasons)]
    suspects = [known | {"reason": reason} for reason in ("z", "a", "z")]
    values: dict[str, Any] = {"source": "there", "key": "k", "source_rows": 15, "summary": []}
    inventory = complete(
        tmp_path,
        ledger=pa.Table.from_pylist(ledger, LEDGER_SCHEMA),
        suspects=pa.Table.from_pylist(suspects, SUSPECTS_SCHEMA),
        characters=characters,
        shards=SHARDS,
        name="x",
        **values,
    )
    assert inventory == read_inventory(tmp_path)
    assert [*inventory.dropped.items()] == [("empty text", 2), ("no audio", 1)]
    assert [*inventory.suspects.items()] == [("a", 1), ("z", 2)]
    assert inventory.shards == sorted(SHARDS, key=lambda shard: shard.path)
    cards = {path.name: from_yaml(path.read_text()) for path in tmp_path.glob("cards/*.yaml")}
    own: dict[str, Any] = {"name": "x", "dataset_family": "mixture_parquet_asr_dataset"}
    own["dataset_config"] = {"data": str((tmp_path / "version=0").resolve())}
    if characters:
        tokenizer = {"name": "x_char", "tokenizer_family": "char_tokenizer"}
        own["tokenizer_ref"] = "x_char"
        assert cards.pop("x_char.yaml") == tokenizer | {"tokenizer": "x_char.model"}
    assert cards == {"x.yaml": own}
    assert (tmp_path / "cards" / "x_char.model").is_file() == bool(characters)
    hours = (tmp_path / "language_distribution_0.tsv").read_text().splitlines()
    assert hours == [  # of train alone: sampling weights are made of them
        "corpus\tlanguage\thours",
        "a\tdan_Latn\t0.500000",
        "b\tdan_Latn\t0.110000",
        "b\tnob_Latn\t1.000000",
    ]
    _, metadata, text = (tmp_path / "README.md").read_text().split("---\n", 2)
    readme = from_yaml(metadata)
    assert readme["language"] == ["da", "nob"]
    assert [own["split"] for own in readme["configs"][0]["data_files"]] == ["train", "test"]
    assert all(own in " ".join(text.split()) for own in ("12 utterances", "3.61 hours", "3 rows"))


def test_hugging_face_datasets_loads_the_splits_of_a_root(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    loaded = datasets.load_dataset(str(dataset), cache_dir=str(tmp_path))
    rows = {split: len(own) for split, own in loaded.items()}
    assert rows == {"train": 48, "dev": 12, "test": 16}
    row = loaded["test"].cast_column("audio_bytes", datasets.Audio(decode=False))[0]
    samples, rate = soundfile.read(io.BytesIO(row["audio_bytes"]["bytes"]))
    assert (len(samples), rate) == (row["audio_size"], 16_000)


ALPHABET = "abcdefghijklmnopqrstuvwxyzæøåABCÆØÅ0123456789%,.é²"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    fairseq2_context()
    path = tmp_path_factory.mktemp("tokenizer") / "char.model"
    path.write_bytes(build_char_tokenizer(ALPHABET))
    return load_char_tokenizer(path, None)


def test_special_symbols_stand_where_fairseq_has_them(tokenizer: Tokenizer) -> None:
    info = tokenizer.vocab_info
    assert (info.bos_idx, info.pad_idx, info.eos_idx, info.unk_idx) == (0, 1, 2, 3)
    assert info.size == len(SPECIAL_SYMBOLS) + 1 + len(ALPHABET)
    assert tokenizer.create_decoder()(tokenizer.create_encoder()("a!b")) == "a⁇b"


words = st.lists(st.text(ALPHABET, min_size=1, max_size=8), max_size=8)


@given(words)
def test_decoding_gives_the_text_back(tokenizer: Tokenizer, words: list[str]) -> None:
    text = " ".join(words)
    indices = tokenizer.create_encoder()(text)
    assert len(indices) == len(text)
    assert tokenizer.create_decoder()(indices) == text


@given(st.text())
def test_no_text_gives_a_special_symbol_but_unk(tokenizer: Tokenizer, text: str) -> None:
    indices = tokenizer.create_encoder()(text)
    assert not torch.isin(indices, torch.tensor([0, 1, 2], dtype=indices.dtype)).any()


@pytest.mark.parametrize("characters", [ALPHABET + "▁▅", ALPHABET + "\n\t\x00", ALPHABET[::-1] * 3])
def test_order_and_unprintable_characters_do_not_change_the_bytes(characters: str) -> None:
    assert build_char_tokenizer(characters) == build_char_tokenizer(ALPHABET)
