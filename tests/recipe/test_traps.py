"""Every row of docs/background/traps.tsv names a test that contains the word TRAPS."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INSTALL = "Install"


def rows() -> list[tuple[str, str, list[str]]]:
    """Section, trap and tests of each row of the map."""
    lines = (ROOT / "docs" / "background" / "traps.tsv").read_text(encoding="utf-8").splitlines()
    cells = [line.split("\t") for line in lines[1:]]
    return [(part, trap, re.findall(r"`([^`]+)`", tests)) for part, trap, _, tests in cells]


@cache
def sources(file: Path) -> dict[str, str]:
    """The source of each test of a file, with what it is parametrised with."""
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    return {
        node.name: "\n".join(
            lines[
                min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1 : node.end_lineno
            ]
        )
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.parametrize(("section", "trap", "tests"), rows())
def test_a_trap_has_a_test_that_mentions_it(section: str, trap: str, tests: list[str]) -> None:
    assert tests, f"no test for: {trap}"
    for test in tests:
        path, _, name = test.partition("::")
        if section == INSTALL and (test == "make setup" or not name):
            assert test == "make setup" or (ROOT / "tests" / path).is_file()
            continue
        source = sources(ROOT / "tests" / path).get(name)
        assert source is not None, f"{test} does not exist"
        assert section == INSTALL or "TRAPS" in source, f"{test} does not say TRAPS"
