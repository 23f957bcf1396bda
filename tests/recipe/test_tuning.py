"""``danish-asr lm tune``: values of a language model, chosen on dev."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from danish_asr.base.errors import ConfigError
from danish_asr.base.files import from_yaml, to_yaml
from danish_asr.decoding.beam import BeamDecoder, symbols
from danish_asr.decoding.ngram_tuning import (
    ENOUGH,
    AddBatch,
    DevSplit,
    Tuning,
    tune_language_model,
)
from danish_asr.recipe.evaluate.recipe import open_dev
from danish_asr.recipe.run.run_directory import CONFIG_FILE
from danish_asr.scoring.predictions import Prediction, read_predictions
from danish_asr.text.profiles import normalize
from tests.recipe.running import evaluate


def arpa(words: set[str]) -> str:
    """A model in which all words are equally likely; KenLM reads no unigram models."""
    unigrams = [f"-1\t{word}\t0" for word in sorted(words)]
    head = ["\\data\\", f"ngram 1={len(unigrams) + 3}", "ngram 2=1", "", "\\1-grams:"]
    special = ["-3\t<unk>", "-99\t<s>\t0", "-1\t</s>"]
    bigrams = ["", "\\2-grams:", f"-1\t<s> {min(words)}", "", "\\end\\", ""]
    return "\n".join([*head, *special, *unigrams, *bigrams])


def nearly_spoken(text: str, labels: list[str | None], seed: int) -> Tensor:
    """Log-probabilities, (S, V), that nearly give a text."""
    noise = torch.randn(2 * len(text), len(labels), generator=torch.Generator().manual_seed(seed))
    for at, character in enumerate(text):
        noise[2 * at, labels.index(character)] += 6
        noise[2 * at + 1, 0] += 6
    return noise.log_softmax(dim=-1)


@pytest.fixture(scope="module")
def dev(finished_run: Path) -> DevSplit:
    """A split whose log-probabilities nearly give the references, in place of a model's."""
    opened = open_dev(finished_run)
    labels, rows = symbols(opened.tokenizer), list[Prediction]()
    opened.forward(lambda batch, _: rows.extend(batch))

    def forward(add: AddBatch) -> None:
        for number, row in enumerate(rows):
            text = normalize(row.reference, "coral")
            add([row], [nearly_spoken(text, labels, number)])

    return replace(opened, forward=forward)


@pytest.fixture
def lm(dev: DevSplit, tmp_path: Path) -> Path:
    words = set[str]()

    def add(rows: Any, _: Any) -> None:
        words.update(word for row in rows for word in normalize(row.reference, "coral").split())

    dev.forward(add)
    folder = tmp_path / "lm"
    folder.mkdir()
    (folder / "two.arpa").write_text(arpa(words), encoding="utf-8")
    (folder / "lm.json").write_text('{"text_profile": "coral", "order": 2}')
    return folder


def test_the_model_gives_what_an_evaluation_of_dev_writes(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished_run, run)
    assert evaluate(run, dataset, "evaluator.split=dev") == 0
    heard: dict[str, Prediction] = {}
    frames: dict[str, Tensor] = {}
    opened = open_dev(run)

    def add(rows: Any, log_probs: Any) -> None:
        heard.update((row.id, row) for row in rows)
        frames.update((row.id, of_row) for row, of_row in zip(rows, log_probs, strict=True))

    opened.forward(add)
    written = read_predictions(run / "eval" / "best" / "dev" / "predictions.jsonl")
    assert heard == {row.id: row for row in written}
    assert len(heard) == opened.rows
    for row_id, log_probs in frames.items():
        assert log_probs.shape[1] == opened.tokenizer.vocab_info.size
        assert abs(len(log_probs) - 50 * (heard[row_id].duration or 0)) < 3
    assert not (run / "eval" / "best" / "dev" / "log_probs.arrow").exists()


def test_the_chosen_values_are_kept_and_used(dev: DevSplit, lm: Path) -> None:
    tuning = tune_language_model(dev, lm, workers=1)
    rates = [trial.errors.wer() for trial in tuning.trials.values()]
    assert tuning.chosen.errors.wer() <= min(rates) + ENOUGH
    settings = json.loads((lm / "lm.json").read_text())
    assert settings["order"] == 2
    assert settings["tuned"]["split"] == "dev"
    assert settings["tuned"]["run"] == str(dev.run)
    assert settings["tuned"]["wer"] == tuning.chosen.errors.wer()
    decoder = BeamDecoder(dev.tokenizer, lm)
    used = tuning.chosen.point._asdict()
    assert {name: decoder.settings[name] for name in used} == used
    assert (lm / "tuning.png").read_bytes().startswith(b"\x89PNG")


def test_a_part_of_the_rows_is_at_even_distances(dev: DevSplit, lm: Path) -> None:
    tuning = tune_language_model(dev, lm, workers=1, rows=dev.rows // 2)
    assert tuning.about["rows"] == dev.rows // 2
    assert tuning.about["rows_in_split"] == dev.rows


def errors_of(tuning: Tuning) -> Mapping[Any, Any]:
    return {point: trial.errors for point, trial in tuning.trials.items()}


def test_an_interrupted_search_continues_over_processes(dev: DevSplit, lm: Path) -> None:
    uninterrupted = tune_language_model(dev, lm, workers=1)
    saved = json.loads((lm / "tuning.json").read_text())
    saved["trials"] = [trial | {"cpu_seconds": 77} for trial in saved["trials"][:30]]
    (lm / "tuning.json").write_text(json.dumps(saved))
    again = tune_language_model(dev, lm, workers=2)
    assert errors_of(again) == errors_of(uninterrupted)
    assert again.chosen.point == uninterrupted.chosen.point
    assert [trial.seconds == 77 for trial in again.trials.values()].count(True) == 30


def test_a_checkpoint_can_be_named(finished_run: Path) -> None:
    assert open_dev(finished_run / "checkpoints" / "step_2").model == "step 2"


@pytest.mark.parametrize("split", ["test", "dev,test_coral_read_aloud", "train"])
def test_only_dev_is_tuned_on(tmp_path: Path, finished_run: Path, split: str) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished_run, run)
    config = from_yaml((run / CONFIG_FILE).read_text())
    config["dataset"]["valid_split"] = split
    (run / CONFIG_FILE).write_text(to_yaml(config))
    with pytest.raises(ConfigError, match=r"dataset\.valid_split"):
        open_dev(run)


def test_a_directory_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=CONFIG_FILE):
        open_dev(tmp_path)
