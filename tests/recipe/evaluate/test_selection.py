"""Which model, rows and directory an evaluation is of."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from danish_asr.base.config_tree import Tree, merge, read_yaml
from danish_asr.base.errors import ConfigError
from danish_asr.base.files import from_yaml, to_yaml
from danish_asr.recipe.entry import Request, read_configuration
from danish_asr.recipe.evaluate.selection import Selection, choose, read_keys, results_dir, select
from danish_asr.recipe.run.run import Run
from tests.foreign_code import NAME, ForeignCode

NAMED: dict[str, Any] = {"model": {"name": "omniASR_CTC_300M"}, "dataset": {"name": "tiny"}}

OF_UPSTREAM = {**NAMED, "dataset": {"name": "tiny", "valid_split": "dev"}}

TRAINING = {**NAMED, "dataset": {"name": "tiny", "train_split": "train", "valid_split": "dev"}}


@pytest.mark.parametrize(
    ("tree", "split"),
    [
        (NAMED, "test"),
        (OF_UPSTREAM, "dev"),
        (TRAINING, "test"),
        (OF_UPSTREAM | {"evaluator": {"split": "test_a"}}, "test_a"),
    ],
)
def test_without_a_run_the_named_model_is_scored(
    tmp_path: Path, tree: dict[str, Any], split: str
) -> None:
    run = Run(tmp_path / "new")
    checkpoint, config = choose(Request(output_dir=run.folder), tree)
    assert checkpoint is None
    assert results_dir(run, config) == run.folder / "eval" / "omniASR_CTC_300M" / split


@pytest.mark.parametrize("tree", [{}, NAMED, OF_UPSTREAM, TRAINING])
def test_of_a_run_the_best_checkpoint_is_scored(finished_run: Path, tree: dict[str, Any]) -> None:
    tree = {"dataset": {"name": "tiny"}, **tree}
    run = Run(finished_run)
    checkpoint, config = choose(Request(output_dir=finished_run), tree)
    assert checkpoint is not None
    assert checkpoint.step == run.best
    assert results_dir(run, config) == finished_run / "eval" / "best" / "test"


def test_neither_a_run_nor_a_model_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        choose(Request(output_dir=tmp_path), {"dataset": {"name": "tiny"}})
    (fault,) = refused.value.faults
    assert fault.startswith("evaluator.checkpoint")


def test_a_run_is_never_taken_for_the_model_that_it_began_with(tmp_path: Path) -> None:
    (tmp_path / "checkpoints" / "step_2").mkdir(parents=True)
    checkpoint, config = choose(Request(output_dir=tmp_path), NAMED)  # its configuration is gone
    assert checkpoint is not None
    assert checkpoint.step == 2
    assert config.model.path == checkpoint.folder
    checkpoint.folder.rmdir()
    (tmp_path / "config.yaml").write_text("{}")
    with pytest.raises(ConfigError, match="which has: no checkpoint"):  # it has only begun
        choose(Request(output_dir=tmp_path), NAMED)


def test_the_same_place_of_a_dataset_is_the_same_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path / "run")
    run.folder.mkdir()
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    here, other = tmp_path / "data", tmp_path / "other" / "version=0"
    for written, asked, name in (
        *(("data", here, "test"), (here, "data", "test"), ("gone", "data", "test")),
        *((here, other, "test@other"), ("data", other, "test@other")),
    ):
        own = {"dataset": {"name": "tiny", "config_overrides": {"data": str(written)}}}
        (run.folder / "config.yaml").write_text(to_yaml(own))
        named: Tree = {"dataset": {"name": "tiny", "config_overrides": {"data": str(asked)}}}
        tree = merge(named, {"model": {"name": "m"}, "evaluator": {"checkpoint": "none"}})
        _, config = choose(Request(output_dir=run.folder), tree)
        assert results_dir(run, config).name == name


@pytest.mark.parametrize(
    ("tree", "place"),
    [
        ({"decoder": {"name": "beam"}}, "test/beam"),
        ({"decoder": {"name": "mine:Decoder"}}, "test/mine.Decoder"),
        ({"decoder": {"name": "beam"}, "evaluator": {"label": "own"}}, "test/own/beam"),
        ({"dataset": {"name": "other"}}, "test@other"),
    ],
)
def test_another_decoder_label_or_dataset_has_a_directory_of_its_own(
    tmp_path: Path, tree: Tree, place: str
) -> None:
    run = Run(tmp_path)
    (tmp_path / "config.yaml").write_text(to_yaml({"dataset": {"name": "tiny"}}))
    named = merge({**NAMED, "evaluator": {"checkpoint": "none"}}, tree)
    _, config = choose(Request(output_dir=tmp_path), named)
    assert results_dir(run, config) == tmp_path / "eval" / "omniASR_CTC_300M" / place


def selected(run: Path, *overrides: str, dumps: bool = False) -> Selection:
    """What an evaluation with a run's own configuration scores."""
    file = run / "config.yaml"
    request = Request(output_dir=run, run_config=file, overrides=overrides, dump_config=dumps)
    return select(request, read_configuration(request, evaluates=True))


@pytest.fixture
def other_run(tmp_path: Path, finished_run: Path, dataset: Path) -> Path:
    """A run whose configuration has changed since its model was written."""
    run = shutil.copytree(finished_run, tmp_path / "run")
    section = {"text_profile": "raw", "asr_task_config": {"normalize_audio": False}}
    changed: Tree = {"dataset": section, "evaluator": {"amp": True}}
    changed["common"] = {"assets": {"extra_paths": [str(dataset / "cards")] * 2}}
    (run / "config.yaml").write_text(to_yaml(merge(read_yaml(run / "config.yaml"), changed)))
    return run


@pytest.mark.parametrize(
    ("override", "prepared"),
    [
        (None, ("coral", True, None)),
        ("dataset.text_profile=coral", ("coral", True, None)),
        ("dataset.text_profile=raw", ("raw", True, None)),
        ("dataset.asr_task_config.normalize_audio=false", ("coral", False, None)),
        ("evaluator.amp=true", ("coral", True, "bfloat16")),
        ("evaluator.amp_dtype=float16", ("coral", True, "float16")),
    ],
)
def test_a_model_is_prepared_as_its_card_says_unless_the_user_writes_another_value(
    other_run: Path,
    dataset: Path,
    capsys: pytest.CaptureFixture[str],
    override: str | None,
    prepared: tuple[Any, ...],
) -> None:
    chosen = selected(other_run, *filter(None, [override]))
    model, section = chosen.model, chosen.config.dataset
    assert (model.text_profile, model.normalize_audio, model.amp_dtype) == prepared
    assert (section.text_profile, section.asr_task_config.normalize_audio) == prepared[:2]
    printed = capsys.readouterr()
    assert ("not the model's card" in printed.err) == (prepared != ("coral", True, None))
    assert not printed.out
    step = Run(other_run).best
    assert (chosen.checkpoint and chosen.checkpoint.step) == step
    assert chosen.name == f"checkpoint_step_{step}"
    assert (chosen.dataset, chosen.output_dir) == (dataset, other_run / "eval" / "best" / "test")
    assert {name: len(rows) for name, rows in chosen.rows.items()} == {"test": 16}
    assert chosen.config.common.assets.extra_paths == [dataset / "cards"]  # each once


def test_a_card_names_no_code_unless_the_user_writes_it_too(
    other_run: Path, foreign_code: ForeignCode
) -> None:
    for card in (other_run / "checkpoints" / "model.yaml", *(other_run / "cards").glob("*.yaml")):
        text = card.read_text()
        card.write_text(text.replace("coral", NAME))
    own = f"dataset.text_profile={NAME}"
    with pytest.raises(ConfigError, match=f"add {own}"):
        selected(other_run)
    assert not foreign_code.ran
    assert selected(other_run, own).model.text_profile == NAME
    assert selected(other_run, "dataset.text_profile=raw").model.text_profile == "raw"


def test_another_model_has_its_own_name(other_run: Path, finished_run: Path) -> None:
    chosen = selected(other_run, "evaluator.checkpoint=none", f"model={{path: {finished_run}}}")
    assert (chosen.checkpoint, chosen.name) == (None, finished_run.name)
    assert chosen.output_dir == other_run / "eval" / finished_run.name / "test"


def test_all_faults_of_an_evaluation_are_listed_and_its_configuration_is_printed_before(
    other_run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    wandb = "common.metric_recorders.wandb.enabled=true"
    wrong = "model={name: nope}", "evaluator.split=dav", "decoder.name=nope", wandb
    with pytest.raises(ConfigError) as refused:
        selected(other_run, "evaluator.checkpoint=none", *wrong, dumps=True)
    assert [fault.partition(" ")[0].strip(":") for fault in refused.value.faults] == [
        *("MODEL", "evaluator.split", "decoder.name", wandb.partition("=")[0])
    ]
    written = from_yaml(capsys.readouterr().out)
    assert written == read_keys(choose(Request(output_dir=other_run), written)[1])
