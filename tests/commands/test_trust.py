"""Files of someone else: no code in them runs."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.running import evaluate, train


class Code:
    """Creates a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.marker),)


class Script(torch.nn.Module):
    """Creates a file when PyTorch loads it as TorchScript."""

    def __init__(self, marker: Path) -> None:
        super().__init__()
        self.marker = str(marker)

    @torch.jit.export
    def __getstate__(self) -> str:
        return self.marker

    @torch.jit.export
    def __setstate__(self, marker: str) -> None:
        self.marker = marker
        torch.save(torch.zeros(1), marker)


@pytest.fixture
def foreign(tmp_path: Path, finished_run: Path) -> Path:
    """A copy of a finished run; beside it, ``ran`` would be made by its code."""
    return shutil.copytree(finished_run, tmp_path / "foreign")


def put_code(run: Path, kind: str = "model", *, zipped: bool = True) -> None:
    """Replace all states of a kind by code, in PyTorch's form of today or in that of before 1.6."""
    code = {"weight": Code(run.with_name("ran"))}
    for file in run.glob(f"checkpoints/step_*/{kind}/**/*.pt"):
        torch.save(code, file, _use_new_zipfile_serialization=zipped)


def scored(run: Path, dataset: Path, _: Path) -> int:
    return evaluate(run, dataset)


def started_from(run: Path, dataset: Path, other: Path) -> int:
    return train(other, dataset, f"model={{path: {run}}}")


Use = Callable[[Path, Path, Path], int]


@pytest.mark.parametrize("use", [scored, started_from])
@pytest.mark.parametrize("restrict", ["", "restrict: false\n"])
def test_code_in_weights_is_refused_and_does_not_run(
    foreign: Path, dataset: Path, capsys: pytest.CaptureFixture[str], use: Use, restrict: str
) -> None:
    """TRAPS, names: a card with `restrict: false` makes fairseq2 run the code in a checkpoint."""
    put_code(foreign)
    for card in (foreign / "checkpoints" / "model.yaml", foreign / "cards" / "finished.yaml"):
        card.write_text(card.read_text() + restrict)
    status = use(foreign, dataset, foreign.with_name("other"))
    assert (status, foreign.with_name("ran").exists()) == (2 if restrict else 1, False)
    error = capsys.readouterr().err
    if restrict:
        assert "restrict: False" in error
    else:
        assert re.search(r"sdp_00\.pt .*\n(.*\n)?.*holds code, posix.mkdir", error)
    assert "weights_only" not in error


@pytest.mark.filterwarnings("ignore:.*TorchScript archive")
def test_a_run_whose_states_are_torchscript_does_not_continue(
    foreign: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = torch.jit.script(Script(foreign.with_name("ran")))
    file = foreign / "checkpoints" / "step_4" / "trainer" / "rank_00.pt"
    script.save(str(file))  # type: ignore[no-untyped-call]
    status = train(foreign, dataset, "regime.num_steps=6")
    assert (status, foreign.with_name("ran").exists()) == (1, False)
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize("use", [scored, started_from])
def test_only_a_run_that_continues_reads_more_than_weights(
    foreign: Path, dataset: Path, use: Use
) -> None:
    """TRAPS, names: fairseq2 unpickles the states of trainer, optimizer and data reader."""
    for kind in ("trainer", "optimizer", "data_reader"):
        put_code(foreign, kind)
    status = use(foreign, dataset, foreign.with_name("other"))
    assert (status, foreign.with_name("ran").exists()) == (0, False)


@pytest.mark.parametrize(
    ("kind", "zipped"),
    [("trainer", True), ("trainer", False), ("optimizer", True), ("data_reader", True)],
)
def test_a_run_whose_states_hold_code_does_not_continue(
    foreign: Path, dataset: Path, capsys: pytest.CaptureFixture[str], kind: str, zipped: bool
) -> None:
    """TRAPS, names: fairseq2 unpickles the states of trainer, optimizer and data reader."""
    put_code(foreign, kind, zipped=zipped)
    status = train(foreign, dataset, "regime.num_steps=6")
    assert (status, foreign.with_name("ran").exists()) == (1, False)
    error = capsys.readouterr().err
    assert re.search(rf"step_4/{kind}/.*\.pt .*\n(.*\n)?.*holds code, posix.mkdir", error)
    assert f"model.path={foreign / 'checkpoints' / 'step_4'}" in error
