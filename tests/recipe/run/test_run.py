"""What an output directory says of its run."""

import re
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from danish_asr.base.errors import PredictionsError, RunError
from danish_asr.base.files import to_yaml
from danish_asr.recipe.run.continuing import tidy
from danish_asr.recipe.run.run import (
    MODEL_CARD,
    START,
    Run,
    check_model,
    checkpoint_of,
    choice_of,
    files_of_model,
    predictions_of,
)
from tests.run_folders import row
from tests.score_rows import evaluated


@pytest.mark.parametrize("damaged", [b"", b"\0\0\0", b"-4\xff"])
def test_a_damaged_score_counts_as_absent_and_is_deleted_when_the_run_continues(
    run: Path, damaged: bytes
) -> None:
    scores = run / "checkpoints" / "scores"
    scores.mkdir()
    (scores / "step_2.txt").write_text("-40.5\n")
    (scores / "step_1.txt").write_bytes(damaged)
    assert Run(run).scores == {2: -40.5}
    tidy(Run(run))
    assert [file.name for file in scores.iterdir()] == ["step_2.txt"]


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ({1: -30.0, 2: -40.0, 9: -1.0}, 1),
        ({1: -40.0, 2: -40.0}, 2),
        ({1: -1.0}, 1),
        ({2: -1.0}, 2),
        ({}, 2),
    ],
)
def test_a_directory_means_the_best_checkpoint_of_its_run_or_the_one_it_is(
    run: Path, scores: dict[int, float], best: int
) -> None:
    (run / "checkpoints" / "scores").mkdir()
    (run / "checkpoints" / "step_7").touch()  # no checkpoint
    (run / "checkpoints" / "step_8.tmp").mkdir()  # fairseq2 has not finished it
    for step, score in scores.items():
        (run / "checkpoints" / "scores" / f"step_{step}.txt").write_text(str(score))
    assert Run(run).best == best
    assert {name: at.step for name, at in Run(run).named().items()} == {
        "step_1": 1,
        "step_2": 2,
        "last": 2,
        "best": best,
    }
    unscored = [2] if 2 not in scores and best == 1 else []
    named = [int(step) for step in re.findall(r"step (\d+)", Run(run).best_in_words)]
    assert named == [best, *unscored]
    for place, step in (
        (run, best),
        (run / "checkpoints" / "step_2", 2),
        (run / "checkpoints" / "step_1" / "model", 1),
    ):
        meant = checkpoint_of(place)
        assert meant is not None
        assert (meant.run.folder, meant.step) == (run, step)
        assert meant.weights == run / "checkpoints" / f"step_{step}" / "model"
    for other in (run / "metrics", run / "checkpoints" / "scores"):
        assert checkpoint_of(other) is None


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"num_steps": 3}, None),
        ({"num_steps": None}, None),
        ({"num_steps": 2}, "regime.num_steps"),
        ({"num_steps": 1}, "regime.num_steps"),
        ({"early_stopping_patience": 1}, "patience"),
        ({"early_stopping_patience": 2}, None),
        ({"num_data_epochs": 1}, "regime.num_data_epochs"),
        ({"num_data_epochs": 5}, "regime.num_data_epochs"),
        ({"num_data_epochs": 6}, None),
    ],
)
def test_a_run_is_complete_after_its_steps_its_epochs_or_an_early_stop(
    run: Path, values: dict[str, Any], reason: str | None
) -> None:
    (run / "metrics" / "valid.jsonl").write_text(row(1) + row(2, rate=20))
    # A run that is trained longer has the card of before.
    (run / "config.yaml").write_text(to_yaml({"regime": {"num_data_epochs": 6}}))
    keys = {f"regime.{key}": value for key, value in values.items()}
    (run / "cards").mkdir()
    (run / "cards" / "run.yaml").write_text("name: run\n")
    by_others = Run(run).completion(keys)
    assert by_others is None or "num_data_epochs" not in values
    (run / "cards" / "run.yaml").write_text("data_epochs: 5\n")
    complete = Run(run).completion(keys)
    assert complete is None if reason is None else reason in str(complete)
    (run / "checkpoints" / "step_4" / "model").mkdir(parents=True)
    if reason:  # nothing can continue here
        assert f"model.path={run}" in str(Run(run).completion(keys))


def test_a_run_that_can_continue_began_with_the_model_of_its_card(run: Path) -> None:
    card = run / START / MODEL_CARD
    card.parent.mkdir()
    card.write_text("model_arch: 300m\n")
    assert Run(run).began_with() == {"model_arch": "300m"}
    (run / "checkpoints" / "step_2" / "trainer").rmdir()
    assert Run(run).began_with() is None


def test_a_directory_without_a_run_has_nothing(tmp_path: Path) -> None:
    new = Run(tmp_path / "new")
    assert (new.last, new.best, new.named(), new.config) == (0, None, {}, {})
    assert new.can_continue
    assert (new.completion({"regime.num_steps": 2}), new.began_with()) == (None, None)


def test_the_files_of_a_model_are_those_of_its_run_or_of_hugging_face(
    run: Path, tmp_path: Path
) -> None:
    predictions = run / "eval" / "best" / "test" / "predictions.jsonl"
    predictions.parent.mkdir(parents=True)
    for file in (predictions, predictions.with_name("evaluation.json")):
        file.touch()
    for path in (run, run / "checkpoints" / "step_1"):
        files = files_of_model(path)
        assert {run / "checkpoints", run / "cards", predictions} <= {*files}
        assert predictions.with_name("evaluation.json") in files
    hub = tmp_path / "hub"
    hub.mkdir()
    for name in ("config.json", "vocab.json", "README.md"):
        (hub / name).touch()
    named = {file.name for file in files_of_model(hub) if file.exists()}
    assert named == {"config.json", "vocab.json"}
    assert files_of_model("omniASR_CTC_300M") == []


def test_a_path_means_a_file_or_that_of_its_directory_or_of_its_run(run: Path) -> None:
    with pytest.raises(PredictionsError, match=f"danish-asr evaluate {run}[^:]*$"):
        predictions_of(run)
    dev, test, old = (evaluated(run, place) for place in ("best/dev", "best/test", "last/test"))
    assert [predictions_of(path) for path in (dev, dev.parent, run)] == [dev, dev, test]
    assert (choice_of(dev), choice_of(dev.parent)) == (None, None)
    choice = choice_of(run)
    assert choice
    assert (choice.run, choice.taken.predictions, choice.newer_best) == (run, test, 2)
    assert [one.predictions for one in choice.others] == [old]


def test_a_model_is_a_directory_or_a_name_and_no_path_that_is_neither(run: Path) -> None:
    assert check_model(run) == run
    assert check_model("omniASR_CTC_300M") == Path("omniASR_CTC_300M")
    (run / "config.yaml").touch()
    for path in (run / "config.yaml", run / "metrics", "outputs/none", "./none"):
        with pytest.raises(RunError, match=f"model {path}:"):
            check_model(path)
    with pytest.raises(RunError, match="model '':"):
        check_model("")
    for file in ("metrics/config.json", "empty/cards/any.yaml"):
        (run / file).parent.mkdir(parents=True, exist_ok=True)
        (run / file).touch()
        assert check_model(run / Path(file).parts[0])


def test_the_digest_of_weights_is_of_their_content_alone(tmp_path: Path) -> None:
    assert Run(tmp_path).at(1).digest() is None
    for step, name, value in ((1, "sdp_00", b"a"), (2, "other", b"a"), (3, "sdp_00", b"b")):
        folder = tmp_path / "checkpoints" / f"step_{step}" / "model" / "pp_00"
        folder.mkdir(parents=True)
        with ZipFile(folder / f"{name}.pt", "w") as archive:
            archive.writestr(f"{name}/data/0", value)
    one, moved, other = (Run(tmp_path).at(step).digest() for step in (1, 2, 3))
    assert one == moved != other
    assert len(str(one)) == 16
