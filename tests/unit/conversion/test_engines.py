from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path

import pytest

from danish_asr.conversion.convert import convert
from danish_asr.conversion.engines import run_on_ray
from danish_asr.conversion.shard import Job, Record
from danish_asr.conversion.work_units import ConvertOptions, Unit, plan_work
from danish_asr.errors import ConfigError, DanishAsrError, MissingExtraError, SourceError
from danish_asr.sources import open_source
from tests.builders import build_source, tree

OPTIONS = ConvertOptions(shard_rows=8)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")
def test_ray_makes_the_same_bytes_and_tells_the_same_errors(tmp_path: Path) -> None:
    source = open_source(str(build_source(tmp_path / "in", train=40)))
    convert(source, tmp_path / "here", name="tiny", options=OPTIONS)
    on_ray = partial(run_on_ray, address=None, workers=2)
    convert(source, tmp_path / "ray", name="tiny", options=OPTIONS, engine=on_ray)
    assert tree(tmp_path / "ray") == tree(tmp_path / "here")

    units = plan_work(source, OPTIONS).units
    job = Job(source=source, root=tmp_path / "broken", options=OPTIONS)
    for file in (tmp_path / "in").rglob("*.parquet"):
        file.unlink()
    with pytest.raises(SourceError, match="was there when the conversion began, and is gone"):
        list(on_ray(job, units))


class DeadlyJob(Job):
    def convert(self, unit: Unit) -> Record:
        os.kill(os.getpid(), signal.SIGKILL)
        return super().convert(unit)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")
def test_a_killed_worker_of_ray_is_told(tmp_path: Path) -> None:
    source = open_source(str(build_source(tmp_path / "in")))
    job = DeadlyJob(source=source, root=tmp_path / "ds", options=OPTIONS)
    units = plan_work(source, OPTIONS).units[:1]
    with pytest.raises(DanishAsrError, match=r"has lost what it was working on \(.*run the same"):
        list(run_on_ray(job, units, address=None, workers=1))


def test_ray_is_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    job = Job(source=open_source(str(build_source(tmp_path))), root=tmp_path, options=OPTIONS)
    with pytest.raises(MissingExtraError, match=r"--engine ray needs the extra 'ray': pip install"):
        list(run_on_ray(job, [], address=None, workers=1))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("address", ["auto", "127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:99999"])
def test_an_address_without_a_cluster_is_told_soon(tmp_path: Path, address: str) -> None:
    job = Job(source=open_source(str(build_source(tmp_path))), root=tmp_path, options=OPTIONS)
    with pytest.raises(ConfigError, match=rf"--address: no Ray cluster answers at {address} \("):
        list(run_on_ray(job, [], address=address, workers=1))
