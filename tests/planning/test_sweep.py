"""Sweeps: what is refused, and the names of the runs."""

import signal
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pytest

from danish_asr.base.errors import EXIT_STOPPED, ConfigError, DanishAsrError
from danish_asr.cli.upstream import run_as_upstream
from danish_asr.planning.sweep import combinations, run_sweep
from danish_asr.recipe.entry import Request
from tests.running import ROOT, arguments, same_weights, status_of, train_main

DEMO = [ROOT / "configs" / "demo.yaml"]
RATES = "optimizer.config.lr=1e-3,2e-3"


@pytest.mark.parametrize(
    ("over", "key"),
    [
        ("optimizer.config.lrr=1,2", "optimizer.config.lrr"),
        ("common.seed=", "common.seed="),
        ("optimizer.config.lr=1e-3,abc", "abc"),
        ("dataset.speed_factors=[0.9", "bracket"),
    ],
)
def test_a_fault_of_the_values_is_found_before_a_run_starts(
    tmp_path: Path, over: str, key: str
) -> None:
    request = Request(output_dir=tmp_path / "out", config_files=DEMO)
    with pytest.raises(ConfigError, match=key.replace("[", r"\[")):
        run_sweep(request, [over])
    for only in ("0", "3", "-1", "x", "1/1", "1/3", "/2"):  # the array is too short, or too long
        with pytest.raises(ConfigError, match=f"--only {only}: the sweep has 2 runs"):
            run_sweep(request, [RATES], only=only)
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").touch()
    with pytest.raises(DanishAsrError, match="out: cannot be written"):
        run_sweep(request, [RATES])


def test_a_run_is_named_by_its_values() -> None:
    speeds = "dataset.speed_factors=[],[0.9, 1.1]"
    runs = combinations([RATES, speeds, "dataset.train_where=age > 5,age < 5"])
    assert [*runs][:3] == [
        "lr_0.001__speed_factors___train_where_age-5",
        "lr_0.001__speed_factors___train_where_age-5-2",
        "lr_0.001__speed_factors_0.9-1.1__train_where_age-5",
    ]
    assert len(runs) == 8


@pytest.mark.parametrize(
    ("statuses", "only", "rates"),
    [
        ([2, 0], None, ["0.001", "0.002"]),
        ([2, 2], None, ["0.001", "0.002"]),
        ([0], "1", ["0.001"]),
        ([0], "2/2", ["0.002"]),
    ],
)
def test_each_run_gets_the_common_values_and_its_own_and_one_that_succeeds_is_enough(
    tmp_path: Path,
    dataset: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    statuses: list[int],
    only: str | None,
    rates: list[str],
) -> None:
    commands: list[list[str]] = []
    logs: list[str] = []

    def run(command: list[str], *, output: BinaryIO) -> tuple[int, None]:
        commands.append(command[3:])
        logs.append(output.name)
        return statuses[len(commands) - 1], None

    monkeypatch.setattr("danish_asr.planning.sweep.run_passing_on", run)
    out = tmp_path / "out"
    request = Request(
        output_dir=out, config_files=DEMO, overrides=["common.seed=5"], dataset=dataset
    )
    assert run_sweep(request, [RATES], only=only) is (0 in statuses)
    common = ["--config", str(DEMO[0]), "--dataset", str(dataset), "common.seed=5"]
    assert commands == [
        ["train", str(out / f"lr_{rate}"), *common, f"optimizer.config.lr={rate}"] for rate in rates
    ]
    assert logs == [str(out / f"lr_{rate}.log") for rate in rates]


@pytest.mark.parametrize(("status", "received"), [(EXIT_STOPPED, False), (1, True)])
def test_a_sweep_that_is_stopped_starts_no_other_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, received: bool
) -> None:
    answer = "danish_asr.planning.sweep.run_passing_on"
    monkeypatch.setattr(answer, lambda *_, **__: (status, received))
    request = Request(output_dir=tmp_path / "out", config_files=DEMO)
    with pytest.raises(SystemExit) as stop:
        run_sweep(request, [RATES])
    assert stop.value.code == EXIT_STOPPED
    assert len([*(tmp_path / "out").glob("*.log")]) == 1


def test_a_sweep_says_by_which_signal_a_run_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/bash\nkill -9 $$\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    assert not run_sweep(Request(output_dir=tmp_path / "out", config_files=DEMO), [RATES])
    assert capsys.readouterr().out.count(f"signal {signal.SIGKILL} (Killed), often") == 2


@pytest.mark.slow
def test_a_sweep_goes_on_after_a_failure_and_its_runs_learn_as_if_alone_and_only_once(
    tmp_path: Path,
    dataset: Path,
    finished_run: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each run is trained in this process, which has PyTorch already."""

    def train(command: list[str], **_: object) -> tuple[int, None]:
        words = [word.replace("--config", "--config-file") for word in command[4:]]
        return status_of(train_main, words), None

    monkeypatch.undo()  # here a model has values
    monkeypatch.setattr("danish_asr.planning.sweep.run_passing_on", train)
    out, run = tmp_path / "out", tmp_path / "out" / "train_split_train"
    args = [*arguments(out, dataset), "regime.save_model_only=true"]
    args += ["--over", "dataset.train_split=none,train"]
    sweep = partial(run_as_upstream, "sweep")
    assert status_of(sweep, args) == 0
    printed = capsys.readouterr().out
    assert "train_split_none: failed with status 2" in printed
    assert run.name in printed
    assert same_weights(run, finished_run)
    # Training again would give the same weights in new files.
    before = {file: file.stat().st_ino for file in run.rglob("*.pt")}
    assert status_of(sweep, args) == 0
    assert {file: file.stat().st_ino for file in run.rglob("*.pt")} == before
