from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from danish_asr.base.errors import ConfigError, DanishAsrError, MissingExtraError

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
