from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path

import pytest

from danish_asr.conversion import ConvertOptions
from danish_asr.conversion.convert import convert
from danish_asr.conversion.engines import run_on_ray
from danish_asr.conversion.plan import ShardTask, plan_conversion
from danish_asr.conversion.shard import ConversionContext, Record
from danish_asr.errors import ConfigError, DanishAsrError, MissingExtraError, SourceError
from danish_asr.sources import open_source
from tests.builders import build_source, tree

OPTIONS = ConvertOptions(shard_rows=8)


def build_context(folder: Path) -> ConversionContext:
    source = open_source(str(build_source(folder / "in")))
    return ConversionContext(source=source, root=folder / "ds", options=OPTIONS)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")
def test_ray_makes_the_same_bytes_and_raises_the_same_errors(tmp_path: Path) -> None:
    source = open_source(str(build_source(tmp_path / "in", train=40)))
    convert(source, tmp_path / "here", name="tiny", options=OPTIONS)
    on_ray = partial(run_on_ray, address=None, workers=2)
    convert(source, tmp_path / "ray", name="tiny", options=OPTIONS, engine=on_ray)
    assert tree(tmp_path / "ray") == tree(tmp_path / "here")

    tasks = plan_conversion(source, OPTIONS).tasks
    context = ConversionContext(source=source, root=tmp_path / "broken", options=OPTIONS)
    for file in (tmp_path / "in").rglob("*.parquet"):
        file.unlink()
    with pytest.raises(SourceError, match="train-00000-of-00001"):
        list(on_ray(context, tasks))


class DeadlyContext(ConversionContext):
    def convert(self, task: ShardTask) -> Record:
        os.kill(os.getpid(), signal.SIGKILL)
        return super().convert(task)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")
def test_a_killed_worker_of_ray_is_reported(tmp_path: Path) -> None:
    source = open_source(str(build_source(tmp_path / "in")))
    context = DeadlyContext(source=source, root=tmp_path / "ds", options=OPTIONS)
    tasks = plan_conversion(source, OPTIONS).tasks[:1]
    with pytest.raises(DanishAsrError, match=r"lost a worker or a machine \(.*run the same"):
        list(run_on_ray(context, tasks, address=None, workers=1))


def test_ray_is_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    context = build_context(tmp_path)
    with pytest.raises(MissingExtraError, match=r"--engine ray needs the extra 'ray': pip install"):
        list(run_on_ray(context, [], address=None, workers=1))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("address", ["auto", "127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:99999"])
def test_an_address_without_a_cluster_is_refused_soon(tmp_path: Path, address: str) -> None:
    context = build_context(tmp_path)
    with pytest.raises(ConfigError, match=rf"--address: no Ray cluster answers at {address} \("):
        list(run_on_ray(context, [], address=address, workers=1))
