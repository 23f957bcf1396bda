"""Errors arrive as they were, and say where a user's own code failed."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterator
from typing import Any

import pytest

from danish_asr.base.errors import (
    ConfigError,
    DanishAsrError,
    ExtensionError,
    MissingExtraError,
    SourceError,
    find_named,
    refused_content,
    user_code,
)

MADE_WITH: dict[type[DanishAsrError], tuple[Any, ...]] = {
    ConfigError: (["a.b: above 0; found -1", "c: unknown"],),
    MissingExtraError: ("--engine ray", "ray"),
}


def tree(kind: type[DanishAsrError] = DanishAsrError) -> Iterator[type[DanishAsrError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from tree(child)


@pytest.mark.parametrize("kind", list(tree()))
def test_an_error_arrives_from_another_process_as_it_was(kind: type[DanishAsrError]) -> None:
    error = kind(*MADE_WITH.get(kind, ("på dansk",)))
    arrived = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert type(arrived) is kind
    assert str(arrived) == str(error)
    assert arrived.args == error.args
    assert vars(arrived) == vars(error)


def test_faults_are_counted_and_listed() -> None:
    assert str(ConfigError(["a", "b"], where="x")) == "x has 2 faults:\n  - a\n  - b"
    assert str(ConfigError(["a"], where="x")) == "x has one fault:\n  - a"


def test_a_name_is_one_of_a_table_or_of_code() -> None:
    table = {"greedy": 1, "beam": 2}
    assert find_named("beam", table, "decoder.name") == 2
    assert find_named("json:dumps", table, "decoder.name") is json.dumps
    assert find_named("json.dumps", table, "decoder.name") is json.dumps
    for name, reason in (("json", "no such name"), ("json:none", "none"), ("no.json:x", "'no'")):
        with pytest.raises(ConfigError, match=rf"decoder\.name .* beam, greedy, .*{reason}"):
            find_named(name, table, "decoder.name")
    for other in (None, 5, str.lower):
        with pytest.raises(ConfigError, match=r"decoder\.name"):
            find_named(other, table, "decoder.name")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="did you mean greedy"):
        find_named("greedie", table, "decoder.name")


def broken(error: Exception) -> None:
    raise error


def test_only_an_exception_of_a_users_code_says_where_it_was() -> None:
    where = (
        r"test_errors\.broken failed, reading a: ValueError: odd \(.*test_errors\.py, line \d+\)"
    )
    with pytest.raises(ExtensionError, match=where), user_code(broken, "reading a"):
        broken(ValueError("odd"))
    for code, error in ((broken, SourceError("no file")), (find_named, ValueError("a bug"))):
        with pytest.raises(type(error), match=str(error)), user_code(code, ""):
            broken(error)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Unsupported: GLOBAL os.system was not", "os.system"),
        ("use of the function eval", "eval"),
        ("invalid header", "damaged"),
    ],
)
def test_code_in_a_checkpoint_is_named_and_anything_else_damage(said: str, shown: str) -> None:
    assert re.findall(r"os\.system|eval|damaged", refused_content(ValueError(said))) == [shown]
