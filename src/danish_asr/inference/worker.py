"""The one thread that transcribes for `serve`: audio comes in, segments go out as they end.

Recordings take turns; a few may wait. One that nobody waits for any more is given up: the thread
reads that before each window of speech, and goes on with the next recording.
"""

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, Final

from danish_asr.base.errors import DanishAsrError
from danish_asr.decoding.transcript import Segment, Transcript

MOST_WAITING: Final = 8
"""Recordings that wait while one is transcribed; each is in memory."""

_SHORTEST_WAIT: Final = 5
_UNKNOWN_WAIT: Final = 30
"""Seconds until a refused client may come again, at least, and where nothing is known."""

_STOPPED: Final = "The server was stopped. Start it, and send the recording again."


class GivenUpError(DanishAsrError):
    """A transcription ended early: its client is gone, or the server was stopped."""


class BusyError(DanishAsrError):
    """Too many recordings wait; in about so many ``seconds`` one less."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds
        super().__init__(f"The model is busy: {MOST_WAITING} recordings wait. Try again later.")


class Transcription:
    """One recording; what the thread finds arrives in the event loop that made this object.

    Attributes:
        why_empty: Why the transcript has no text, if it has none; known when it has ended.
    """

    def __init__(self, model: Any, thread: ThreadPoolExecutor) -> None:
        self._model = model
        self._thread = thread
        self._loop = asyncio.get_running_loop()
        self._arrived: asyncio.Queue[Segment | Exception | None] = asyncio.Queue()  # None: the end
        self._given_up = threading.Event()
        self._audio = b""
        self._file: str | None = None
        self._spoken: list[Segment] = []
        self._began = self._seconds = 0.0
        self._expected: float | None = None
        self._ended = False
        self.why_empty = ""

    def start(self, audio: bytes, file: str | None = None) -> None:
        """Transcribe an encoded file, of a name, when its turn comes."""
        self._audio, self._file = audio, file
        self._thread.submit(self._run)

    def give_up(self, reason: str) -> None:
        """End `segments` now, and the thread's work after its window; to be called in the loop."""
        self._given_up.set()
        self._audio = b""  # it may have waited for its turn, in much memory
        self._arrived.put_nowait(GivenUpError(reason))

    async def segments(self) -> AsyncIterator[Segment]:
        """Yield segments as they end, once; raises GivenUpError, and what the model raises."""
        while not self._ended:
            arrived = await self._arrived.get()
            if isinstance(arrived, Exception):
                raise arrived
            if arrived is None:
                self._ended = True
            else:
                self._spoken.append(arrived)
                yield arrived

    async def transcript(self) -> Transcript:
        """Return all segments when the recording has ended; raises what `segments` does."""
        async for _ in self.segments():
            pass
        seconds, about = round(self._seconds, 3), dict(self._model.about)
        return Transcript(seconds, self._spoken, self._file, about)

    def seconds_left(self) -> float | None:
        """Estimate when it ends; None before its turn, or if the length is unknown."""
        if not self._seconds or not self._expected:
            return None
        return (monotonic() - self._began) * max(self._expected / self._seconds - 1, 0)

    def _run(self) -> None:
        try:
            self._note(0.0, None)
            self._began = monotonic()
            audio, spoken = self._audio, False
            for segment in self._model.stream(audio, progress=self._note):
                spoken = True
                self._send(segment)
            if not spoken:
                self.why_empty = self._model.why_empty(audio)
            self._send(None)
        except Exception as error:  # noqa: BLE001 - `segments` raises it
            self._send(error)

    def _note(self, seconds: float, expected: float | None) -> None:
        self._seconds, self._expected = seconds, expected
        if self._given_up.is_set():
            raise GivenUpError

    def _send(self, arrived: Segment | Exception | None) -> None:
        with suppress(RuntimeError):  # the loop has ended, and nobody waits
            self._loop.call_soon_threadsafe(self._arrived.put_nowait, arrived)


class Worker:
    """The thread, and the transcriptions that somebody waits for."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._thread = ThreadPoolExecutor(1)
        self._awaited: set[Transcription] = set()

    @contextmanager
    def transcription(self) -> Iterator[Transcription]:
        """Make a transcription, to be started; it is given up when its context ends.

        Raises BusyError if `MOST_WAITING` wait beside the one that is transcribed.
        """
        if len(self._awaited) > MOST_WAITING:
            known = [left for one in self._awaited if (left := one.seconds_left()) is not None]
            raise BusyError(max(_SHORTEST_WAIT, math.ceil(min(known, default=_UNKNOWN_WAIT))))
        transcription = Transcription(self._model, self._thread)
        self._awaited.add(transcription)
        try:
            yield transcription
        finally:
            self._awaited.remove(transcription)
            transcription.give_up("nobody waits for it")

    def stop(self) -> None:
        """Give up all transcriptions that somebody waits for."""
        for transcription in self._awaited:
            transcription.give_up(_STOPPED)

    def join(self) -> None:
        """Wait for the thread, which ends after its window."""
        self._thread.shutdown()
