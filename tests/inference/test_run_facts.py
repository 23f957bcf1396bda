"""What a reader of the hub learns from an export's README.md."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard

from danish_asr.base.files import to_yaml
from danish_asr.inference.export import Format, model_card
from danish_asr.inference.model import load_model
from danish_asr.inference.run_facts import facts_of
from danish_asr.recipe.run.run_directory import weights_digest
from danish_asr.scoring.predictions import write_predictions
from danish_asr.text.profiles import PROFILES
from tests.foreign_code import NAME, ForeignCode
from tests.random_models import build_model
from tests.score_rows import prediction, write_evaluation
from tests.shards import utterance, write_shard


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a model with random weights. Not to be changed."""
    return build_model(tmp_path_factory.mktemp("models") / "random")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with a checkpoint of step 4 on Norwegian data, evaluated as it is and earlier."""
    run, data = tmp_path / "run", tmp_path / "data"
    danish = write_shard(data, [utterance(0)]).parent
    danish.rename(danish.with_name("language=nob_Latn"))
    weights = run / "checkpoints" / "step_4" / "model" / "pp_00" / "model.pt"
    weights.parent.mkdir(parents=True)
    torch.save({}, weights)
    overrides = {"data": str(data / "version=0")}
    config = {
        "model": {"name": "omniASR_CTC_300M"},
        "dataset": {"name": "norsk", "config_overrides": overrides},
        "regime": {"num_steps": 4},
    }
    (run / "config.yaml").write_text(to_yaml(config))
    for name, digest, text in (("best", weights_digest(run, 4), "det er"), ("old", "x", "nej")):
        folder = run / "eval" / name / "test"
        folder.mkdir(parents=True)
        row = prediction("1", "det er så koldt", text)
        write_predictions(folder / "predictions.jsonl", [row])
        about = {"weights": digest, "rows_in_split": {"test": 1}, "score_profile": "danish"}
        write_evaluation(folder / "predictions.jsonl", **about)
    return run


@pytest.mark.parametrize("to", ["hf", "onnx"])
def test_the_card_has_the_language_of_the_data_and_the_scores_of_this_checkpoint(
    run: Path, model: Path, to: Format
) -> None:
    """It once said "Danish" over data of any language."""
    card = ModelCard(model_card(load_model(model, device="cpu"), str(run), to, "it is equal"))
    about = card.data.to_dict()  # type: ignore[no-untyped-call]
    assert about["language"] == ["nob"]
    for text in (
        "fine-tuned from omniASR_CTC_300M",
        "Apache 2.0",
        "test: WER 50.00 %, CER 60.00 %, 1 rows, text profile danish",
        "it is equal",
        "## Limits",
    ):
        assert text in card.text
    assert "100.00" not in card.text
    assert "Danish" not in card.text


def test_an_evaluation_names_no_code_for_the_scores_of_the_card(
    run: Path, foreign_code: ForeignCode
) -> None:
    predictions = run / "eval" / "best" / "test" / "predictions.jsonl"
    about = {"weights": weights_digest(run, 4), "rows_in_split": {"test": 1}}
    write_evaluation(predictions, **about, score_profile=NAME)
    (line,) = facts_of(str(run)).scores
    assert line.startswith("test: not computed")
    assert NAME in line
    assert not foreign_code.ran


def test_the_card_says_what_the_text_profile_is(run: Path, model: Path) -> None:
    loaded = load_model(model, device="cpu")
    loaded.text_profile = "coral"
    assert PROFILES["coral"].about in model_card(loaded, str(run), "hf", "")


def test_of_a_directory_that_is_no_run_only_its_name_is_known(model: Path) -> None:
    facts = facts_of(str(model))
    assert (facts.name, facts.languages, facts.scores) == (model.name, (), ())
