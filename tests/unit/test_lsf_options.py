"""The stand-in for LSF reads options as IBM's reference has them, and refuses what LSF refuses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lsf_options import indices_of, minutes, parse_directives, parse_options


@pytest.mark.parametrize(
    ("script", "options"),
    [
        ("#BSUB -q hpc -n 32", {"q": "hpc", "n": "32"}),
        (
            '#BSUB -o out -e err # where output goes\n#BSUB -J "a b"',
            {"o": "out", "e": "err", "J": "a b"},
        ),
        ("#!/bin/sh\nwork\n#BSUB -P project", {"P": "project"}),
        ("##BSUB -q no\n# BSUB -q no\n  #BSUB -q no\n#bsub -q no", {}),
        (
            "#BSUB -R 'span[hosts=1]'\n#BSUB -R \"rusage[mem=4GB]\"",
            {"R": "span[hosts=1] rusage[mem=4GB]"},
        ),
        ("#BSUB -W 60 -wt '2' -wa 'URG'", {"W": "60", "wt": "2", "wa": "URG"}),
        ("#BSUB -Is -B -n 4,8", {"Is": "", "B": "", "n": "4,8"}),
    ],
)
def test_directives_are_read(script: str, options: dict[str, Any]) -> None:
    assert parse_options(parse_directives(script)) == (options, [])


@pytest.mark.parametrize(
    "line",
    [
        "-W 24h",
        "-wt soon",
        "-n 0",
        "-n four",
        "-wa WARN",
        "-z 1",
        "-q",
        "-R hosts=1",
        "-gpu 2",
        "-J 'name[0-4]'",
        "-J 'name[1-2000]'",
        "-J 'name[a]'",
        "-w 'done 12'",
        "-W 1:00\r",
    ],
)
def test_what_lsf_refuses_is_refused(line: str) -> None:
    with pytest.raises(SystemExit, match="bsub: "):
        parse_options(parse_directives(f"#BSUB {line}\n"))


def test_options_end_where_the_command_begins() -> None:
    assert parse_options(["-q", "hpc", "sleep", "-n", "9"]) == ({"q": "hpc"}, ["sleep", "-n", "9"])


@pytest.mark.parametrize(
    ("name", "indices"),
    [("job", [0]), ("a[1-4]", [1, 2, 3, 4]), ("a[1,3-7:2]%2", [1, 3, 5, 7]), ("a[5]", [5])],
)
def test_the_elements_of_an_array(name: str, indices: list[int]) -> None:
    assert indices_of(name) == indices


@pytest.mark.parametrize(("text", "count"), [("15", 15), ("3:30", 210), ("0:90/host", 90)])
def test_run_limits(text: str, count: int) -> None:
    assert minutes(text) == count
