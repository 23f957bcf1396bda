"""Runs a function in new processes that have PyTorch and fairseq2, whose import takes seconds."""

import os
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import NamedTemporaryFile

_FORKS = get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        *("danish_asr.recipe.train.training", "danish_asr.recipe.evaluate.recipe"),
        # A start of either imports them; the first one imports wandb, where it is installed.
        *("fairseq2.recipe.composition", "omnilingual_asr"),
    ]
)


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
