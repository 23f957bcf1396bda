from __future__ import annotations

from collections.abc import Iterator
from logging import INFO, Handler, LogRecord

import pytest

from danish_asr.recipe.train.console import log


class Lines(Handler):
    """Keeps what is logged, with its level where that is above INFO."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: LogRecord) -> None:
        level = f"{record.levelname}: " if record.levelno > INFO else ""
        self.lines.append(level + record.getMessage())


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """The lines that this project logs."""
    handler, level = Lines(), log.logger.level
    log.logger.addHandler(handler)
    log.logger.setLevel(INFO)
    yield handler.lines
    log.logger.removeHandler(handler)
    log.logger.setLevel(level)
