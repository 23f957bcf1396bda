"""The commands on runs: which work they ask for, and how they end."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from danish_asr.base.errors import ConfigError
from danish_asr.cli.app import app
from danish_asr.planning.gpus import card_of
from danish_asr.recipe.config.keys import defaults
from danish_asr.recipe.entry import EVALUATE, TRAIN, Request

WORK = (
    *("corpus.command.convert_command", "planning.plan.check_machine", "planning.plan.show_plan"),
    *("planning.sweep.run_sweep", "recipe.entry.run", "report.runs.report_runs"),
    "report.score.score_files",
)


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The function that was called in place of each work, and its arguments."""
    monkeypatch.chdir(tmp_path)
    calls: list[Any] = []

    def recorder(name: str) -> Callable[..., bool]:
        return lambda *arguments, **_: not calls.append((name, *arguments))

    for path in WORK:
        monkeypatch.setattr(f"danish_asr.{path}", recorder(path.rpartition(".")[2]))
    monkeypatch.setattr("danish_asr.planning.gpus.here", lambda: None)
    for name in ("RANK", "SLURM_CPUS_ON_NODE", "LSB_MCPU_HOSTS", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    return calls


def test_train_and_evaluate_take_files_and_values_or_continue_the_run(
    asked: list[Any], tmp_path: Path, printed: Callable[[str], str]
) -> None:
    printed("train run a.b=1 -c x.yaml --config y.yaml c=d")
    files = [Path("x.yaml"), Path("y.yaml")]
    new = Request(output_dir=Path("run"), config_files=files, overrides=["a.b=1", "c=d"])
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").touch()
    own = Request(output_dir=Path("run"), run_config=Path("run/config.yaml"))
    assert "Next: danish-asr compare" in printed("evaluate run")
    printed("train run --dataset .")
    data = Request(output_dir=Path("run"), run_config=Path("run/config.yaml"), dataset=Path())
    assert asked == [
        ("run", TRAIN, new),
        ("run", EVALUATE, own),
        ("score_files", [True]),
        ("run", TRAIN, data),
    ]


def test_only_the_first_rank_scores_what_was_evaluated(
    asked: list[Any], monkeypatch: pytest.MonkeyPatch, printed: Callable[[str], str]
) -> None:
    monkeypatch.setenv("RANK", "1")
    assert "Next:" not in printed("evaluate run a=1")
    monkeypatch.delenv("RANK")
    monkeypatch.setattr("danish_asr.recipe.entry.run", lambda *_: None)  # as --dump-config
    assert "Next:" not in printed("evaluate run a=1")
    assert [name for name, *_ in asked] == ["run"]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("train regime.num_steps=3", "KEY=VALUE comes after OUTDIR"),
        ("train new", "holds no run yet"),
        ("evaluate new --dataset .", "holds no run yet"),
        ("fetch", "name a model"),
        ("train new dataset.name=mine --prepare", "--prepare"),
        ("train --help-keys masks", "dataset"),
    ],
)
def test_a_line_without_what_the_work_needs_is_refused(
    asked: list[Any], line: str, fault: str
) -> None:
    result = CliRunner().invoke(app, line.split(), env={"COLUMNS": "500"})
    assert (result.exit_code, fault in result.output) == (2, True)
    assert not asked


@pytest.mark.parametrize(
    ("line", "work"),
    [
        ("plan a=1", "planning.plan.show_plan"),
        ("sweep out a=1 --over b=1,2", "planning.sweep.run_sweep"),
        ("train new dataset.name=coral_v2_danish --prepare", "corpus.command.convert_command"),
    ],
)
@pytest.mark.usefixtures("asked")
def test_a_refused_configuration_ends_with_two(
    monkeypatch: pytest.MonkeyPatch, line: str, work: str
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise ConfigError(["a: unknown"])

    monkeypatch.setattr(f"danish_asr.{work}", refuse)
    result = CliRunner().invoke(app, line.split())
    assert (result.exit_code, "a: unknown" in result.output) == (2, True)


@pytest.mark.parametrize(
    ("line", "environment", "number"),
    [
        ("plan a=1", {}, 1),
        ("plan a=1", {"CUDA_VISIBLE_DEVICES": "0,1"}, 1),
        ("plan a=1", {"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_CPUS_ON_NODE": "8"}, 2),
        ("plan a=1 --gpu h100", {"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_CPUS_ON_NODE": "8"}, 1),
        ("plan a=1 --gpus 3", {"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_CPUS_ON_NODE": "8"}, 3),
    ],
)
def test_a_plan_is_for_the_gpus_that_are_named_else_for_those_of_the_job(
    asked: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    printed: Callable[[str], str],
    *,
    line: str,
    environment: dict[str, str],
    number: int,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    printed(line)
    ((name, _, _, gpus),) = asked
    assert (name, gpus) == ("show_plan", number)


def test_a_plan_of_nothing_checks_this_machine(
    asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert CliRunner().invoke(app, ["plan"]).exit_code == 0
    assert asked == [("check_machine",)]
    monkeypatch.setattr("danish_asr.planning.plan.check_machine", lambda: False)
    assert CliRunner().invoke(app, ["plan"]).exit_code == 1


@pytest.mark.parametrize("place", [None, "data/parquet/cards", "extra/below"])
def test_prepare_converts_a_corpus_whose_card_is_nowhere(
    asked: list[Any], tmp_path: Path, printed: Callable[[str], str], place: str | None
) -> None:
    if place:
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "coral_v2_danish.yaml").touch()
    extra = "common.assets.extra_paths=[extra]"
    printed(f"train new dataset.name=coral_v2_danish {extra} --prepare")
    expected = ["run"] if place else ["convert_command", "run"]
    assert [name for name, *_ in asked] == expected


def _built(root: Path) -> Path:
    """A directory with all that names a dataset."""
    root.mkdir()
    empty = {"source_rows": 0, "dropped": [], "suspects": {}, "summary": [], "shards": []}
    texts = dict.fromkeys(("source", "key", "ledger_sha256", "suspects_sha256"), "")
    (root / "manifest.json").write_text(json.dumps({"name": root.name, **empty, **texts}))
    return root


@pytest.mark.parametrize(
    ("line", "card", "names"),
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
    asked: list[Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    printed: Callable[[str], str],
    *,
    line: str,
    card: str | None,
    names: list[str],
) -> None:
    monkeypatch.setattr("danish_asr.planning.gpus.here", lambda: card and card_of(card))
    root = _built(tmp_path / "mine")
    said = printed(f"{line} --dataset {root}")
    (request,) = [one for call in asked for one in call if isinstance(one, Request)]
    assert request.config_files == [Path("configs", f"{name}.yaml") for name in names]
    assert request.dataset == root
    assert all(str(file) in said for file in request.config_files)
    monkeypatch.setenv("RANK", "1")
    assert "--config" not in printed(f"train other --dataset {root}")


def test_train_describes_the_keys_of_a_section(printed: Callable[[str], str]) -> None:
    said = printed("train --help-keys masking")
    keys = re.findall(r"(?m)^(\S+)  \(", said)
    assert keys == [key for key in defaults() if key.startswith("masking.")]
    assert "default: null" in said
