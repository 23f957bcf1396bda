"""Failures while a run is running: a message with a hint, and status 1."""

import errno
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from pickle import UnpicklingError
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq2.assets import AssetDownloadError
from fairseq2.device import CPU
from fairseq2.error import OperationalError
from fairseq2.gang import FakeGang, GangError, Gangs, create_parallel_gangs
from fairseq2.io import TorchTensorDumper
from fairseq2.recipe.task import TaskStopException

from danish_asr.base import fairseq2_private
from danish_asr.base.errors import (
    EXIT_FAILED,
    EXIT_REFUSED,
    EXIT_STOPPED,
    ConfigError,
    DanishAsrError,
    DatasetError,
    RunError,
    RunFailedError,
)
from danish_asr.base.stops import STOP_SIGNALS
from danish_asr.recipe.config.training_sections import TrainerSection
from danish_asr.recipe.run.run import FAILED, Run
from danish_asr.recipe.train import ending
from danish_asr.recipe.train.criterion import AsrTrainUnit
from danish_asr.recipe.train.ending import (
    StoppableTask,
    close_in_time,
    exit_on_error,
    explained,
    in_words,
    noted,
    on_stop_signals,
)
from tests.failing import MESSAGE, run_with_error
from tests.forks import in_processes
from tests.running import arguments, train


def test_a_closed_terminal_stops_a_run_unless_it_was_started_with_nohup() -> None:
    code = "from danish_asr.base.stops import STOP_SIGNALS; print(*map(int, STOP_SIGNALS))"
    for handler, stops in ((signal.SIG_DFL, True), (signal.SIG_IGN, False)):
        started = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            preexec_fn=partial(signal.signal, signal.SIGHUP, handler),
        )
        assert (str(int(signal.SIGHUP)) in started.stdout.split()) == stops


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_each_stop_signal_requests_a_stop_and_a_second_ctrl_c_interrupts(
    number: signal.Signals, logged: list[str]
) -> None:
    requests: list[None] = []
    before = signal.getsignal(number)
    with on_stop_signals(lambda: requests.append(None)):
        signal.raise_signal(number)
        assert len(requests) == 1
        if number != signal.SIGINT:
            signal.raise_signal(signal.SIGINT)  # the first one
            assert len(requests) == 2
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert logged[0].startswith(f"{number.name} received")
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), None),
        (OperationalError("A system error occurred."), OSError(errno.EDQUOT, "quota")),
        (RuntimeError("PytorchStreamWriter failed writing file data.pkl"), None),
        # fairseq2 takes a checkpoint that torch could not write for one that cannot be pickled.
        (OperationalError("not a pickleable object"), RuntimeError("unexpected pos 3 vs 2")),
    ],
)
def test_a_full_disk_is_named(error: Exception, cause: Exception | None) -> None:
    """TRAPS, training: a full quota ends the job without a message."""
    with pytest.raises(RunFailedError, match="disk or quota is full"), explained():
        raise error from cause


@pytest.mark.parametrize(
    "cause",
    [
        GangError("all_reduce failed"),
        torch.distributed.DistBackendError("NCCL communicator was aborted"),
        RuntimeError("[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:535] Read error"),
    ],
)
def test_a_lost_process_is_named(cause: Exception) -> None:
    """TRAPS, training: the others show a traceback, and nobody sees the message of the first."""
    with pytest.raises(RunFailedError, match=FAILED), explained():
        raise OperationalError("A gang operation failed.") from cause


class RefusedError(Exception):
    """An error of fairseq2 that is no bug of it."""

    __module__ = "fairseq2.recipe.refused"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (torch.cuda.OutOfMemoryError("CUDA out of memory"), "max_num_elements"),
        (AssetDownloadError("300m", "model", "no network"), "danish-asr fetch"),
        (RefusedError("no such device"), "^no such device$"),
    ],
)
def test_a_failure_that_a_user_can_mend_is_said_without_a_traceback(
    error: Exception, said: str
) -> None:
    with pytest.raises(RunFailedError, match=said), explained():
        raise error


def test_a_message_is_of_300_letters_or_the_name_of_its_error() -> None:
    assert in_words(ZeroDivisionError()) == "ZeroDivisionError"
    assert len(in_words(ValueError("a " * 400))) <= 300
    assert in_words(UnpicklingError("GLOBAL os.system")) == "the file holds code, os.system"


def test_recorders_that_do_not_end_within_a_minute_are_left(
    logged: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = "danish_asr.base.stops.ends_in_time"
    for own, lines in ((59.9, 0), (60, 1)):
        monkeypatch.setattr(place, lambda _, most, own=own: own < most)
        close_in_time(lambda: None)
        assert len(logged) == lines


def test_the_first_fix_of_a_chain_is_given_and_each_message_once() -> None:
    disk = OSError(errno.ENOSPC, "No space left on device")
    disk.__cause__ = GangError("failed")  # has a fix too
    with pytest.raises(RunFailedError) as caught, explained():
        raise OperationalError("failed") from disk
    lines = str(caught.value).splitlines()
    assert [line.removeprefix("  because: ") for line in lines[:-1]] == ["failed", str(disk)]
    assert "free some space" in lines[-1]
    with pytest.raises(RunFailedError, match=r"^none$"), explained():
        raise DatasetError("none")


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (DatasetError("row 7"), "row 7\n"),
        (ZeroDivisionError("no frames"), "ZeroDivisionError: no frames"),
        (TaskStopException(), None),
    ],
)
@pytest.mark.parametrize("rank", [0, 1])
def test_the_first_process_that_fails_keeps_its_reason_over_that_of_an_earlier_start(
    tmp_path: Path, error: Exception, kept: str | None, rank: int
) -> None:
    file = tmp_path / FAILED
    file.write_text("earlier")
    with noted(tmp_path, rank):
        assert file.exists() == (rank == 1)  # the first process deletes it
    file.unlink(missing_ok=True)
    with pytest.raises(type(error)), noted(tmp_path, rank):
        raise error
    assert file.exists() == (kept is not None)
    if kept is not None:
        assert kept in file.read_text()
        before = file.read_text()
        with pytest.raises(ZeroDivisionError), noted(tmp_path, 1):
            raise ZeroDivisionError("later")
        assert file.read_text() == before


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (TaskStopException(), EXIT_STOPPED),
        (RunError("another run"), EXIT_REFUSED),
        (ConfigError(["a"]), EXIT_REFUSED),
        (RunFailedError("nan"), EXIT_FAILED),
        (ZeroDivisionError(), EXIT_FAILED),
    ],
)
@pytest.mark.parametrize("rank", ["0", "1"])
def test_an_error_has_a_status_and_is_printed_once_if_all_processes_find_it(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    logged: list[str],
    error: Exception,
    *,
    status: int,
    rank: str,
) -> None:
    monkeypatch.setenv("LOCAL_RANK", rank)
    with pytest.raises(SystemExit) as left, exit_on_error():
        raise error
    assert left.value.code == status
    by_all = rank == "1" and isinstance(error, ConfigError)
    printed = isinstance(error, DanishAsrError) and not by_all
    # The log prints too, if an earlier run of this process has configured it.
    assert capsys.readouterr().err.count(f"error: {error}\n") == int(printed)
    assert len(logged) == (not isinstance(error, DanishAsrError))


class Task(StoppableTask):
    def run(self) -> None:
        """Do nothing."""


def task_of(minutes: float | None = None, *, processes: int = 1) -> Task:
    """A task that has run for a minute."""
    watch = SimpleNamespace(get_elapsed_time=lambda: 60.0)
    context: Any = SimpleNamespace(
        gangs=create_parallel_gangs(FakeGang(CPU, size=processes)),
        resolver=SimpleNamespace(resolve=lambda _: watch),
    )
    return Task(context, TrainerSection(max_wall_minutes=minutes))


@pytest.mark.parametrize(("minutes", "late"), [(None, False), (1.0, True), (1.1, False)])
def test_a_run_stops_at_its_time_limit_or_a_request(minutes: float | None, *, late: bool) -> None:
    task = task_of(minutes)
    assert task.must_stop() is late
    task.request_stop()
    assert task.must_stop()
    assert task.step_nr == 0


@pytest.mark.parametrize("others", [0, 1])
def test_a_process_stops_if_another_must_and_one_alone_asks_nobody(
    monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    monkeypatch.setattr(ending, "all_sum", lambda _, here: torch.tensor(here + others))
    assert task_of(processes=2).must_stop() == bool(others)
    assert task_of(1.0, processes=2).must_stop()
    assert not task_of().must_stop()


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(errno.EACCES, "Permission denied", "lm/3gram.arpa"),
        EOFError("Ran out of input"),
        RuntimeError("PytorchStreamReader failed reading zip archive: no central directory"),
        OperationalError("a bug"),
        RunFailedError("nan"),
        TaskStopException(),
    ],
)
def test_any_other_error_stays_as_it_is(error: Exception) -> None:
    """A damaged download is not the newest checkpoint, nor a missing model a removed OUTDIR."""
    with pytest.raises(type(error)) as caught, explained():
        raise error
    assert caught.value is error


def test_a_second_ctrl_c_while_a_checkpoint_is_written_is_no_full_disk() -> None:
    error = RuntimeError("[enforce fail] . unexpected pos 162880 vs 162772")
    error.__context__ = KeyboardInterrupt()  # which came within torch's writer
    with pytest.raises(KeyboardInterrupt), explained():
        raise error


@pytest.mark.slow
@pytest.mark.parametrize(("rank", "place"), [("1", "step"), ("0", "validation")])
def test_a_process_that_fails_ends_the_run_while_a_checkpoint_is_written(
    tmp_path: Path, dataset: Path, rank: str, place: str
) -> None:
    """TRAPS, training: upstream's clean-up waits for processes that never come."""
    run, fails = tmp_path / "run", partial(run_with_error, rank, place, "train")
    args = arguments(run, dataset, "gang.timeout=1")
    printed = in_processes(2, fails, args, status=EXIT_FAILED)
    assert f"error: {MESSAGE}" in printed
    assert "Traceback" not in printed
    assert (run / FAILED).read_text() == f"{MESSAGE}\n"
    assert Run(run).steps == []


@pytest.mark.slow
def test_a_checkpoint_that_all_processes_have_written_outlives_the_error_of_one(
    tmp_path: Path, dataset: Path
) -> None:
    run, fails = tmp_path / "run", partial(run_with_error, "1", "reading", "train")
    args = arguments(run, dataset, "dataset.valid_split=null", "gang.timeout=1")
    printed = in_processes(2, fails, args, status=EXIT_FAILED)
    assert (MESSAGE in printed, FAILED in printed) == (True, True)
    assert Run(run).steps == [2]
    assert train(run, dataset, "dataset.valid_split=null") == 0


@pytest.mark.parametrize("parts", ["trainer model data_reader", "model"])
def test_a_checkpoint_is_published_only_if_each_process_has_written_its_last_file(
    tmp_path: Path, parts: str
) -> None:
    unpublished = tmp_path / "step_2.tmp"
    names = {"trainer": "rank", "model": "pp_00/tp_00/sdp", "data_reader": "dp"}
    gangs = create_parallel_gangs(FakeGang(CPU, size=2))
    gangs = replace(gangs, sdp=gangs.dp)
    for part in parts.split():
        for rank in (0, 1):
            assert not publishes(unpublished, gangs)
            file = unpublished / part / f"{names[part]}_0{rank}.pt"
            file.parent.mkdir(parents=True, exist_ok=True)
            torch.save({"weight": torch.zeros(99)}, file)
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    assert not publishes(unpublished, gangs)
    file.write_bytes(whole)
    assert publishes(unpublished, gangs)
    shutil.copytree(tmp_path / "step_2", unpublished)
    assert not publishes(unpublished, gangs)  # another process has done it


def publishes(unpublished: Path, gangs: Gangs) -> bool:
    fairseq2_private.publish_written(unpublished.parent, gangs)
    return not unpublished.exists() and unpublished.with_suffix("").is_dir()


@pytest.mark.slow
def test_a_process_that_fails_ends_an_evaluation(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    run = Path(shutil.copytree(finished_run, tmp_path / "run"))
    fails = partial(run_with_error, "1", "evaluation", "evaluate")
    args = arguments(run, dataset, "gang.timeout=1")
    printed = in_processes(2, fails, args, status=EXIT_FAILED)
    assert f"error: {MESSAGE}" in printed
    assert "Traceback" not in printed
    assert FAILED in printed  # as the other process says where the reason is


def test_one_process_that_fails_publishes_the_checkpoint_that_it_writes_and_keeps_the_reason(
    tmp_path: Path, dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, dump, process = tmp_path / "run", TorchTensorDumper.dump, AsrTrainUnit.process_batch
    steps: list[Any] = []

    def dump_slowly(*given: Any, **options: Any) -> None:
        time.sleep(0.3)
        dump(*given, **options)

    def fail_in_the_third_step(*given: Any) -> Any:
        steps.append(given)
        if len(steps) == 3:
            raise ZeroDivisionError("no frames")
        return process(*given)

    monkeypatch.setattr(TorchTensorDumper, "dump", dump_slowly)
    monkeypatch.setattr(AsrTrainUnit, "process_batch", fail_in_the_third_step)
    assert train(run, dataset, "dataset.valid_split=null") == EXIT_FAILED
    assert Run(run).steps == [2]
    assert "ZeroDivisionError: no frames" in (run / FAILED).read_text()
