"""A run that continues with another number of processes than it was saved with."""

from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from danish_asr.base.errors import RunError, refused_content
from danish_asr.base.files import publish
from danish_asr.recipe.run.continuing import way_on
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
    reader's position counts the batches of all processes. Of the trainer, the random state and what
    a process has counted differ: new processes take the first one's random state and have counted
    nothing, and the counts of those that are gone go to the first one, as the sum is reported.

    Raises:
        RunError: A state cannot be read.
    """
    import torch  # noqa: PLC0415 - slow

    folder, saved = run.at(run.last).folder, _saved_ranks(run)
    if saved in {0, processes}:
        return
    states = [_load(folder / "trainer" / f"rank_{rank:02d}.pt", run) for rank in range(saved)]
    counts = [state["_metric_bag"] for state in states]
    totals = {
        name: sum(own[name]["weighted_sum"] for own in counts)
        for name in counts[0]
        if name.startswith("total_")
    }
    for rank in range(saved, processes) if processes > saved else reversed(range(saved)):
        state = states[rank if rank < saved else 0]
        for name, total in totals.items():
            state["_metric_bag"][name]["weighted_sum"] = total if rank == 0 else total * 0
        if rank >= saved:
            with publish(folder / "data_reader" / f"dp_{rank:02d}.pt") as stream:
                stream.write((folder / "data_reader" / "dp_00.pt").read_bytes())
        # The last file of a process: with it, the process counts as one that has saved.
        with publish(folder / "trainer" / f"rank_{rank:02d}.pt") as stream:
            torch.save(state, stream, pickle_protocol=5)


def _load(file: Path, run: Run) -> dict[str, Any]:
    from danish_asr.base.values_pickle import load_values  # noqa: PLC0415 - slow

    try:
        return load_values(file)
    except (OSError, EOFError, LookupError, RuntimeError, ValueError, UnpicklingError) as error:
        reason = refused_content(error) if isinstance(error, UnpicklingError) else error
        raise RunError(f"{file} cannot be read ({reason}); {way_on(run)}") from error


def _saved_ranks(run: Run) -> int:
    """The processes that saved the checkpoint that a run continues from; 0: there is none."""
    return len(list((run.at(run.last).folder / "trainer").glob("rank_*.pt")))
