"""The start of a recipe: files, values and a dataset become a configuration, or are refused."""

import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from danish_asr.base.config_tree import merge, nested, read_yaml, value_of
from danish_asr.base.errors import EXIT_REFUSED, ConfigError
from danish_asr.base.files import to_yaml
from danish_asr.cli.app import app
from danish_asr.recipe import entry
from danish_asr.recipe.entry import Request, read_configuration
from tests.foreign_code import NAME, ForeignCode
from tests.running import CONFIG, evaluate, train


def test_the_dataset_option_names_its_card_and_keeps_other_cards(
    tmp_path: Path, dataset: Path
) -> None:
    copy = tmp_path / "models"
    copy.mkdir()
    (copy / "tiny.yaml").touch()
    file = tmp_path / "own.yaml"
    file.write_text(f"common: {{assets: {{extra_paths: [other, {copy}]}}}}\ndataset: {{name: x}}")
    request = Request(output_dir=None, config_files=[file], dataset=dataset, overrides=["a=1"])
    tree = read_configuration(request)
    assert tree == {
        "common": {"assets": {"extra_paths": ["other", str(dataset / "cards")]}},
        # The card of a copy names the place of the original.
        "dataset": {"name": "tiny", "config_overrides": {"data": str(dataset / "version=0")}},
        "a": 1,
    }
    assert (
        read_configuration(Request(output_dir=None, dataset=dataset))["dataset"] == tree["dataset"]
    )
    with pytest.raises(ConfigError, match="no_dataset"):
        read_configuration(Request(output_dir=None, dataset=Path("no_dataset")))


def test_the_runs_own_file_is_below_the_others_and_messages_name_all(tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.yaml" for number in range(3)]
    for number, file in enumerate(files):
        file.write_text(f"a: {{b: {number}, c{number}: 1}}")
    own = Request(output_dir=None, run_config=files[0], config_files=files[1:])
    assert read_configuration(own) == {"a": {"b": 2, "c0": 1, "c1": 1, "c2": 1}}
    assert own.where == " with ".join(map(str, files))
    line = Request(output_dir=None, overrides=["a.b=3"])
    assert (line.where, Request(output_dir=None).where) == ("the command line",) * 2
    assert own.where in Request(output_dir=None, config_files=files, overrides=["a=3"]).where
    with pytest.raises(ConfigError, match="key=value"):
        read_configuration(Request(output_dir=None, overrides=["a"]))


@pytest.mark.parametrize(("rank", "notes"), [("0", 1), ("1", 0)])
def test_keys_without_effect_are_named_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rank: str, notes: int
) -> None:
    monkeypatch.setenv("RANK", rank)
    key = "model.compile_options.dynamic"
    read_configuration(Request(output_dir=None, overrides=[f"{key}=false"]))
    assert capsys.readouterr().err.count(key) == notes


@pytest.mark.parametrize("allocator", [None, "PYTORCH_ALLOC_CONF"])
@pytest.mark.parametrize(
    ("recipe", "overrides", "status"),
    [
        (entry.TRAIN, ["regime.num_steps=0"], 2),
        (entry.TRAIN, ["model=3"], 2),
        (entry.TRAIN, [], 0),
        (entry.EVALUATE, ["model=3"], 0),  # an evaluation takes its model from elsewhere
        (entry.EVALUATE, ["evaluator.label=a/b"], 2),
    ],
)
def test_keys_are_checked_before_the_recipe_is_imported(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    recipe: str,
    overrides: list[str],
    status: int,
    allocator: str | None,
) -> None:
    monkeypatch.delenv("PYTORCH_CUDA_ALLOC_CONF", raising=False)
    monkeypatch.delenv("PYTORCH_ALLOC_CONF", raising=False)
    monkeypatch.setattr(os, "environ", os.environ.copy() | ({allocator: ""} if allocator else {}))
    imported: list[str] = []
    results = Path("eval")

    def import_module(name: str) -> SimpleNamespace:
        imported.append(name)
        return SimpleNamespace(run=lambda *_: results)

    monkeypatch.setattr(entry, "import_module", import_module)
    base = ["dataset.name=d", "model.name=m"] if recipe == entry.TRAIN else []
    request = Request(output_dir=Path("run"), overrides=[*base, *overrides])
    if status:
        with pytest.raises(SystemExit) as refused:
            entry.run(recipe, request)
        assert refused.value.code == status
        assert overrides[0].partition("=")[0] in capsys.readouterr().err
    else:
        assert entry.run(recipe, request) == results
    assert bool(imported) == (status == 0)
    assert ("PYTORCH_CUDA_ALLOC_CONF" in os.environ) == (allocator is None)


@pytest.mark.parametrize(
    ("enabled", "hidden"), [("false", {"transformers", "wandb"}), ("true", {"transformers"})]
)
def test_fairseq2_does_not_find_what_the_run_does_not_use_which_comes_back(
    monkeypatch: pytest.MonkeyPatch, enabled: str, hidden: set[str]
) -> None:
    packages = {"transformers", "wandb"}
    for name in packages:
        monkeypatch.delitem(sys.modules, name, raising=False)
    absent: list[set[str]] = []

    def import_module(_: str) -> SimpleNamespace:
        absent.append({name for name in packages if sys.modules.get(name, "there") is None})
        return SimpleNamespace(run=lambda *_: Path("eval"))

    monkeypatch.setattr(entry, "import_module", import_module)
    overrides = ["dataset.name=d", "model.name=m"]
    overrides.append(f"common.metric_recorders.wandb.enabled={enabled}")
    entry.run(entry.TRAIN, Request(output_dir=Path("run"), overrides=overrides))
    assert absent == [hidden, hidden]
    assert not packages & sys.modules.keys()


@pytest.mark.parametrize("recipe", [train, evaluate])
def test_a_job_whose_gpu_pytorch_does_not_find_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    finished_run: Path,
    dataset: Path,
    capsys: pytest.CaptureFixture[str],
    recipe: Callable[..., int],
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.delenv("FAIRSEQ2_DEVICE", raising=False)
    assert recipe(finished_run, dataset, "evaluator.label=other") == EXIT_REFUSED
    assert "CUDA_VISIBLE_DEVICES" in capsys.readouterr().err


CODE = {
    "dataset.text_profile": NAME,
    "regime.score_profile": NAME,
    "decoder.name": NAME,
    "decoder.config.text_profile": NAME,
    "dataset.transforms": [{"name": "spec_augment", "probability": 0.5}, {"name": NAME, "x": 1e-5}],
}


@pytest.mark.parametrize(
    ("command", "key"),
    # An evaluation asks for no transforms.
    [*(("train", key) for key in CODE), *(("evaluate", key) for key in [*CODE][:-1])],
)
def test_the_configuration_of_a_run_names_no_code_unless_the_user_names_it_again(
    tmp_path: Path,
    foreign_code: ForeignCode,
    monkeypatch: pytest.MonkeyPatch,
    key: str,
    command: str,
) -> None:
    file = tmp_path / "config.yaml"
    hotwords = {"decoder": {"name": "beam", "config": {"hotwords": ["ja"]}}}
    beam = hotwords if key == "decoder.config.text_profile" else {}
    config = merge(read_yaml(CONFIG), {"dataset": {"name": "tiny"}}, beam, nested(key, CODE[key]))
    file.write_text(to_yaml(config))
    run = [command, str(tmp_path)]
    result = CliRunner().invoke(app, run)
    assert result.exit_code == 2
    assert all(text in result.stderr for text in (str(file), f"{key} names code"))
    assert not foreign_code.ran

    started: list[object] = []
    recipe = SimpleNamespace(run=lambda _, tree: started.append(value_of(tree, key)))
    monkeypatch.setattr(entry, "import_module", lambda _: recipe)
    (again,) = re.findall(r"add (.*)", result.stderr)
    CliRunner().invoke(app, [*run, *shlex.split(again)], catch_exceptions=False)
    CliRunner().invoke(app, [*run, "--config", str(file)], catch_exceptions=False)
    CliRunner().invoke(app, [*run, f"del:{key}"], catch_exceptions=False)
    assert started == [CODE[key], CODE[key], None]
