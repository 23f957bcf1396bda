"""What a reader of the hub learns from an export's README.md."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import ModelCard
from huggingface_hub.repocard_data import model_index_to_eval_results

from danish_asr.base.files import to_yaml
from danish_asr.inference.export.model_card import model_card
from danish_asr.inference.model import load_model
from danish_asr.scoring.predictions import write_predictions
from danish_asr.text.profiles import PROFILES
from tests.score_rows import prediction, write_evaluation


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with a checkpoint of step 4, and evaluations of it and of an earlier one."""
    run = tmp_path / "run"
    (run / "checkpoints" / "step_4").mkdir(parents=True)
    config = {"model": {"name": "omniASR_CTC_300M"}, "dataset": {"name": "coral_v2"}}
    (run / "config.yaml").write_text(to_yaml(config | {"regime": {"num_steps": 4}}))
    for step, hypothesis in ((2, "forkert"), (4, "det er her")):
        folder = run / "eval" / f"step_{step}" / "test"
        folder.mkdir(parents=True)
        row = prediction("1", "det er her", hypothesis, corpus="coral_v2_read", dialect="Fynsk")
        write_predictions(folder / "predictions.jsonl", [row])
        about = {
            "step": step,
            "run": "/elsewhere/old name/checkpoints",
            "rows_in_split": {"test": 1},
        }
        write_evaluation(folder / "predictions.jsonl", **about)
        (part := folder / "part").mkdir()  # of the split is not on the card
        write_predictions(part / "predictions.jsonl", [replace(row, hypothesis="det")])
        write_evaluation(part / "predictions.jsonl", **about, where="age > 20")
    return run


def test_the_card_has_the_scores_of_this_checkpoint_and_the_terms_of_base_and_data(
    run: Path, model: Path
) -> None:
    card = ModelCard(model_card(load_model(model, device="cpu"), str(run), "onnx", "me/danish"))
    about = card.data.to_dict()  # type: ignore[no-untyped-call]
    assert (about["license"], about["library_name"]) == ("openrail", "onnx")
    _, results = model_index_to_eval_results(about["model-index"])
    assert [(each.dataset_name, each.metric_value) for each in results] == [
        ("coral_v2_read", 0.0),
        ("coral_v2_read", 0.0),
    ]
    assert "pip install numpy==" in card.text
    for text in (
        "fine-tuned from omniASR_CTC_300M",
        "Apache 2.0",
        "OpenRAIL-D",
        "`regime.num_steps`: 4",
        "step 4",
        "| Fynsk | 0.00 |",
        "## Limits",
    ):
        assert text in card.text


def test_the_card_has_the_scores_under_the_runs_own_profile(run: Path, model: Path) -> None:
    """It had CoRal's rules, under which a Cyrillic text has no letter."""
    config = {"dataset": {"name": "ukrainsk"}, "regime": {"score_profile": "plain"}}
    (run / "config.yaml").write_text(to_yaml(config))
    folder = run / "eval" / "step_4" / "test"
    write_predictions(folder / "predictions.jsonl", [prediction("1", "так і є", "так є")])
    write_evaluation(folder / "predictions.jsonl", step=4, rows_in_split={"test": 1})
    text = model_card(load_model(model, device="cpu"), str(run), "onnx")
    assert "| all | all | 33.33 |" in text
    assert "profile plain" in text


def test_the_card_of_the_demo_reports_no_scores_under_corals_names(run: Path, model: Path) -> None:
    config = {"model": {"name": "omniASR_CTC_300M"}, "dataset": {"name": "danish_asr_demo"}}
    (run / "config.yaml").write_text(to_yaml(config))
    card = ModelCard(model_card(load_model(model, device="cpu"), str(run), "onnx", "me/danish"))
    assert "model-index" not in card.data.to_dict()  # type: ignore[no-untyped-call]
    assert "synthetic speech" in card.text


def test_the_card_says_what_the_text_profile_is(run: Path, model: Path) -> None:
    section = {"name": "mine", "text_profile": "coral"}
    (run / "config.yaml").write_text(to_yaml({"dataset": section}))
    card = model_card(load_model(model, device="cpu"), str(run), "onnx")
    assert PROFILES["coral"].about in card


def test_the_card_has_the_language_of_the_training_data(run: Path, model: Path) -> None:
    cards = run / "norsk" / "cards"
    cards.mkdir(parents=True)
    (cards / "norsk.yaml").touch()
    hours = "corpus\tlanguage\thours\nnorsk\tnob_Latn\t1.0\n"
    (cards.parent / "language_distribution_0.tsv").write_text(hours, encoding="utf-8")
    config = {"dataset": {"name": "norsk"}, "common": {"assets": {"extra_paths": [str(cards)]}}}
    (run / "config.yaml").write_text(to_yaml(config))
    card = ModelCard(model_card(load_model(model, device="cpu"), str(run), "onnx"))
    assert card.data.to_dict()["language"] == ["nob"]  # type: ignore[no-untyped-call]
