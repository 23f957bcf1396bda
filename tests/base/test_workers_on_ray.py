import os
import signal
import sys
from functools import partial
from pathlib import Path

import pytest

from danish_asr.base.errors import ConfigError, DanishAsrError, MissingExtraError, SourceError
from danish_asr.base.workers import run_on_ray
from danish_asr.corpus.convert import convert
from tests.builders import build_source, tree
from tests.corpora import options

on_ray = partial(run_on_ray, address="local", workers=2)


needs_ray = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")


@pytest.mark.slow
@needs_ray
def test_ray_makes_the_same_bytes(tmp_path: Path) -> None:
    source = build_source(tmp_path / "in", train=40)
    for name, ray in (("here", None), ("ray", "local")):
        convert(source, tmp_path / name, options(shard_rows=8, workers=2, ray=ray))
    assert tree(tmp_path / "ray") == tree(tmp_path / "here")


def fail(number: int) -> None:
    raise SourceError(f"{number} is missing")


def die(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.slow
@needs_ray
def test_errors_of_tasks_arrive_and_a_killed_worker_is_reported() -> None:
    with pytest.raises(SourceError, match="3 is missing"):
        list(on_ray(fail, [3]))
    with pytest.raises(DanishAsrError, match=r"lost a worker or a machine \(.*run the same"):
        list(on_ray(die, [int(signal.SIGKILL)]))


def test_ray_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"--ray needs the extra 'ray': pip install"):
        list(on_ray(fail, []))


@pytest.mark.slow
@needs_ray
@pytest.mark.parametrize("address", ["auto", "127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:99999"])
def test_an_address_without_a_cluster_is_refused_soon(address: str) -> None:
    with pytest.raises(ConfigError, match=rf"--ray: no Ray cluster answers at {address} \("):
        list(run_on_ray(fail, [], address=address, workers=1))
