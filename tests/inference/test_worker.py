"""The thread of `serve`: recordings take turns, and what nobody waits for is given up."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from danish_asr.base.errors import TranscriptionError
from danish_asr.decoding.transcript import Segment, Transcript, Word
from danish_asr.inference.worker import GivenUpError, Worker

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
        if audio == b"broken":
            raise TranscriptionError(audio.decode())
        progress(2.0, None)
        yield SPOKEN


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, 20))


def test_segments_come_as_they_end_and_then_their_transcript() -> None:
    model = Endless()

    async def ask() -> list[Segment | Transcript]:
        with Worker(model).transcription() as transcription:
            transcription.start(b"endless")
            items = transcription.items()
            first = await anext(items)
            model.ended.set()
            return [first, *[item async for item in items]]

    assert run(ask()) == [SPOKEN, SPOKEN, Transcript(2.0, [SPOKEN, SPOKEN], about=model.about)]


def test_recordings_take_turns_and_one_that_is_left_before_its_turn_is_never_heard() -> None:
    model = Endless()

    async def ask() -> None:
        worker = Worker(model)
        with worker.transcription() as first, worker.transcription() as third:
            first.start(b"endless")
            items = first.items()
            await anext(items)
            with worker.transcription() as second:
                second.start(b"left")
            third.start(b"third")
            await asyncio.sleep(0.2)
            assert model.heard == [b"endless"]
            model.ended.set()
            assert [item async for item in items][-1].words
            assert len([item async for item in third.items()]) == 3
        worker.join()

    run(ask())
    assert model.heard == [b"endless", b"third"]


def test_one_that_is_left_makes_way_for_the_next() -> None:
    async def ask() -> list[Segment | Transcript]:
        worker = Worker(Endless())
        with worker.transcription() as left:
            left.start(b"endless")
            await anext(left.items())
        with worker.transcription() as following:
            following.start(b"following")
            return [item async for item in following.items()]

    assert len(run(ask())) == 3


def test_a_stop_ends_all_that_wait_and_the_thread() -> None:
    async def ask() -> None:
        worker = Worker(Endless())
        with worker.transcription() as one, worker.transcription() as other:
            one.start(b"endless")
            await anext(one.items())
            worker.stop()
            for transcription in (one, other):
                with pytest.raises(GivenUpError):
                    await anext(transcription.items())
            await asyncio.to_thread(worker.join)

    run(ask())


def test_what_the_model_raises_is_raised_after_what_it_heard() -> None:
    async def ask() -> None:
        with Worker(Endless()).transcription() as transcription:
            transcription.start(b"broken")
            items = transcription.items()
            assert await anext(items) == SPOKEN
            with pytest.raises(TranscriptionError, match="broken"):
                await anext(items)

    run(ask())
