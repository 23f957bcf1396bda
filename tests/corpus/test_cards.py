"""The tokenizer as fairseq2 itself loads it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq2.data.tokenizers import Tokenizer
from fairseq2.data.tokenizers.char import load_char_tokenizer
from hypothesis import given
from hypothesis import strategies as st

from danish_asr.corpus.cards import SPECIAL_SYMBOLS, build_char_tokenizer
from tests.builders import build_dataset
from tests.fairseq2_context import fairseq2_context
from tests.forks import in_processes


def load(args: list[str]) -> None:
    from fairseq2 import init_fairseq2  # noqa: PLC0415 - in a new process
    from fairseq2.assets import get_asset_store  # noqa: PLC0415
    from fairseq2.data.tokenizers import load_tokenizer  # noqa: PLC0415

    init_fairseq2()
    metadata: Any = get_asset_store().retrieve_card(args[0]).metadata
    tokenizer = load_tokenizer(metadata["tokenizer_ref"], progress=False)
    print(metadata["dataset_config"]["data"])  # noqa: T201
    print(tokenizer.create_decoder()(tokenizer.create_encoder()(args[1])))  # noqa: T201


def test_fairseq2_finds_the_dataset_and_its_tokenizer_by_name(tmp_path: Path) -> None:
    build_dataset(tmp_path / "ds")
    text, cards = "Åse drikker 3 kopper te", str(tmp_path / "ds" / "cards")
    printed = in_processes(1, load, ["tiny", text], DANISH_ASR_ASSETS=cards)
    assert printed.splitlines() == [str((tmp_path / "ds" / "version=0").resolve()), text]


ALPHABET = "abcdefghijklmnopqrstuvwxyzæøåABCÆØÅ0123456789%,.é"


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


words = st.lists(st.text(ALPHABET, min_size=1, max_size=8), max_size=8)


@given(words)
def test_decoding_gives_the_text_back(tokenizer: Tokenizer, words: list[str]) -> None:
    text = " ".join(words)
    indices = tokenizer.create_encoder()(text)
    assert len(indices) == len(text)
    assert tokenizer.create_decoder()(indices) == text


@given(st.text())
def test_no_text_gives_the_blank_or_another_special_symbol_but_unk(
    tokenizer: Tokenizer, text: str
) -> None:
    indices = tokenizer.create_encoder()(text)
    assert not torch.isin(indices, torch.tensor([0, 1, 2], dtype=indices.dtype)).any()


@pytest.mark.parametrize("characters", [ALPHABET + "▁▅", ALPHABET + "\n\t\x00", ALPHABET[::-1] * 3])
def test_order_and_characters_that_cannot_be_symbols_do_not_change_the_bytes(
    characters: str,
) -> None:
    assert build_char_tokenizer(characters) == build_char_tokenizer(ALPHABET)
