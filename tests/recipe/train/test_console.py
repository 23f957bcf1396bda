"""What a run prints of its metrics, its memory and fairseq2's own records."""

import json
import re
from collections.abc import Mapping, Sequence
from logging import INFO, WARNING, LogRecord
from pathlib import Path
from typing import Any

import pytest
import torch

from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.run.advice import LOSS
from danish_asr.recipe.train.console import RunReport, _Console, _is_for_users, step_line

WER = "Word Error Rate (WER)"
VALUES: dict[str, Any] = {
    "data_epoch": 2,
    "loss": torch.tensor(1.5),
    "chance": torch.tensor(9.0),
    "lr": [1e-3, 2e-3],
    "num_source_elements": torch.tensor(2 * 3 * 960_000),  # of two steps of three minutes
    "lapse_time": 6.0,
    "data_time": 2.0,
    "compute_time": 8.0,
}


def report(run: Path, num_steps: int | None = 10) -> RunReport:
    config = AsrConfig()
    config.regime.num_steps = num_steps
    return RunReport(run, config)


def test_a_line_has_the_time_and_the_audio_of_a_step_since_the_last_line_or_the_start(
    tmp_path: Path, logged: list[str]
) -> None:
    (tmp_path / "checkpoints" / "step_4" / "trainer").mkdir(parents=True)
    own = report(tmp_path)
    for step in (6, 7):
        own.record_metric_values("train", VALUES, step)
    loss = "epoch 2 | loss 1.500 (chance 9.0) | lr 2.0e-03"
    assert logged == [
        f"step 6/10 | {loss} | audio 3.00 min | 3.00 s/step | ETA 0:00:12",
        f"step 7/10 | {loss} | audio 6.00 min | 6.00 s/step | ETA 0:00:18",
    ]
    report(tmp_path, None).record_metric_values("train", {**VALUES, "lr": 1e-3}, 6)
    assert logged[2] == (
        "step 6 | epoch 2 | loss 1.500 (chance 9.0) | lr 1.0e-03 | audio 3.00 min | 3.00 s/step"
    )


@pytest.mark.parametrize(
    ("values", "step", "warning"),
    [
        ({}, 2, None),
        ({"data_time": 2.1}, 2, "21% of the time waits"),
        ({"peak_reserved_mem_ratio": 0.94}, 2, None),
        ({"peak_reserved_mem_ratio": 0.95}, 2, "dataset.asr_task_config.max_num_elements"),
        ({"loss": 50.0}, 2, "dataset.asr_task_config.normalize_audio"),
        ({"loss": 50.0}, 1, None),  # the first batch has its own warning
    ],
)
def test_waiting_for_data_a_full_gpu_and_a_loss_above_chance_are_warned_of(
    tmp_path: Path, logged: list[str], values: Mapping[str, Any], step: int, warning: str | None
) -> None:
    report(tmp_path).record_metric_values("train", {**VALUES, **values}, step)
    assert len(logged) == (1 if warning is None else 2)
    if warning is not None:
        assert logged[1].startswith("WARNING: ")
        assert warning in logged[1]


def write(run: Path, kind: str, rows: Sequence[Mapping[str, float]]) -> None:
    (run / "metrics").mkdir(exist_ok=True)
    (run / "metrics" / f"{kind}.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in rows))


def test_a_validation_is_compared_with_the_best_one_of_the_run(
    tmp_path: Path, logged: list[str]
) -> None:
    rows: list[dict[str, float]] = [
        {"Step": step, WER: rate, LOSS: 2.0}
        for step, rate in ((2, 30.0), (4, 20.0), (6, 25.0), (8, 26.0))
    ]
    write(tmp_path, "train", [{"Step": step, LOSS: 9.0 - step} for step in range(1, 11)])
    write(tmp_path, "valid", rows)
    own = report(tmp_path)
    own.record_metric_values("valid", {}, 8)
    text = "validation after step {} | dev loss {} | {} {:.2f} | best 20.00, of step 4"
    assert logged == [text.format(8, "2.000", WER, 26)]
    write(tmp_path, "valid", [*rows, {"Step": 10, WER: 27.0}])
    own.record_metric_values("valid", {}, 10)
    assert logged[1] == text.format(10, "none", WER, 27)
    assert "regime.early_stopping_patience" in logged[2]
    write(tmp_path, "valid", [{"Step": step, WER: 100.0} for step in range(5)])
    own.record_metric_values("valid", {}, 5)
    assert "optimizer.config.lr" in logged[-1]


def test_a_long_warm_up_is_named_at_the_start(tmp_path: Path, logged: list[str]) -> None:
    config = AsrConfig()
    config.regime.num_steps = 1_000
    RunReport(tmp_path, config)
    assert not logged
    config.lr_scheduler.config.stage_ratio = [0.5, 0.4, 0.1]
    RunReport(tmp_path, config)
    assert "lr_scheduler.config.stage_ratio" in logged[0]


def test_a_run_that_validates_more_than_it_saves_says_so_at_the_start(
    tmp_path: Path, logged: list[str]
) -> None:
    config = AsrConfig()
    config.regime.checkpoint_every_n_steps = 2_000
    RunReport(tmp_path, config)
    assert "regime.checkpoint_every_n_steps" in logged[0]
    config.regime.validate_every_n_steps = None
    RunReport(tmp_path, config)
    assert len(logged) == 1


def test_a_step_line_has_a_gpus_memory_in_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    assert step_line(1_200, 1.5, torch.device("cpu")) == "step 1,200: 1.50 s/step"
    sizes = {"max_memory_allocated": 2, "max_memory_reserved": 3}
    for name, size in sizes.items():
        monkeypatch.setattr(torch.cuda, name, lambda _, size=size: size << 30)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (5 << 30, 8 << 30))
    line = step_line(2, 1.5, torch.device("cuda:0"))
    assert "2.0 GiB used, 3.0 reserved, 5.0 free" in line


@pytest.mark.parametrize(
    ("name", "level", "message", "shown"),
    [
        ("fairseq2.danish_asr", INFO, "The stage begins", True),
        ("fairseq2", INFO, "Starting validation.", True),
        ("fairseq2", INFO, "Command Line", False),
        ("fairseq2", WARNING, "Command Line", True),
        ("fairseq2", WARNING, "`model.family` will be ignored", False),
    ],
)
def test_of_fairseq2s_records_warnings_and_a_few_lines_are_shown(
    name: str, level: int, message: str, *, shown: bool
) -> None:
    assert _is_for_users(LogRecord(name, level, "", 0, message, None, None)) is shown


def test_a_line_of_the_log_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    text = "[bold] of /data/:smile: " + "word " * 40 + "end"
    for level in (INFO, WARNING):
        _Console().emit(LogRecord("x", level, "", 0, text, None, None))
    plain, warning = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"[\d-]{10} [\d:]{8} " + re.escape(text), plain)
    assert warning.endswith(f" WARNING: {text}")
