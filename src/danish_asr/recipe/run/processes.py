"""A run that continues with another number of processes than it was saved with."""

import shutil

from danish_asr.base.errors import RunError
from danish_asr.recipe.run.run import Run


def check_processes(run: Run, processes: int) -> str | None:
    """Return a note on another number of processes; RunError if the run cannot have it."""
    saved = _saved_ranks(run)
    if saved in {0, processes}:
        return None
    shards = len(list(run.at(run.last).weights.glob("pp_00/tp_00/sdp_*.pt")))
    if shards > 1:
        raise RunError(
            f"{run.folder} was saved by {saved} processes with the model sharded over {shards}; it "
            f"cannot continue with {processes}. Continue with {saved}, or start a new run."
        )
    return (
        f"the run was saved by {saved} processes and continues with {processes}. A step has as "
        f"much audio as before if trainer.grad_accumulation.num_batches is {saved / processes:g} "
        "times that of before"
    )


def fit_to_processes(run: Run, processes: int) -> None:
    """Let a run continue with more processes than it was saved with.

    fairseq2 saves and loads the state of the trainer and of the data reader once per process. The
    reader's position counts the batches of all processes, and only the random state of the trainer
    differs between them: new processes take the first one's.
    """
    folder, saved = run.at(run.last).folder, _saved_ranks(run)
    for rank in range(saved, processes if saved else 0):
        for state in ("trainer/rank", "data_reader/dp"):
            shutil.copyfile(folder / f"{state}_00.pt", folder / f"{state}_{rank:02d}.pt")


def _saved_ranks(run: Run) -> int:
    """The processes that saved the checkpoint that a run continues from; 0: there is none."""
    return len(list((run.at(run.last).folder / "trainer").glob("rank_*.pt")))
