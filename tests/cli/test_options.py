"""What the words of a command line become: arguments of the function that does the work."""

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args, get_origin

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from danish_asr.cli.app import app

WORKERS: dict[str, Any] = {
    "danish_asr.corpus.command.combine_command": None,
    "danish_asr.corpus.command.convert_command": None,
    "danish_asr.corpus.command.check_faults": None,
    "danish_asr.corpus.command.verify_command": SimpleNamespace(
        damage=(), contradictions=(), hours={}
    ),
    "danish_asr.decoding.ngram_build.build_language_model": None,
    "danish_asr.demo.run_demo": None,
    "danish_asr.inference.export.export_model": None,
    "danish_asr.inference.harvest.harvest": True,
    "danish_asr.inference.serve.serve": None,
    "danish_asr.inference.transcribe.transcribe": True,
    "danish_asr.inference.tune.tune_language_model": None,
    "danish_asr.planning.fetch.fetch": None,
    "danish_asr.planning.plan.show_plan": True,
    "danish_asr.planning.sweep.run_sweep": True,
    "danish_asr.recipe.entry.run": Path("results"),
    "danish_asr.recipe.train.average.average": (Path("mean"), [2, 4]),
    "danish_asr.report.audit.audit": True,
    "danish_asr.report.compare.compare_files": None,
    "danish_asr.report.dataset_page.check_page": None,
    "danish_asr.report.dataset_page.write_dataset_page": None,
    "danish_asr.report.runs.report_runs": None,
    "danish_asr.report.score.score_files": None,
}
"""The functions that do the work of the commands, and what a command reads of their results."""

SIGNATURES = {
    path: signature(getattr(import_module(path.rpartition(".")[0]), path.rpartition(".")[2]))
    for path in WORKERS
}

LINES = {
    "audit": ("DATASET --model MODEL", "combine DATASET --without audit.csv --name clean"),
    "average": ("RUN --last 3", "evaluate mean evaluator.split=dev"),
    "combine": ("PART OTHER --name NAME --out OUT", "verify OUT"),
    "compare": ("RUN=a OTHER=b", ""),
    "convert": ("SOURCE --name NAME", "verify data/parquet"),
    "demo": ("common.seed=5", ""),
    "evaluate": ("RUN common.seed=5", "compare results OTHER"),
    "export": ("MODEL DEST --to onnx", ""),
    "fetch": ("MODEL", "plan model.name=MODEL"),
    "harvest": (
        "AUDIO --model MODEL --out OUT",
        "convert table:OUT/utterances.jsonl --split",
    ),
    "lm build": ("TEXT --out OUT --model plain", "lm tune plain --lm OUT"),
    "lm build --profile": ("TEXT --out OUT --profile plain", "lm tune RUN --lm OUT"),
    "lm tune": ("RUN --lm LM", "transcribe RUN AUDIO --lm LM"),
    "plan": ("common.seed=5 --dataset x -c y.yaml", "train OUTDIR --config y.yaml --dataset x"),
    "report": ("RUNS", ""),
    "score": ("PREDICTIONS", "compare PREDICTIONS OTHER"),
    "serve": ("MODEL", ""),
    "sweep": ("RUNS optimizer.name=adamw --over common.seed=1,2", ""),
    "train": ("RUN dataset.name=coral_v2_danish", ""),
    "transcribe": ("MODEL AUDIO", ""),
    "verify": ("DATASET --page PAGE", "combine DATASET OTHER --name NAME --out DIR"),
}
"""A line of each command, and the command that it names as the next one.

An option that excludes one of a line's words has a line of its own.
"""

VALUES = {
    "--by": "corpus",
    "--column": "text=new",
    "--columns": "reference=new",
    "--gpu": "12GB",
    "--language": "nob_Latn",
    "--max-drop": "0.77",
    "--model": "rye",
    "--over": "optimizer.config.lr=1e-3",
    "--split": "train",
    "--split-by-speaker": "70/20/10",
    "--to": "hf",
}
"""Values of options whose form is read before the work begins."""

OTHER_NAMES = {
    "compare --out": "outputs",
    "evaluate --config": "config_files",
    "fetch --config": "config_files",
    "lm build --model": "profile",
    "plan --config": "config_files",
    "score --out": "outputs",
    "sweep --config": "config_files",
    "train --config": "config_files",
    "train --prepare": "source",
    "verify --page": "out",
}
"""What the work calls an option, where that is not the option's name, with an s or without "no"."""

PRINT_AND_STOP = {"--help-keys": "masking", "--list": None, "--version": None}
"""Options that reach no work, because they print and end the command."""


def _parameters(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    for parameter in group.params:
        yield path, parameter
    for name, below in getattr(group, "commands", {}).items():
        yield from _parameters(below, f"{path} {name}".strip())


OPTIONS = [
    pytest.param(path, option, id=f"{path} {option.opts[0]}".strip())
    for path, option in _parameters(get_command(app))
    if option.param_type_name == "option" and "completion" not in option.name
]


def _leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict) and value:
        for key, part in value.items():
            yield from _leaves(f"{name} {key}", part)
    else:
        yield name, repr(value)


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The names and values of the arguments with which the work was called."""
    calls: list[tuple[str, str]] = []

    def recorder(path: str) -> Any:
        def record(*arguments: Any, **options: Any) -> Any:
            for name, value in SIGNATURES[path].bind(*arguments, **options).arguments.items():
                calls.extend(_leaves(name, value))
            return WORKERS[path]

        return record

    monkeypatch.chdir(tmp_path)
    for path in WORKERS:
        monkeypatch.setattr(path, recorder(path))
    model = "danish_asr.recipe.models.cards.open_model"
    monkeypatch.setattr(model, lambda name: SimpleNamespace(text_profile=name))
    return calls


def _call(asked: list[tuple[str, str]], words: list[str]) -> tuple[set[tuple[str, str]], str]:
    asked.clear()
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return {*asked}, result.output


def _value(option: Any) -> str:
    """A value of the option's type that is no default."""
    if option.opts[0] in VALUES:
        return VALUES[option.opts[0]]
    kind = option.type_descriptor.annotation
    if get_origin(kind) is list:
        (kind,) = get_args(kind)
    if kind in {int, float}:
        return str(option.max or 77)
    choices = [*kind] if isinstance(kind, type) and issubclass(kind, Enum) else get_args(kind)
    others = [str(choice) for choice in choices if choice != option.default]
    return others[-1] if others else "new"


@pytest.mark.parametrize(("path", "option"), OPTIONS)
def test_each_option_reaches_the_work_under_its_name(
    asked: list[tuple[str, str]], path: str, option: Any
) -> None:
    flag = option.opts[0]
    line, _ = LINES.get(f"{path} {flag}", LINES.get(path, ("", "")))
    if flag in PRINT_AND_STOP:
        value = PRINT_AND_STOP[flag]
        result = CliRunner().invoke(app, [*path.split(), flag, *filter(None, [value])])
        assert (result.exit_code, bool(result.output), asked) == (0, True, [])
        return
    words = [*path.split(), *line.split()]
    value = "" if option.is_flag else _value(option)
    before, _ = _call(asked, words)
    changed = _call(asked, [*words, flag, *filter(None, [value])])[0] - before
    own = {option.name, flag.strip("-").replace("-", "_").removeprefix("no_")}
    names = {*own, *(f"{name}s" for name in own), OTHER_NAMES.get(f"{path} {flag}")}
    assert [place for place, _ in changed if names & {*place.split()}], changed
    assert ("False" if flag.startswith("--no-") else value.rpartition("=")[2]) in str(changed)


@pytest.mark.parametrize("path", [*LINES])
def test_each_word_of_a_command_line_reaches_the_work_and_the_next_command_is_named(
    asked: list[tuple[str, str]], path: str
) -> None:
    line, following = LINES[path]
    calls, output = _call(asked, [*path.partition(" --")[0].split(), *line.split()])
    words = [word for word in line.split() if not word.startswith("-")]
    missing = [word for word in re.findall(r"[\w.]+", " ".join(words)) if word not in str(calls)]
    assert not missing
    assert (f"Next: danish-asr {following}" in output) is bool(following)


@pytest.mark.parametrize(
    ("work", "path", "status"),
    [
        ("inference.harvest.harvest", "harvest", 1),
        ("inference.transcribe.transcribe", "transcribe", 1),
        ("planning.plan.show_plan", "plan", 1),
        ("planning.sweep.run_sweep", "sweep", 1),
        ("report.audit.audit", "audit", 0),
    ],
)
@pytest.mark.usefixtures("asked")
def test_work_that_was_not_done_ends_with_one_and_nothing_comes_next(
    monkeypatch: pytest.MonkeyPatch, work: str, path: str, status: int
) -> None:
    monkeypatch.setattr(f"danish_asr.{work}", lambda *_, **__: False)
    result = CliRunner().invoke(app, [path, *LINES[path][0].split()])
    assert (result.exit_code, "Next:" in result.output) == (status, False)
