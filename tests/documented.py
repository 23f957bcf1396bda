"""The commands and code blocks of the documentation, and whether a command line accepts them."""

import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import typer
from typer.main import get_command

from danish_asr import cli
from danish_asr.cli.app import app
from danish_asr.cli.upstream import run_as_upstream
from danish_asr.recipe import entry as recipe

ROOT = Path(__file__).parents[1]
PAGES = (
    *("README.md", "CONTRIBUTING.md", "data/README.md"),
    *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md")),
)

MODULES = {
    "workflows.recipes.wav2vec2.asr": "train",
    "workflows.recipes.wav2vec2.asr.eval": "evaluate",
    "workflows.recipes.wav2vec2.asr.eval.recipe": "evaluate",
}
PROGRAMS = (
    *("danish-asr", "python", "python3.11", "make", "source", "export", "git"),
    *("hf", "pip", "uv", "echo", "head", "mkdir", "ln", "cp"),
)
_SHELL = {"&&", ";", "|", "(", ")"}
_FILES = re.compile(r"(configs|lsf|benchmarks|docs|workflows)/[\w./-]+")


def blocks(page: str) -> Iterator[tuple[str, list[str]]]:
    """The language ("" if none is given) and the lines of each fenced or indented block."""
    fence, lines = None, list[str]()
    for line in [*(ROOT / page).read_text(encoding="utf-8").splitlines(), "end"]:
        if fence is not None and not line.startswith("```"):
            lines.append(line)
        elif fence is None and (line.startswith("    ") or (lines and not line)):
            lines.append(line[4:])
        else:
            if lines:
                yield fence or "", lines
            fence, lines = (line[3:] if fence is None and line.startswith("```") else None), []


def script(page: str, name: str) -> str:
    """The Python block of a page that begins with a docstring of this file's name."""
    for language, lines in blocks(page):
        if language == "python" and lines[0].startswith(f'"""{name}:'):
            return "\n".join(lines)
    raise LookupError(f"{page} has no {name}")


def commands(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each simple command of a block, as written and as words, without output and comments.

    The optional parts of a synopsis are left out.
    """
    session, text = any(line.startswith("$ ") for line in lines), ""
    for line in lines:
        is_output = line[:1].isdigit() or (session and not line.startswith("$ "))
        if not text and is_output:
            continue
        text += line.removeprefix("$ ") if not text else line
        if text.endswith("\\"):
            text = text[:-1]
            continue
        synopsis = re.sub(r" \[[^\]$]*\](?=\s|$)| \.\.\.(?=\s|$)", "", text)
        lexer = shlex.shlex(synopsis, posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:  # a quotation that goes on in the next line
            text += "\n"
            continue
        while words:
            end = next((n for n, word in enumerate(words) if word in _SHELL), len(words))
            simple, words = words[:end], words[end + 1 :]
            while simple and re.match(r"\w+=", simple[0]):
                del simple[0]
            if simple and (session or Path(simple[0]).name in PROGRAMS or "lsf/" in simple[0]):
                yield text, [Path(simple[0]).name, *simple[1:]]
        text = ""


def check(words: Sequence[str]) -> None:
    """Fail if options, choices, keys of the configuration or files of a command do not exist.

    Files of the repository are looked for there, other configurations in the current directory.
    """
    program, *arguments = words
    for word in arguments:
        for file in _FILES.finditer(word):
            assert (ROOT / file[0]).exists(), f"no {file[0]}"
    if "<" in arguments:
        arguments = arguments[: arguments.index("<")]
    if program == "danish-asr":
        _parse(arguments)
    elif program in {"python", "python3.11"}:
        for before, name in pairwise(arguments):
            spec = find_spec(name) if before == "-m" else True
            is_package = spec and getattr(spec, "submodule_search_locations", None)
            assert spec, f"no module {name}"
            assert not is_package or find_spec(f"{name}.__main__"), f"{name} cannot be run"
        if arguments[1:2] and arguments[1] in MODULES and arguments[2:]:
            with _unused_recipe():
                run(words)
    elif program == "make":
        targets = re.findall(r"(?m)^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"))
        assert {word for word in arguments if "=" not in word} <= {*targets}
    elif program == "submit.sh":
        names = re.findall(r"(?m)^#   (\w+) ", (ROOT / "lsf" / program).read_text(encoding="utf-8"))
        assert arguments[0] in names, f"submit.sh has no {arguments[0]}"
    else:
        assert program in PROGRAMS, f"no program {program}"


def _parse(arguments: Sequence[str]) -> None:
    command: Any = get_command(app)
    rest = list(arguments)
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        command = command.commands[rest.pop(0)]
    if hasattr(command, "commands"):  # parsing would install the completion
        assert {*rest} <= {"--help", *(name for param in command.params for name in param.opts)}
        return
    if not rest:
        return
    with suppress(typer.Exit):
        command.make_context(command.name, rest)
        if command.name in MODULES.values():
            with _unused_recipe():
                run(["danish-asr", *arguments])


@contextmanager
def _unused_recipe() -> Iterator[None]:
    module = SimpleNamespace(run=lambda *_: None)  # the configuration was checked before
    with patch.object(recipe, "import_module", lambda _: module):
        yield


def run(words: Sequence[str]) -> None:
    """Run a command of this package in this process; raise unless it ends with status 0."""
    program, *arguments = words
    try:
        if program == "danish-asr":
            with patch.object(sys, "argv", list(words)):
                cli.main()
        else:
            run_as_upstream(MODULES[arguments[1]], arguments[2:])
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"status {end.code}") from None
