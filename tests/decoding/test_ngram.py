from pathlib import Path

import pytest

from danish_asr.base.errors import LanguageModelError
from danish_asr.decoding.ngram import files_beside, find_language_model


def test_the_words_are_those_of_the_arpa_file_or_of_the_list_beside_it(arpa: Path) -> None:
    for path in (arpa, arpa.parent):
        assert find_language_model(path).words() == ["en", "ko"]
    unigrams = arpa.with_name("unigrams.txt")
    unigrams.write_text("<s>\nhest\n</s>\nand\n<unk>\nhest\n", encoding="utf-8")
    assert find_language_model(arpa).words() == ["and", "hest"]
    for content in (b"", b"\xe5"):
        unigrams.write_bytes(content)
        with pytest.raises(LanguageModelError, match=str(arpa)):
            find_language_model(arpa).words()


def test_settings_are_those_beside_the_file(arpa: Path) -> None:
    assert find_language_model(arpa).settings == {}
    settings = arpa.with_name("lm.json")
    settings.write_text('{"alpha": 0.5}')
    assert find_language_model(arpa.parent).settings == {"alpha": 0.5}
    settings.write_text("{")
    with pytest.raises(LanguageModelError, match=str(settings)):
        find_language_model(arpa)


def test_a_folder_has_one_language_model(arpa: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    arpa.with_suffix(".bin").touch()
    for folder, found in (("gone", "no such"), ("empty", "has none"), (".", "two.arpa, two.bin")):
        with pytest.raises(LanguageModelError, match=found):
            find_language_model(tmp_path / folder)
    assert find_language_model(arpa).file == arpa


def test_what_is_read_of_a_language_model_is_the_file_and_two_beside_it(arpa: Path) -> None:
    beside = [arpa.with_name("unigrams.txt"), arpa.with_name("lm.json")]
    assert files_beside(arpa.parent) == beside
    assert files_beside(arpa) == [arpa, *beside]
