from __future__ import annotations

import os

import pytest

from danish_asr.cpus import usable_cpus


@pytest.mark.parametrize(("processes", "share"), [("1", 1), ("2", 2), ("1000", None), ("x", 1)])
def test_the_granted_cpus_are_shared_between_the_processes_of_a_node(
    monkeypatch: pytest.MonkeyPatch, processes: str, share: int | None
) -> None:
    # Upstream starts 20 + 30 + 10 threads whatever the job was given (TRAPS).
    monkeypatch.setenv("LOCAL_WORLD_SIZE", processes)
    granted = len(os.sched_getaffinity(0))

    assert usable_cpus() == (max(1, granted // share) if share else 1)
