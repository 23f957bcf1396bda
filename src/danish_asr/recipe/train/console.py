"""What a run prints; everything else that fairseq2 logs is in ``OUTDIR/logs``.

``log`` is for the lines of this project. Of fairseq2's own records the terminal or the job's log
gets warnings and a few lines (``_SHOWN``), with ``common.debug`` all.
"""

import re
import sys
from logging import INFO, WARNING, Formatter, LogRecord, StreamHandler, getLogger
from typing import Any, Final, TextIO

from fairseq2.logging import get_log_writer
from fairseq2.logging import log as fairseq2_log  # noqa: TID251 - its handlers are set here
from fairseq2.utils.rich import get_error_console, set_error_console
from rich.console import Console
from rich.logging import RichHandler
from typing_extensions import override

log: Final = get_log_writer("fairseq2.danish_asr")
"""A child of fairseq2's logger: its records reach the same files."""

_SHOWN: Final = re.compile(
    r"Downloading|Download complete|Loading .*model|Starting validation|Training restored|"
    r"Checkpoint at step|End of (training|data) |Early stop|Task finished"
)
_IGNORED: Final = re.compile(r"`\w+\.family` will be ignored")
"""A warning about a default: the section of a named model has a family as well."""


def hide_progress_bar() -> None:
    """Where there is no terminal, as in a job's log, let fairseq2's progress bar print nothing.

    Call this before the recipe starts.
    """
    if not sys.stderr.isatty():
        set_error_console(Console(stderr=True, quiet=True))


def configure_console() -> None:
    """Replace the console's handler after fairseq2 has configured its log.

    In a terminal rich prints the lines above the live progress bar; elsewhere they are plain and
    never wrapped.
    """
    logger, console = fairseq2_log.logger, get_error_console()
    handler: StreamHandler[TextIO] | RichHandler = _PlainHandler()
    if not console.quiet:
        options: Any = {"show_path": False, "show_level": False, "keywords": []}
        handler = RichHandler(console=console, log_time_format="%X", **options)
    handler.setFormatter(_Lines("%Y-%m-%d %H:%M:%S " * console.quiet))
    handler.addFilter(_is_for_users)
    # 0.8 gives its handler to the root logger, and leaves those of an earlier run of this process.
    for owner in (logger, getLogger()):
        if rich := [each for each in owner.handlers if isinstance(each, RichHandler)]:
            for old in [*rich, *logger.handlers]:
                owner.removeHandler(old)
                logger.removeHandler(old)
                old.close()
            logger.addHandler(handler)


def _is_for_users(record: LogRecord) -> bool:
    message = record.getMessage()
    if record.name == log.logger.name or fairseq2_log.is_enabled_for_debug():
        return True
    if record.levelno >= WARNING:
        return not _IGNORED.match(message)
    return _SHOWN.match(message) is not None


class _PlainHandler(StreamHandler[TextIO]):
    @override
    def emit(self, record: LogRecord) -> None:
        self.stream = sys.stderr  # which may have been redirected since
        super().emit(record)


class _Lines(Formatter):
    """The message after the time; the level only of warnings and errors."""

    def __init__(self, time: str) -> None:
        super().__init__("%(message)s")
        self._time = time

    @override
    def format(self, record: LogRecord) -> str:
        level = f"{record.levelname}: " * (record.levelno > INFO)
        lines = super().format(record).replace("\n", "\n  ")
        time = self._time and self.formatTime(record, self._time)
        return f"{time}{level}{lines}"
