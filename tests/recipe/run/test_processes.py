"""A run that continues with another number of processes."""

from pathlib import Path

import pytest

from danish_asr.base.errors import RunError
from danish_asr.recipe.run.processes import check_processes, fit_to_processes
from danish_asr.recipe.run.run import Run


def saved_by(run: Path, processes: int, *, sharded: bool = False) -> Path:
    """Give the checkpoint of step 2 the files of so many processes."""
    step = run / "checkpoints" / "step_2"
    for rank in range(processes):
        parts = ["trainer/rank", "data_reader/dp"]
        parts += ["model/pp_00/tp_00/sdp"] if sharded or rank == 0 else []
        for part in parts:
            file = step / f"{part}_0{rank}.pt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{part} {rank}")
    return step


def test_more_processes_take_the_state_of_the_first_and_fewer_leave_the_rest(run: Path) -> None:
    fit_to_processes(Run(run), 3)
    step = saved_by(run, 2)
    assert not (step / "trainer" / "rank_02.pt").exists()
    for processes in (1, 3):
        fit_to_processes(Run(run), processes)
        for part in ("trainer/rank", "data_reader/dp"):
            files = sorted(step.glob(f"{part}_*.pt"))
            saved = [f"{part} {number}" for number in (0, 1, 0)]
            assert [file.read_text() for file in files] == saved[: max(processes, 2)]


def test_a_sharded_run_continues_with_its_processes_and_another_says_what_a_step_takes(
    run: Path,
) -> None:
    assert check_processes(Run(run), 4) is None
    saved_by(run, 2)
    assert check_processes(Run(run), 2) is None
    assert "num_batches is 0.5 times" in str(check_processes(Run(run), 4))
    saved_by(run, 2, sharded=True)
    assert check_processes(Run(run), 2) is None
    with pytest.raises(RunError, match="Continue with 2"):
        check_processes(Run(run), 4)
