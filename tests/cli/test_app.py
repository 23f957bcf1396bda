"""The ``danish-asr`` command as its users see it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from danish_asr.cli import main
from danish_asr.cli.app import app
from danish_asr.cli.upstream import run_as_upstream
from danish_asr.planning.gpus import card_of
from danish_asr.recipe import entry as cli
from danish_asr.recipe.config.keys import defaults, near_keys
from danish_asr.scoring.predictions import write_predictions
from tests.score_rows import four_rows


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_predictions(tmp_path / "a.jsonl", four_rows())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _run(*arguments: str) -> str:
    return CliRunner().invoke(app, arguments, catch_exceptions=False).output


def test_train_and_evaluate_take_files_and_values_or_continue_the_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(cli, "run", lambda *arguments: asked.append(arguments))
    _run("train", "run", "a.b=1", "-c", "x.yaml", "--config", "y.yaml", "c=d e")
    files = [Path("x.yaml"), Path("y.yaml")]
    new = cli.Request(output_dir=Path("run"), config_files=files, overrides=["a.b=1", "c=d e"])
    (folder / "run").mkdir()
    (folder / "run" / "config.yaml").touch()
    _run("evaluate", "run")
    own = cli.Request(output_dir=Path("run"), run_config=Path("run/config.yaml"))
    assert asked == [(cli.TRAIN, new), (cli.EVALUATE, own)]
    assert "KEY=VALUE comes after OUTDIR" in _run("train", "regime.num_steps=3")
    assert "holds no run yet" in _run("evaluate", "new")


@pytest.mark.usefixtures("folder")
def test_upstreams_command_line_asks_for_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(cli, "run", lambda *arguments: asked.append(arguments))
    lines = [
        "run --config-file x.yaml --config-file y.yaml --config a=1 c=d --dataset . --dump-config",
        "run --dump-config --dataset=. --config-file=x.yaml --config-file=y.yaml --config=a=1 c=d",
    ]
    for line in lines:
        with pytest.raises(SystemExit) as end:
            run_as_upstream("evaluate", line.split())
        assert not end.value.code
    request = cli.Request(
        output_dir=Path("run"),
        config_files=[Path("x.yaml"), Path("y.yaml")],
        dataset=Path(),
        overrides=["a=1", "c=d"],
        dump_config=True,
    )
    assert asked == [(cli.EVALUATE, request)] * 2


def _built(root: Path) -> Path:
    """A directory with all that names a dataset."""
    root.mkdir()
    empty = {"source_rows": 0, "dropped": [], "suspects": {}, "summary": [], "shards": []}
    texts = dict.fromkeys(("source", "key", "ledger_sha256", "suspects_sha256"), "")
    (root / "manifest.json").write_text(json.dumps({"name": root.name, **empty, **texts}))
    return root


@pytest.mark.parametrize(
    ("command", "card", "names"),
    [
        ("train new", None, ["demo"]),
        ("train new", "12GB", ["standard", "lean"]),
        ("train new", "a100-40", ["standard", "a100"]),
        ("plan", "rtx3090", ["standard"]),
        ("plan --gpu h100", None, ["standard", "a100-80"]),
        ("sweep new --over common.seed=1,2", "a10", ["standard", "lean"]),
    ],
)
def test_a_dataset_without_a_configuration_takes_the_preset_of_the_gpu_and_says_which(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: str, card: str | None, names: list[str]
) -> None:
    asked: list[Any] = []

    def ask(*arguments: Any, **_: Any) -> bool:
        asked.extend(argument for argument in arguments if isinstance(argument, cli.Request))
        return True

    monkeypatch.setattr("danish_asr.planning.gpus.here", lambda: card and card_of(card))
    monkeypatch.setattr(cli, "run", ask)
    monkeypatch.setattr("danish_asr.planning.sweep.run_sweep", ask)
    monkeypatch.setattr("danish_asr.planning.plan.show_plan", ask)
    monkeypatch.setattr("danish_asr.report.runs.report_runs", ask)
    output = _run(*command.split(), "--dataset", str(_built(folder / "mine")))
    (request,) = asked
    assert request.config_files == [Path("configs", f"{name}.yaml") for name in names]
    assert all(str(file) in output for file in request.config_files)


def test_train_describes_the_keys_of_a_section_or_names_the_sections() -> None:
    output = _run("train", "--help-keys", "masking")
    keys = re.findall(r"(?m)^(\S+)  \(", output)
    assert keys == [key for key in defaults() if key.startswith("masking.")]
    assert "default: null" in output
    assert "dataset" in _run("train", "--help-keys", "masks")


@pytest.mark.parametrize("name", ["beta_corpus", "dataset.beta_corpus", "datset"])
def test_an_unknown_key_is_answered_with_those_it_may_mean(name: str) -> None:
    meant = "dataset" if name == "datset" else "dataset.mixture_parquet_storage_config.beta_corpus"
    assert meant in near_keys(name)


def _commands(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    yield path, group
    for name, below in getattr(group, "commands", {}).items():
        yield from _commands(below, f"{path} {name}".strip())


COMMANDS = dict(_commands(get_command(app)))


HELP = """
import runpy, sys
sys.argv[1:] = ["-h"]
try:
    runpy.run_module("{}", run_name="__main__")
except SystemExit:
    pass
sys.exit(", ".join({{"torch", "pyarrow", "matplotlib", "pandas"}} & sys.modules.keys()) or 0)
"""


@pytest.mark.parametrize("path", [*COMMANDS])
def test_help_has_examples_that_parse(path: str) -> None:
    output = _run(*path.split(), "-h")
    examples = re.findall(r"\$ danish-asr (.*?) *\n", output)
    assert examples or hasattr(COMMANDS[path], "commands")
    for example in examples:
        name = path or example
        assert example.startswith(name)
        COMMANDS[name].make_context(name, shlex.split(example.removeprefix(name)))


def test_help_loads_nothing_heavy() -> None:
    for module in ("danish_asr", "workflows.recipes.wav2vec2.asr.eval.recipe"):
        program = HELP.format(module)
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("score none.jsonl", "none.jsonl: no such file"),
        ("compare . a.jsonl", "no evaluation in this directory; `danish-asr evaluate"),
        ("score a.jsonl --profile corl", "coral, danish, plain, raw, rye"),
        ("compare a.jsonl", "the list of runs has one fault:"),
        ("score a.jsonl --columns text=x,id", "expected NAME=COLUMN, NAME of id, reference"),
        ("verify none", "none: no such folder"),
    ],
)
def test_an_error_is_a_message_and_a_status(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: str,
    message: str,
) -> None:
    monkeypatch.setattr(sys, "argv", ["danish-asr", *arguments.split()])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1
    assert message in capsys.readouterr().err
    assert not (folder / "scores.json").exists()


@pytest.mark.parametrize(
    ("sink", "status", "message"),
    # Whether a pipe is closed before the last line is a matter of time.
    [("> /dev/full", 1, "danish-asr: the output: No space left on device"), ("| head -1", 0, "")],
)
def test_what_cannot_be_printed_is_written(
    folder: Path, sink: str, status: int, message: str
) -> None:
    command = f"{shlex.quote(sys.executable)} -m danish_asr score a.jsonl --out s.json {sink}"
    script = f"set -o pipefail; {command}"
    ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == status
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr
    assert (folder / "s.json").is_file()


@pytest.mark.parametrize(
    ("name", "used"),
    [("OTHER", "expandable_segments:True"), ("PYTORCH_CUDA_ALLOC_CONF", "mine")],
)
def test_segments_of_gpu_memory_grow_unless_the_user_says_otherwise(
    name: str, used: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "")  # so that the value before comes back
    monkeypatch.delenv("PYTORCH_CUDA_ALLOC_CONF")
    monkeypatch.setenv(name, "mine")
    module = SimpleNamespace(run=lambda *_: None)
    monkeypatch.setattr(cli, "import_module", lambda _: module)
    cli.run(cli.TRAIN, cli.Request(output_dir=None, overrides=["dataset.name=d"]))
    assert os.environ["PYTORCH_CUDA_ALLOC_CONF"] == used
