"""Where a process of an LSF job stands, and what it takes to say so."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import pytest
from fairseq2.cluster import ClusterResolver

from danish_asr.cluster.hosts import (
    LOCAL_PORTS,
    ClusterError,
    hosts,
    master_port,
    node_of,
    slots,
)
from danish_asr.cluster.lsf import READ, LsfHandler, Place, place, standing
from tests.fairseq2_context import fairseq2_context

JOB = {"LSB_JOBID": "4711"}
TWO_HOSTS = {**JOB, "LSB_MCPU_HOSTS": "n-1 4 n-2 4"}
VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Ranks(NamedTuple):
    """The first fields of a `Place`."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int


def test_slots_come_from_any_of_lsfs_lists(tmp_path: Path) -> None:
    file, empty = tmp_path / "hosts", tmp_path / "empty"
    file.write_text("n-1\nn-1\nn-2\n")
    empty.touch()
    expected = ["n-1", "n-1", "n-2"]
    assert slots({"LSB_DJOB_HOSTFILE": str(file), "LSB_HOSTS": "other"}) == expected
    assert slots({"LSB_DJOB_HOSTFILE": str(empty), "LSB_MCPU_HOSTS": "n-1 2 n-2 1"}) == expected
    assert slots({"LSB_MCPU_HOSTS": "n-1 2 n-2 1"}) == expected
    assert slots({"LSB_HOSTS": "n-1 n-1 n-2"}) == expected
    assert slots({}) == []


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ("n-1 n-1 n-2", ["n-1", "n-2"]),
        ("n-2 n-1 n-2 n-1", ["n-2", "n-1"]),
        ("n-1.site.dk n-1 n-2", ["n-1.site.dk", "n-2"]),
        ("10.0.0.1 10.0.0.2 10.0.0.1", ["10.0.0.1", "10.0.0.2"]),
    ],
)
def test_a_host_that_is_listed_twice_is_one_host(listed: str, expected: list[str]) -> None:
    assert hosts({"LSB_HOSTS": listed}) == expected


@pytest.mark.parametrize(
    ("this_host", "task", "node"),
    [("n-2.site.dk", None, 1), ("n-3", "1", 2), ("elsewhere", "1", 1), ("elsewhere", "2", 2)],
)
def test_a_host_knows_which_one_it_is_by_its_name_or_by_its_task(
    this_host: str, task: str | None, node: int
) -> None:
    assert node_of(["n-1", "n-2", "n-3"], this_host, task) == node


@pytest.mark.parametrize("task", [None, "0", "3", "one"])
def test_a_host_that_cannot_know_which_one_it_is_says_so(task: str | None) -> None:
    with pytest.raises(ClusterError, match=r"this is elsewhere, .* from 1 to 2, is"):
        node_of(["n-1", "n-2", "n-3"], "elsewhere", task)


@pytest.mark.parametrize(
    ("variables", "cluster", "expected"),
    [
        ({}, "auto", (0, 1)),
        ({**TWO_HOSTS, "RANK": "3", "WORLD_SIZE": "4"}, "auto", (3, 4)),
        ({**TWO_HOSTS, "CUDA_VISIBLE_DEVICES": "0", "LSF_PM_TASKID": "2"}, "auto", (1, 2)),
        ({**TWO_HOSTS, "CUDA_VISIBLE_DEVICES": "0", "LSF_PM_TASKID": "2"}, "lsf", (1, 2)),
        ({**TWO_HOSTS, "LSF_PM_TASKID": "2"}, "none", (0, 1)),
        ({"SLURM_PROCID": "5", "SLURM_NTASKS": "8"}, "auto", (5, 8)),
    ],
)
def test_a_process_knows_its_rank_before_fairseq2_does(
    variables: dict[str, str], cluster: str, expected: tuple[int, int]
) -> None:
    assert standing(cluster, variables) == expected


@pytest.mark.parametrize(
    ("task", "gpus", "this_host", "ranks"),
    [
        ("1", "0,1", "n-1", Ranks(0, 4, 0, 2)),
        ("2", "0,1", "n-1.cluster.dk", Ranks(1, 4, 1, 2)),
        ("3", "0,1", "n-2", Ranks(2, 4, 0, 2)),
        ("4", "0,1", "elsewhere", Ranks(3, 4, 1, 2)),
        ("2", "0", "n-2", Ranks(1, 2, 0, 1)),
        ("5", "", "n-2", Ranks(4, 8, 0, 4)),
    ],
)
def test_a_process_that_blaunch_started_has_a_place(
    task: str, gpus: str, this_host: str, ranks: Ranks
) -> None:
    variables = {**TWO_HOSTS, "LSF_PM_TASKID": task, "CUDA_VISIBLE_DEVICES": gpus}
    assert place(variables, this_host) == Place(*ranks, "n-1", master_port(JOB))


def test_a_lone_process_is_a_world_of_its_own() -> None:
    variables = {**JOB, "LSB_HOSTS": "n-1 n-1 n-1 n-1", "CUDA_VISIBLE_DEVICES": "3"}
    assert place(variables, "n-1") == Place(0, 1, 0, 1, "localhost", master_port(JOB))


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (JOB, "none of LSB_DJOB_HOSTFILE, LSB_MCPU_HOSTS, LSB_HOSTS names a host"),
        ({**JOB, "LSB_DJOB_HOSTFILE": "/no/file"}, "LSB_DJOB_HOSTFILE is /no/file, which cannot"),
        ({**JOB, "LSB_MCPU_HOSTS": "n-1 4 n-2"}, "LSB_MCPU_HOSTS must hold hosts and numbers"),
        (TWO_HOSTS, "LSF_PM_TASKID is missing, .* on 2 hosts"),
        (
            {**JOB, "LSB_HOSTS": "n-1 n-1", "CUDA_VISIBLE_DEVICES": "0,1"},
            "CUDA_VISIBLE_DEVICES lists 2 GPUs, but LSF_PM_TASKID is missing",
        ),
        ({**TWO_HOSTS, "LSF_PM_TASKID": "9"}, "LSF_PM_TASKID must be from 1 to 8.*but is '9'"),
        ({**TWO_HOSTS, "LSF_PM_TASKID": "one"}, "LSF_PM_TASKID must be .*but is 'one'"),
        (
            {**TWO_HOSTS, "LSF_PM_TASKID": "2", "CUDA_VISIBLE_DEVICES": "0,1"},
            "LSF_PM_TASKID=2 belongs on n-1 when each host runs 2 processes, but this is n-2",
        ),
        ({"LSB_JOBID": "many", "LSB_HOSTS": "n-1"}, "LSB_JOBID, and .*must be numbers"),
        ({**JOB, "LSB_HOSTS": "n-1", "MASTER_PORT": "a"}, "MASTER_PORT must be a number"),
    ],
)
def test_what_does_not_decide_a_place_is_named(variables: dict[str, str], message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        place(variables, "n-2")


def test_the_port_is_the_jobs_and_may_be_given() -> None:
    ports = [master_port({"LSB_JOBID": "7", "LSB_JOBINDEX": str(i)}) for i in range(100)]
    assert len(set(ports)) == 100
    assert set(ports) <= set(LOCAL_PORTS)
    assert master_port({"LSB_JOBID": "7", "MASTER_PORT": "29500"}) == 29500


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> ClusterResolver:
    """fairseq2's clusters, in an environment that belongs to none."""
    for name in (*VARIABLES, *READ, "SLURM_PROCID"):
        # Set first, so that what the handler sets is taken back when the test ends.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return fairseq2_context().resolve(ClusterResolver)


def test_fairseq2_finds_lsf_by_itself_in_a_job(
    clusters: ClusterResolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LSB_JOBID", "4711")
    monkeypatch.setenv("LSB_HOSTS", "n-1 n-1")
    monkeypatch.setenv("LSF_PM_TASKID", "2")
    handler = clusters.resolve("auto")
    assert isinstance(handler, LsfHandler)
    handler.set_torch_distributed_env_variables()
    assert [os.environ[name] for name in VARIABLES[:5]] == ["1", "2", "1", "2", "localhost"]


def test_outside_a_job_there_is_no_lsf(clusters: ClusterResolver) -> None:
    assert clusters.resolve("auto").cluster == "none"
    with pytest.raises(ClusterError, match=r"common\.cluster is lsf, but LSB_JOBID is not set"):
        clusters.resolve("lsf").set_torch_distributed_env_variables()


def test_what_torchrun_says_goes_before_lsf(
    clusters: ClusterResolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LSB_JOBID", "4711")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert clusters.resolve("auto").cluster == "none"
