"""Runs a function in new processes that have PyTorch and fairseq2, whose import takes seconds."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from multiprocessing import forkserver, get_context, resource_tracker, util
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from unittest.mock import patch

_FORKS = get_context("forkserver")

_IMPORTED = (
    *("danish_asr.recipe.train.training", "danish_asr.recipe.evaluate.recipe"),
    # A start of either imports them; the first one imports wandb, where it is installed.
    *("fairseq2.recipe.composition", "omnilingual_asr"),
)


def start_server() -> None:
    """Fork the server of new processes from this one, in which PyTorch has computed nothing yet.

    Once it has, its threads cannot be forked.
    """
    for name in _IMPORTED:
        import_module(name)
    resource_tracker.ensure_running()  # which is started, and not forked
    with patch.object(util, "spawnv_passfds", _serve):
        forkserver.ensure_running()


def _serve(_program: Any, _arguments: Any, passed: Sequence[int]) -> int:
    """Fork a server of `multiprocessing`, in place of a start; returns its number."""
    if process := os.fork():
        return process
    try:
        # The files of pytest, such as the pipes of pytest-xdist, which end with its worker, are
        # no longer open; their numbers stay taken.
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        nothing = os.open(os.devnull, os.O_RDWR)
        for file in {int(entry.name) for entry in Path("/proc/self/fd").iterdir()} - {0, 1, 2}:
            if file not in passed:
                os.dup2(nothing, file)
        forkserver.main(*passed, [])  # type: ignore[call-arg, arg-type] # as its stub has not
    finally:
        os._exit(1)


def in_processes(
    count: int,
    main: Callable[[list[str]], None],
    args: Sequence[str],
    *,
    status: int = 0,
    **env: str,
) -> str:
    """Run a function as `torchrun` would, in processes that end so; returns what they printed."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]  # noqa: PLC0415 - slow

    store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    env = {**os.environ, **env, "FAIRSEQ2_DEVICE": "cpu", "MASTER_ADDR": "localhost"}
    env |= {"MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    env |= dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(count))
    with NamedTemporaryFile("r", encoding="utf-8") as output:
        ranks = [dict.fromkeys(("RANK", "LOCAL_RANK"), str(rank)) for rank in range(count)]
        runs = [start(main, args, output.name, env | rank) for rank in ranks]
        left, seconds = {run.sentinel: run for run in runs}, 300
        while left and (ended := wait([*left], seconds)):
            # As torchrun would end the others, which may wait for ever.
            codes = [left.pop(sentinel).exitcode for sentinel in ended if isinstance(sentinel, int)]
            if codes != [status] * len(codes):
                seconds = 20
        for run in runs:
            run.kill()
            run.join()
        printed = output.read()
    assert [run.exitcode for run in runs] == [status] * count, printed
    return printed


def start(
    main: Callable[[list[str]], None], args: Sequence[str], output: str, env: Mapping[str, str]
) -> BaseProcess:
    """Start a new process of a function, which adds what it prints to a file."""
    process = _FORKS.Process(target=_in_process, args=(main, [*args], env, output))
    process.start()
    return process


def _in_process(
    main: Callable[[list[str]], None], args: list[str], env: Mapping[str, str], output: str
) -> None:
    os.environ.clear()
    os.environ.update(env)
    with Path(output).open("ab") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    main(args)
