from __future__ import annotations

import os
import socket

import pytest

from danish_asr.cluster.cpus import usable_cpus
from danish_asr.cluster.hosts import HOST_VARIABLES


@pytest.mark.parametrize(("processes", "share"), [("1", 1), ("2", 2), ("1000", None), ("x", 1)])
def test_the_granted_cpus_are_shared_between_the_processes_of_a_node(
    monkeypatch: pytest.MonkeyPatch, processes: str, share: int | None
) -> None:
    # Upstream starts 20 + 30 + 10 threads whatever the job was given (TRAPS).
    monkeypatch.setenv("LOCAL_WORLD_SIZE", processes)
    granted = len(os.sched_getaffinity(0))

    assert usable_cpus() == (max(1, granted // share) if share else 1)


@pytest.mark.parametrize(
    ("variables", "slots"),
    [
        ({"LSB_HOSTS": "{here}"}, 1),
        ({"LSB_MCPU_HOSTS": "elsewhere 900 {here} 1"}, 1),
        ({"LSB_HOSTS": "alias"}, 1),
        ({"LSB_HOSTS": "{here} " * 900}, None),
        ({"LSB_MCPU_HOSTS": "{here} many"}, None),
        ({}, None),
    ],
)
def test_slots_of_lsf_count_though_processes_are_not_bound_to_them(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], slots: int | None
) -> None:
    for name in ("LOCAL_WORLD_SIZE", *HOST_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LSB_JOBID", "1")
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(here=socket.gethostname()))
    assert usable_cpus() == min(slots or 1000, len(os.sched_getaffinity(0)))
