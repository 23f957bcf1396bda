"""The thread of `serve`: recordings take turns, and what nobody waits for is given up."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from functools import wraps
from typing import Any

import pytest

from danish_asr.decoding.transcript import Segment, Transcript, Word
from danish_asr.inference.worker import BusyError, GivenUpError, Transcription, Worker

SPOKEN = Segment.of([Word("ja", 0, 1)])


class Endless:
    """Hears a word at once, and another one when ``ended`` is set or a second recording begins."""

    about = {"model": "m"}  # noqa: RUF012

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.ended = threading.Event()

    def stream(self, audio: bytes, *, progress: Any) -> Iterator[Segment]:
        self.heard.append(audio)
        yield SPOKEN
        while audio == b"endless" and self.heard == [audio] and not self.ended.wait(0.01):
            progress(1.0, None)
        progress(2.0, None)
        yield SPOKEN


def in_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        asyncio.run(asyncio.wait_for(test(), 20))

    return run


async def rest(transcription: Transcription) -> list[Segment]:
    return [segment async for segment in transcription.segments()]


@in_a_loop
async def test_segments_come_as_they_end_and_then_their_transcript() -> None:
    model = Endless()
    with Worker(model).transcription() as transcription:
        transcription.start(b"endless")
        assert await anext(transcription.segments()) == SPOKEN
        model.ended.set()
        assert await rest(transcription) == [SPOKEN]
        transcript = Transcript(2.0, [SPOKEN, SPOKEN], about=model.about)
        assert await transcription.transcript() == transcript


@in_a_loop
async def test_recordings_take_turns_and_one_that_is_left_before_its_turn_is_never_heard() -> None:
    model = Endless()
    worker = Worker(model)
    with worker.transcription() as first, worker.transcription() as third:
        first.start(b"endless")
        await anext(first.segments())
        with worker.transcription() as second:
            second.start(b"left")
        third.start(b"third")
        await asyncio.sleep(0.2)
        assert model.heard == [b"endless"]
        model.ended.set()
        assert len(await rest(first)) == 1
        assert len(await rest(third)) == 2
    worker.join()
    assert model.heard == [b"endless", b"third"]


@in_a_loop
async def test_eight_recordings_wait_and_a_ninth_is_refused_until_one_is_done() -> None:
    worker = Worker(Endless())
    with ExitStack() as waiting:
        for _ in range(8):
            waiting.enter_context(worker.transcription())
        with worker.transcription(), pytest.raises(BusyError), worker.transcription():
            pass
        with worker.transcription():
            pass


class TenSeconds(Endless):
    """Hears one second of audio in ten seconds, and then waits for ``ended``."""

    def __init__(self, expected: float | None) -> None:
        super().__init__()
        self.expected, self.now = expected, 100.0

    def stream(self, _audio: bytes, *, progress: Any) -> Iterator[Segment]:
        self.now += 10
        progress(1.0, self.expected)
        yield SPOKEN
        self.ended.wait(20)


@pytest.mark.parametrize(("expected", "seconds"), [(None, 30), (1.0, 5), (101.0, 1000)])
def test_a_refused_client_may_come_again_when_the_present_recording_should_end(
    expected: float | None, seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = TenSeconds(expected)
    monkeypatch.setattr("danish_asr.inference.worker.monotonic", lambda: model.now)

    @in_a_loop
    async def refuse() -> None:
        worker = Worker(model)
        with ExitStack() as waiting:
            waiting.callback(model.ended.set)
            first, *_ = [waiting.enter_context(worker.transcription()) for _ in range(9)]
            first.start(b"")
            await anext(first.segments())
            with pytest.raises(BusyError) as refusal, worker.transcription():
                pass
        assert refusal.value.seconds == seconds

    refuse()


@in_a_loop
async def test_a_stop_ends_all_that_wait_and_the_thread() -> None:
    worker = Worker(Endless())
    with worker.transcription() as one, worker.transcription() as other:
        one.start(b"endless")
        await anext(one.segments())
        worker.stop()
        for transcription in (one, other):
            with pytest.raises(GivenUpError, match="stopped"):
                await rest(transcription)
        await asyncio.to_thread(worker.join)
