"""``danish-asr lm tune``: values of a language model from kept log-probabilities of dev."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from danish_asr.base.errors import LogProbsError
from danish_asr.decoding.beam import BeamDecoder, symbols
from danish_asr.decoding.log_probs import LogProbsFile, keep, to_batch, write_batches
from danish_asr.decoding.ngram_tuning import ENOUGH, Tuning, tune_language_model
from danish_asr.recipe.evaluate.kept import LOG_PROBS, find_dev_log_probs
from danish_asr.text.profiles import normalize
from tests.recipe.running import evaluate

DEV = Path("eval", "best", "dev")


def arpa(words: set[str]) -> str:
    """A model in which all words are equally likely; KenLM reads no unigram models."""
    unigrams = [f"-1\t{word}\t0" for word in sorted(words)]
    head = ["\\data\\", f"ngram 1={len(unigrams) + 3}", "ngram 2=1", "", "\\1-grams:"]
    special = ["-3\t<unk>", "-99\t<s>\t0", "-1\t</s>"]
    bigrams = ["", "\\2-grams:", f"-1\t<s> {min(words)}", "", "\\end\\", ""]
    return "\n".join([*head, *special, *unigrams, *bigrams])


@pytest.fixture(scope="module")
def tunable(
    tmp_path_factory: pytest.TempPathFactory, dataset: Path, finished_run: Path
) -> tuple[Path, Path]:
    """A run whose kept log-probabilities nearly give the references, and a language model.

    Not to be changed.
    """
    root = tmp_path_factory.mktemp("tunable")
    run, lm = root / "run", root / "lm"
    shutil.copytree(finished_run, run)
    assert evaluate(run, dataset, "evaluator.split=dev", "evaluator.keep_log_probs=true") == 0
    dev = find_dev_log_probs(run)
    labels, generator = symbols(dev.tokenizer), torch.Generator().manual_seed(0)
    rows = [row for number in range(len(dev.file)) for row in dev.file.rows(number)]
    texts = [normalize(json.loads(row)["reference"], "coral") for row in rows]
    logits = []
    for text in texts:
        noise = torch.randn(2 * len(text), len(labels), generator=generator)
        for at, character in enumerate(text):
            noise[2 * at, labels.index(character)] += 6
            noise[2 * at + 1, 0] += 6
        logits.append(keep(noise[None], [len(noise)])[0])
    batch = to_batch(rows, logits, json.dumps(dev.file.about))
    write_batches(run / DEV / LOG_PROBS, [batch])
    lm.mkdir()
    words = {word for text in texts for word in text.split()}
    (lm / "two.arpa").write_text(arpa(words), encoding="utf-8")
    (lm / "lm.json").write_text('{"text_profile": "coral", "order": 2}')
    return run, lm


def tune(run: Path, lm: Path, **options: Any) -> Tuning:
    return tune_language_model(find_dev_log_probs(run), lm, **({"workers": 1} | options))


@pytest.fixture
def lm(tunable: tuple[Path, Path], tmp_path: Path) -> Path:
    shutil.copytree(tunable[1], tmp_path / "lm")
    return tmp_path / "lm"


@pytest.fixture
def run(tunable: tuple[Path, Path]) -> Path:
    return tunable[0]


def test_the_chosen_values_are_kept_and_used(run: Path, lm: Path) -> None:
    tuning = tune(run, lm)
    rates = [trial.errors.wer() for trial in tuning.trials.values()]
    assert tuning.chosen.errors.wer() <= min(rates) + ENOUGH
    settings = json.loads((lm / "lm.json").read_text())
    assert settings["order"] == 2
    assert settings["tuned"]["split"] == "dev"
    assert settings["tuned"]["run"] == str(run.resolve())
    assert settings["tuned"]["wer"] == tuning.chosen.errors.wer()
    decoder = BeamDecoder(find_dev_log_probs(run).tokenizer, lm)
    used = tuning.chosen.point._asdict()
    assert {name: decoder.settings[name] for name in used} == used
    assert (lm / "tuning.png").read_bytes().startswith(b"\x89PNG")


def test_an_interrupted_search_continues_over_processes(run: Path, lm: Path) -> None:
    whole = tune(run, lm)
    saved = json.loads((lm / "tuning.json").read_text())
    saved["trials"] = [trial | {"cpu_seconds": 77} for trial in saved["trials"][:30]]
    (lm / "tuning.json").write_text(json.dumps(saved))
    again = tune(run, lm, workers=2)
    errors = {point: trial.errors for point, trial in whole.trials.items()}
    assert {point: trial.errors for point, trial in again.trials.items()} == errors
    assert again.chosen.point == whole.chosen.point
    assert [trial.seconds == 77 for trial in again.trials.values()].count(True) == 30


def test_test_other_checkpoints_and_runs_without_log_probabilities_are_refused(
    run: Path, tmp_path: Path, finished_run: Path
) -> None:
    def refused(directory: Path) -> str:
        with pytest.raises(LogProbsError) as error:
            find_dev_log_probs(directory)
        return str(error.value)

    command = f"danish-asr evaluate {finished_run} evaluator.split=dev"
    assert refused(finished_run).endswith(f"{command} evaluator.keep_log_probs=true")
    file = LogProbsFile(run / DEV / LOG_PROBS)
    rows, frames = zip(*file.utterances(0), strict=True)
    for split in ("test", "dev,test_coral"):
        other = tmp_path / split / DEV.with_name(split)
        about = {**file.about, "evaluator": {**file.about["evaluator"], "split": split}}
        batch = to_batch(rows, frames, json.dumps(about))
        other.mkdir(parents=True)
        write_batches(other / LOG_PROBS, [batch])
        assert "log-probabilities of dev" in refused(other)
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / "checkpoints" / "scores" / "step_2.txt").write_text("0")
    (tmp_path / "run" / "checkpoints" / "scores" / "step_4.txt").write_text("-1")
    assert "the best checkpoint is now step 2" in refused(tmp_path / "run")
