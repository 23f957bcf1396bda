"""A run that continues with another number of processes."""

from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

from danish_asr.base.errors import RunError
from danish_asr.base.files import publish
from danish_asr.base.values_pickle import load_values
from danish_asr.recipe.run import processes
from danish_asr.recipe.run.processes import check_processes, fit_to_processes
from danish_asr.recipe.run.run import Run


def saved_by(run: Path, number: int, *, sharded: bool = False) -> Path:
    """Give the checkpoint of step 2 the files of so many processes."""
    step = run / "checkpoints" / "step_2"
    for rank in range(number):
        parts = ["data_reader/dp"]
        parts += ["model/pp_00/tp_00/sdp"] if sharded or rank == 0 else []
        for part in parts:
            file = step / f"{part}_0{rank}.pt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{part} {rank}")
        counts = {"total_num_examples": {"weighted_sum": torch.tensor(10.0 + rank)}, "loss": {}}
        state = {"_rng_bag": rank, "_metric_bag": counts}
        torch.save(state, step / "trainer" / f"rank_0{rank}.pt", pickle_protocol=5)
    return step


def test_more_processes_take_the_state_of_the_first_which_has_the_counts_of_all(run: Path) -> None:
    fit_to_processes(Run(run), 3)
    step = saved_by(run, 2)
    assert not (step / "trainer" / "rank_02.pt").exists()
    # The files of processes that are gone stay, and have counted nothing.
    for number, ranks in ((1, [0, 1]), (3, [0, 1, 0])):
        fit_to_processes(Run(run), number)
        states = [load_values(file) for file in sorted(step.glob("trainer/*.pt"))]
        assert [state["_rng_bag"] for state in states] == ranks
        counted = [state["_metric_bag"]["total_num_examples"]["weighted_sum"] for state in states]
        assert counted == [21, *[0] * (len(ranks) - 1)]
        readers = [file.read_text() for file in sorted(step.glob("data_reader/*.pt"))]
        assert readers == [f"data_reader/dp {rank}" for rank in ranks]


@pytest.mark.parametrize("written", range(4))
def test_a_kill_while_a_run_is_fitted_to_more_processes_is_made_good_by_the_next_start(
    written: int, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, files = saved_by(run, 1), count()

    def publish_or_die(file: Path) -> Any:
        if next(files) == written:
            raise KeyboardInterrupt
        return publish(file)

    with monkeypatch.context() as patch:
        patch.setattr(processes, "publish", publish_or_die)
        with pytest.raises(KeyboardInterrupt):
            fit_to_processes(Run(run), 3)
    fit_to_processes(Run(run), 3)
    for kind in ("data_reader", "trainer"):
        assert len([*(step / kind).glob("*_0[0-2].pt")]) == 3


def test_a_state_that_cannot_be_read_is_named(run: Path) -> None:
    file = saved_by(run, 2) / "trainer" / "rank_01.pt"
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(RunError, match=str(file)):
        fit_to_processes(Run(run), 3)


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
