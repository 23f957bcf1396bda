"""The one thread that transcribes for `serve`: audio comes in, segments go out as they end.

Recordings take turns. One that nobody waits for any more is given up: the thread reads that between
its batches of speech, half a minute each on a CPU, and goes on with the next recording.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, Final

from danish_asr.base.errors import DanishAsrError
from danish_asr.decoding.transcript import Segment, Transcript

_STOPPED: Final = "The server was stopped. Start it, and send the recording again."


class GivenUpError(DanishAsrError):
    """A transcription ended early: its client is gone, or the server was stopped."""


class Transcription:
    """One recording; what the thread finds arrives in the event loop that made this object."""

    def __init__(self, model: Any, thread: ThreadPoolExecutor) -> None:
        self._model = model
        self._thread = thread
        self._loop = asyncio.get_running_loop()
        self._arrived: asyncio.Queue[Segment | Transcript | Exception] = asyncio.Queue()
        self._given_up = threading.Event()
        self._audio = b""

    def start(self, audio: bytes) -> None:
        """Transcribe an encoded file when its turn comes."""
        self._audio = audio
        self._thread.submit(self._run)

    def give_up(self, reason: str) -> None:
        """End `items` now, and the thread's work after its batch; to be called in the loop."""
        self._given_up.set()
        self._audio = b""  # it may have waited for its turn, in much memory
        self._arrived.put_nowait(GivenUpError(reason))

    async def items(self) -> AsyncIterator[Segment | Transcript]:
        """Yield segments as they end, then the transcript.

        Raises GivenUpError, and what the model raises.
        """
        while True:
            item = await self._arrived.get()
            if isinstance(item, Exception):
                raise item
            yield item
            if isinstance(item, Transcript):
                return

    def _run(self) -> None:
        spoken: list[Segment] = []
        seconds = 0.0

        def note(done: float, _: float | None) -> None:
            nonlocal seconds
            seconds = done
            if self._given_up.is_set():
                raise GivenUpError

        try:
            note(0.0, None)
            for segment in self._model.stream(self._audio, progress=note):
                spoken.append(segment)
                self._send(segment)
            self._send(Transcript(seconds, spoken, about=dict(self._model.about)))
        except Exception as error:  # noqa: BLE001 - `items` raises it
            self._send(error)

    def _send(self, item: Segment | Transcript | Exception) -> None:
        with suppress(RuntimeError):  # the loop has ended, and nobody waits
            self._loop.call_soon_threadsafe(self._arrived.put_nowait, item)


class Worker:
    """The thread, and the transcriptions that somebody waits for."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._thread = ThreadPoolExecutor(1)
        self._awaited: set[Transcription] = set()

    @contextmanager
    def transcription(self) -> Iterator[Transcription]:
        """Make a transcription, to be started; it is given up when its context ends."""
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
        """Wait for the thread, which ends after its batch."""
        self._thread.shutdown()
