"""``danish-asr lm tune``: values of a language model, chosen on dev."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from danish_asr.base.errors import ConfigError
from danish_asr.base.files import from_yaml, to_yaml
from danish_asr.decoding.beam import BeamDecoder
from danish_asr.decoding.ngram import HELD_OUT, NOTHING_HELD_OUT
from danish_asr.decoding.ngram_build import build_language_model
from danish_asr.inference import tune
from danish_asr.inference.model import load_model
from danish_asr.inference.run_facts import dataset_of, read_rows, run_of
from danish_asr.inference.tune import tune_language_model
from danish_asr.recipe.run.run import CONFIG_FILE
from danish_asr.scoring.predictions import read_predictions
from danish_asr.text.profiles import normalize
from tests.decoding_inputs import logits_of
from tests.running import evaluate


@pytest.fixture(scope="module")
def texts(finished_run: Path) -> list[str]:
    """The references of dev."""
    _, config = run_of(finished_run)
    return [normalize(row.text, "coral") for row in read_rows(dataset_of(config), ["dev"], 1000)]


@pytest.fixture
def lm(texts: list[str], tmp_path: Path) -> Path:
    (tmp_path / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
    build_language_model([tmp_path / "texts.txt"], tmp_path / "lm", order=2, profile="coral")
    return tmp_path / "lm"


@pytest.fixture
def _sure(monkeypatch: pytest.MonkeyPatch, texts: list[str]) -> None:
    """Log-probabilities that nearly give the references, in place of a model's."""

    def load(model: Path, **options: Any) -> Any:
        loaded = load_model(model, device="cpu", **options)
        heard = (logits_of(text, loaded.tokenizer, seed) for seed, text in enumerate(texts))
        spoken = ((1.6 * logits).log_softmax(dim=-1) for logits in heard)
        monkeypatch.setattr(loaded, "log_probs", lambda rows: [next(spoken) for _ in rows])
        return loaded

    monkeypatch.setattr(tune, "load_model", load)
    monkeypatch.setattr(tune, "BETAS", (0.0, 1.0))


def run_tune(run: Path, lm: Path, **options: Any) -> tune.Trial:
    return tune_language_model(run, lm, workers=1, **options)


@pytest.mark.usefixtures("_sure")
def test_the_values_with_the_fewest_errors_are_kept_and_used(
    finished_run: Path, lm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[tune.Trial] = []
    merit = tune._merit

    def remember(trial: tune.Trial) -> tuple[float, ...]:
        tried.append(trial)
        return merit(trial)

    monkeypatch.setattr(tune, "_merit", remember)
    chosen = run_tune(finished_run, lm)
    best = min(tried, key=lambda trial: trial.errors.words.errors)
    assert chosen.settings.alpha == best.settings.alpha
    assert chosen.settings.beta == best.settings.beta
    settings = json.loads((lm / "lm.json").read_text())
    assert settings["order"] == 2
    assert settings["tuned"]["splits"] == ["dev"]
    assert settings["tuned"]["run"] == str(finished_run)
    assert settings["tuned"]["wer"] == chosen.errors.wer()
    decoder = BeamDecoder(load_model(finished_run, device="cpu").tokenizer, lm)
    assert decoder.search_settings == chosen.settings


@pytest.mark.usefixtures("_sure")
@pytest.mark.parametrize(("sentences", "warned"), [(0, True), (1, False)])
def test_a_language_model_without_held_out_sentences_is_named(
    finished_run: Path,
    lm: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    sentences: int,
    warned: bool,
) -> None:
    monkeypatch.setattr(tune, "ALPHAS", (0.0,))
    settings = json.loads((lm / "lm.json").read_text())
    (lm / "lm.json").write_text(json.dumps(settings | {HELD_OUT: sentences}))
    run_tune(finished_run, lm)
    assert (NOTHING_HELD_OUT in capsys.readouterr().out) is warned


@pytest.mark.usefixtures("_sure")
@pytest.mark.parametrize(
    ("alpha", "beta", "warned"),
    [
        (0.0, 0.0, []),
        (0.5, -1.0, ["beta"]),
        (0.5, 1.0, ["beta"]),
        (1.0, 0.0, ["alpha"]),
        (1.0, 1.0, ["alpha", "beta"]),
    ],
)
def test_a_value_at_an_end_of_what_was_tried_is_named(
    finished_run: Path,
    lm: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    alpha: float,
    beta: float,
    warned: list[str],
) -> None:
    monkeypatch.setattr(tune, "ALPHAS", (0.0, 0.5, 1.0))
    monkeypatch.setattr(tune, "BETAS", (-1.0, 0.0, 1.0))

    def from_wanted(trial: tune.Trial) -> tuple[float, ...]:
        return (abs(trial.settings.alpha - alpha) + abs(trial.settings.beta - beta),)

    monkeypatch.setattr(tune, "_merit", from_wanted)
    chosen = run_tune(finished_run, lm)
    assert (chosen.settings.alpha, chosen.settings.beta) == (alpha, beta)
    lines = capsys.readouterr().out.splitlines()
    ends = [line for line in lines if "decoder.config." in line]
    assert [line.split()[1] for line in ends] == warned


def test_the_model_hears_in_rows_what_an_evaluation_writes(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished_run, run)
    assert evaluate(run, dataset, "evaluator.split=dev") == 0
    written = read_predictions(run / "eval" / "best" / "dev" / "predictions.jsonl")
    _, config = run_of(run)
    rows = [*read_rows(dataset_of(config), ["dev"], 1000)]
    model = load_model(run, device="cpu")
    heard = model.decoder(model.log_probs([row.waveform for row in rows]))
    assert sorted(heard) == sorted(written["hypothesis"])
    assert sorted(row.text for row in rows) == sorted(written["reference"])


@pytest.mark.parametrize("split", ["test", "dev,test_coral_read_aloud", "train"])
def test_only_dev_is_tuned_on(tmp_path: Path, finished_run: Path, split: str) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished_run, run)
    config = from_yaml((run / CONFIG_FILE).read_text())
    config["dataset"]["valid_split"] = split
    (run / CONFIG_FILE).write_text(to_yaml(config))
    with pytest.raises(ConfigError, match=r"dataset\.valid_split"):
        run_tune(run, tmp_path)
    with pytest.raises(ConfigError, match=CONFIG_FILE):
        run_tune(tmp_path, tmp_path)
