"""The commands on runs: which work they ask for, and how they end."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from danish_asr.base.errors import ConfigError
from danish_asr.cli.app import app
from danish_asr.planning.gpus import card_of
from danish_asr.recipe.config.keys import defaults
from danish_asr.recipe.entry import EVALUATE, TRAIN, Request


def run(line: str) -> Result:
    return CliRunner().invoke(app, line.split(), env={"COLUMNS": "500"}, catch_exceptions=False)


def test_train_and_evaluate_take_files_and_values_or_continue_the_run(
    called: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run("train run a.b=1 -c x.yaml --config y.yaml c=d")
    files = [Path("x.yaml"), Path("y.yaml")]
    new = Request(output_dir=Path("run"), config_files=files, overrides=["a.b=1", "c=d"])
    (own := Path("run", "config.yaml")).parent.mkdir()
    own.touch()
    assert "Next: danish-asr compare" in run("evaluate run").output
    run("train run --dataset .")
    known = Request(output_dir=Path("run"), run_config=own)
    data = Request(output_dir=Path("run"), run_config=own, dataset=Path())
    scored = called.pop(2)
    assert called == [("run", TRAIN, new), ("run", EVALUATE, known), ("run", TRAIN, data)]
    assert scored[0] == "score_files"
    monkeypatch.setenv("RANK", "1")  # the first one scores
    assert "Next:" not in run("evaluate run").output
    monkeypatch.delenv("RANK")
    monkeypatch.setattr("danish_asr.recipe.entry.run", lambda *_: None)  # as of --dump-config
    assert "Next:" not in run("evaluate run").output


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("train regime.num_steps=3", "KEY=VALUE comes after OUTDIR"),
        ("train new", "holds no run yet"),
        ("evaluate new --dataset .", "holds no run yet"),
        ("fetch", "name a model"),
        ("train new dataset.name=mine --prepare", "danish-asr convert SOURCE --name mine"),
        ("train --help-keys masks", "dataset"),
        ("plan a=1", "a: unknown"),
        ("sweep out a=1 --over b=1,2", "a: unknown"),
    ],
)
def test_a_line_without_what_the_work_needs_is_refused(
    called: list[Any], monkeypatch: pytest.MonkeyPatch, line: str, fault: str
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise ConfigError(["a: unknown"])

    monkeypatch.setattr("danish_asr.planning.plan.show_plan", refuse)
    monkeypatch.setattr("danish_asr.planning.sweep.run_sweep", refuse)
    result = run(line)
    assert (result.exit_code, fault in result.output, called) == (2, True, [])


@pytest.mark.parametrize(
    ("line", "cpus_of_job", "number"),
    [
        ("plan a=1", "", 1),
        ("plan a=1", "8", 2),
        ("plan a=1 --gpu h100", "8", 1),
        ("plan a=1 --gpus 3", "8", 3),
    ],
)
def test_a_plan_is_for_the_gpus_that_are_named_else_for_those_of_the_job(
    called: list[Any], monkeypatch: pytest.MonkeyPatch, line: str, cpus_of_job: str, number: int
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", cpus_of_job)
    printed = run(line).output
    ((name, _, _, gpus),) = called
    assert (name, gpus) == ("show_plan", number)
    assert (f"--nproc-per-node {number} " in printed) == (number > 1)


def test_a_plan_of_nothing_checks_this_machine(
    called: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (run("plan").exit_code, called) == (0, [("check_machine",)])
    monkeypatch.setattr("danish_asr.planning.plan.check_machine", lambda: False)
    assert run("plan").exit_code == 1


@pytest.mark.parametrize("place", [None, "data/parquet/cards", "extra/below"])
def test_prepare_converts_a_corpus_whose_card_is_nowhere(
    called: list[Any], tmp_path: Path, place: str | None
) -> None:
    if place:
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "coral_v2_danish.yaml").touch()
    run("train a dataset.name=coral_v2_danish common.assets.extra_paths=[extra] --prepare")
    assert [name for name, *_ in called] == [*["convert_command"] * (place is None), "run"]


@pytest.mark.parametrize(
    ("line", "gpu", "names"),
    [
        ("train new", None, ["demo"]),
        ("train new", "12GB", ["standard", "lean"]),
        ("train new", "a100-40", ["standard", "a100"]),
        ("plan", "rtx3090", ["standard"]),
        ("plan --gpu h100", None, ["standard", "a100-80"]),
        ("sweep new --over common.seed=1,2", "a10", ["standard", "lean"]),
    ],
)
def test_a_dataset_without_a_configuration_takes_the_preset_of_the_gpu_and_says_which(
    called: list[Any], monkeypatch: pytest.MonkeyPatch, line: str, gpu: str | None, names: list[str]
) -> None:
    monkeypatch.setattr("danish_asr.planning.gpus.here", lambda: gpu and card_of(gpu))
    (root := Path("mine")).mkdir()
    facts = {"source_rows": 0, "dropped": [], "suspects": {}, "summary": [], "shards": []}
    facts |= dict.fromkeys(("name", "source", "key", "ledger_sha256", "suspects_sha256"), "mine")
    (root / "manifest.json").write_text(json.dumps(facts))
    said = run(f"{line} --dataset {root}").output
    (request,) = [one for call in called for one in call if isinstance(one, Request)]
    assert request.config_files == [Path("configs", f"{name}.yaml") for name in names]
    assert request.dataset == root
    assert all(str(file) in said for file in request.config_files)
    monkeypatch.setenv("RANK", "1")
    assert "--config" not in run(f"train other --dataset {root}").output


def test_train_describes_the_keys_of_a_section() -> None:
    said = run("train --help-keys masking").output
    keys = re.findall(r"(?m)^(\S+)  \(", said)
    assert keys == [key for key in defaults() if key.startswith("masking.")]
    assert "default: null" in said
