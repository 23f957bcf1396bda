from __future__ import annotations

from pathlib import Path

import pytest

from danish_asr.data.dataset import DanishAsrDataset, count_unknown
from danish_asr.data.targets import Targets
from danish_asr.errors import ConfigError
from tests.shards import char_tokenizer, utterance, write_shard


def test_targets_are_the_tokens_of_the_normalised_text(tmp_path: Path) -> None:
    tokenizer = char_tokenizer(tmp_path)
    encode, decode = tokenizer.create_encoder(), tokenizer.create_decoder()

    raw, coral = Targets.of(tokenizer, "raw"), Targets.of(tokenizer, "coral")

    assert raw("hej med dig").tolist() == encode("hej med dig").tolist()
    assert decode(coral("Køb 2 øl!")) == "køb to øl"
    assert raw("").tolist() == []


def test_unknown_symbols_are_removed_if_asked_for(tmp_path: Path) -> None:
    targets = Targets.of(char_tokenizer(tmp_path), "raw")

    assert targets("h!ej", remove_unknown=True).tolist() == targets("hej").tolist()
    assert targets.unknown in targets("h!ej").tolist()


def test_an_unknown_profile_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected one of .*raw"):
        Targets.of(char_tokenizer(tmp_path), "rå")


def test_unknown_symbols_are_counted_by_name_and_share(tmp_path: Path) -> None:
    # Version 1 tokenizers map capitals to the unknown symbol, and nothing checks it (TRAPS).
    texts = ["Hej HEJ", "ÆH", "æh ja"]
    write_shard(tmp_path, [utterance(n, text=text) for n, text in enumerate(texts)])
    index = DanishAsrDataset(tmp_path).read_index("train")

    unknown = count_unknown(index, char_tokenizer(tmp_path))

    assert unknown.symbols == (("H", 3), ("E", 1), ("J", 1), ("Æ", 1))
    assert (unknown.unknown, unknown.characters) == (6, 14)
    assert unknown.share == pytest.approx(6 / 14)
    assert count_unknown(index, char_tokenizer(tmp_path), "coral").symbols == ()
