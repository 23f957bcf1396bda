"""What a reader of the hub learns from an export's README.md, and the rows of a run's dataset."""

import shutil
from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard

from danish_asr.base.errors import ConfigError
from danish_asr.base.files import to_yaml
from danish_asr.inference.export import Format, model_card
from danish_asr.inference.model import load_model
from danish_asr.inference.run_facts import dataset_of, facts_of, read_rows, run_of
from danish_asr.recipe.run.run import Run
from danish_asr.text.profiles import PROFILES
from tests.foreign_code import NAME, ForeignCode
from tests.score_rows import evaluated
from tests.shards import utterance, write_shard


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
    evaluated(run, "best/test", weights=Run(run).at(4).digest(), score_profile="raw")
    evaluated(run, "old/test", weights="x", score_profile="danish")
    evaluated(run, "best/dev", weights=Run(run).at(4).digest(), where="age_group = '50+'")
    return run


@pytest.mark.parametrize("to", ["hf", "onnx"])
def test_the_card_has_the_language_of_the_data_and_the_scores_of_this_checkpoint(
    run: Path, special: Path, to: Format
) -> None:
    """It once said "Danish" over data of any language."""
    loaded = load_model(special, device="cpu")
    loaded.text_profile = "coral"
    card = ModelCard(model_card(loaded, str(run), to, "it is equal"))
    about = card.data.to_dict()  # type: ignore[no-untyped-call]
    assert about["language"] == ["nob"]
    for text in (
        "fine-tuned from omniASR_CTC_300M",
        "Apache 2.0",
        "test: WER 58.33 %, CER 54.35 %, 4 rows, text profile raw",
        PROFILES["coral"].about,
        "it is equal",
        "## Limits",
    ):
        assert text in card.text
    assert card.text.count("WER") == 1
    assert "Danish" not in card.text


def test_an_evaluation_names_no_code_for_the_scores_of_the_card(
    run: Path, foreign_code: ForeignCode
) -> None:
    evaluated(run, "best/test", weights=Run(run).at(4).digest(), score_profile=NAME)
    (line,) = facts_of(str(run)).scores
    assert line.startswith("test: not computed")
    assert NAME in line
    assert not foreign_code.ran


def test_of_a_directory_that_is_no_run_only_its_name_is_known(run: Path, special: Path) -> None:
    facts = facts_of(str(special))
    assert (facts.name, facts.languages, facts.scores) == (special.name, (), ())
    with pytest.raises(ConfigError, match=r"checkpoints/step_<n>"):
        run_of(special)
    for place in (run, run / "checkpoints" / "step_4"):
        assert run_of(place)[0] == run
    shutil.rmtree(run / "checkpoints")
    assert not facts_of(str(run)).scores


def test_a_dataset_is_found_by_its_name(dataset: Path) -> None:
    assets = {"extra_paths": [str(dataset / "cards")]}
    assert dataset_of({"dataset": {"name": "tiny"}, "common": {"assets": assets}}) == dataset


def test_rows_are_read_at_even_distances_over_all_splits(tmp_path: Path) -> None:
    for split in ("dev", "test"):
        rows = [utterance(n, split=split, text=f"{split} {n}") for n in range(5)]
        write_shard(tmp_path, rows, split=split)
    read = [*read_rows(tmp_path, ["dev", "test"], 4)]
    assert [row.text for row in read] == ["dev 0", "dev 2", "test 0", "test 2"]
    assert [len(row.waveform) for row in read] == [utterance(n)["audio_size"] for n in (0, 2) * 2]
    assert len([*read_rows(tmp_path, ["dev"], 100)]) == 5
