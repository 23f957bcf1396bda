"""Tasks of other processes, whose start imports this module: it imports nothing that takes long."""

import os
import signal

from danish_asr.base.errors import SourceError


def square(number: int) -> tuple[int, int]:
    return number * number, os.getpid()


def fail(number: int) -> int:
    if number == 3:
        raise SourceError("the third is missing")
    return number


def divide(number: int) -> float:
    return 1 / (number - 2)


def die(number: int) -> int:
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number
