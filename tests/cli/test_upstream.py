"""Upstream's command line of its recipes."""

from pathlib import Path
from typing import Any

import pytest

from danish_asr.cli.upstream import run_as_upstream
from danish_asr.recipe.entry import TRAIN, Request


@pytest.mark.parametrize(
    "line",
    [
        "run --config-file x.yaml --config-file y.yaml --config a=1 c=d --dataset . --dump-config",
        "run --dump-config --dataset=. --config-file=x.yaml --config-file=y.yaml --config=a=1 c=d",
    ],
)
def test_upstreams_command_line_asks_for_the_same(
    called: list[Any], monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    for arguments, own in ((line.split(), []), (None, line.split())):
        monkeypatch.setattr("sys.argv", ["recipe", *own])
        with pytest.raises(SystemExit) as end:
            run_as_upstream("train", arguments)
        assert not end.value.code
    request = Request(
        output_dir=Path("run"),
        config_files=[Path("x.yaml"), Path("y.yaml")],
        dataset=Path(),
        overrides=["a=1", "c=d"],
        dump_config=True,
    )
    assert called == [("run", TRAIN, request)] * 2
