"""The server: OpenAI's five formats and events, refusals as its clients read them, its end."""

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from select import select
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import pytest
from numpy.typing import NDArray

from danish_asr.base.errors import DanishAsrError
from danish_asr.inference.serve import Server, serve
from danish_asr.inference.worker import Worker
from tests.builders import encode, tone
from tests.served import (
    KnowsTwoWords,
    events,
    form,
    make_app,
    refused,
    send,
    sent,
    serving,
    uvicorn,
)


@pytest.mark.parametrize("name", ["timestamp_granularities", "timestamp_granularities[]"])
@pytest.mark.parametrize("wanted", [["word"], ["segment"], ["word", "segment"]])
def test_times_are_those_that_were_asked_for(address: str, name: str, wanted: list[str]) -> None:
    fields = [(name, one) for one in wanted]
    verbose = json.loads(send(address, ("response_format", "verbose_json"), *fields))
    assert {f"{one}s" for one in wanted} == {"words", "segments"} & {*verbose}
    if "words" in verbose:
        first = {"word": "røde", "start": 0.25, "end": 0.5, "confidence": 0.98}
        assert verbose["words"][0] == first


def test_segments_may_be_asked_for_where_they_are_not_sent(address: str) -> None:
    assert {*json.loads(send(address, ("timestamp_granularities[]", "segment")))} == {
        "text",
        "usage",
    }


def test_a_proxy_passes_each_event_on_as_it_comes(address: str) -> None:
    body, kind = form(("stream", "true"))
    request = Request(f"{address}v1/audio/transcriptions", body, {"Content-Type": kind})  # noqa: S310
    with urlopen(request) as response:  # noqa: S310
        assert response.headers["X-Accel-Buffering"] == "no"  # which nginx obeys


@pytest.mark.parametrize(
    ("fields", "audio", "status", "says"),
    [
        ([("response_format", "xml")], b"RIFF", 400, "response_format"),
        ([("timestamp_granularities[]", "line")], b"RIFF", 400, "granularities[]"),
        ([("model", "m")], b"", 400, "file"),
        ([("file", "./a.wav")], b"", 400, "file=@"),
        ([("model", "m")], b"no audio", 400, "undecodable"),
        ([("file", "./a.wav")], b"RIFF", 400, "file"),
        ([("stream", "true"), ("stream", "false")], b"RIFF", 400, "stream"),
        ([("timestamp_granularities[]", "word")], b"RIFF", 400, "verbose_json"),
        ([("temperature", "abc")], b"RIFF", 400, "temperature"),
        ([("temperature", "nan")], b"RIFF", 400, "temperature"),
    ],
)
@pytest.mark.parametrize("chunked", [False, True])
def test_a_request_that_cannot_be_answered_is_refused_as_clients_read_it(
    address: str,
    fields: list[tuple[str, str]],
    audio: bytes,
    status: int,
    says: str,
    *,
    chunked: bool,
) -> None:
    code, message = refused(address, *fields, audio=audio, chunked=chunked)
    assert (code, says in message) == (status, True)


class Endless(KnowsTwoWords):
    """Hears a recording that does not end before ``ended`` is set, if it is named so."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.ended = threading.Event()
        self.now = self.most = 0  # recordings at once

    def stream(self, audio: bytes, *, progress: Any) -> Iterator[Any]:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            while b"endless" in audio and not self.ended.wait(0.01):
                self.begun.set()
                progress(1.0, None)
            yield from super().stream(audio, progress=progress)
        finally:
            self.now -= 1


@pytest.mark.parametrize("stream", ["true", "false"])
def test_recordings_whose_clients_leave_make_way_for_the_next(stream: str) -> None:
    model = Endless()
    fields = ("stream", stream)
    with serving(make_app(model=model)) as address:
        try:
            with sent(address, fields, audio=b"RIFF endless"):
                assert model.begun.wait(20)
                for share in (0.5, 1):  # they leave before their turn
                    with sent(address, fields, audio=b"RIFF endless", share=share):
                        pass
            assert json.loads(send(address))["text"]
        finally:
            model.ended.set()
    assert model.most == 1


def test_a_full_temporary_folder_is_said(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("starlette.datastructures.UploadFile.write", fail)
    assert refused(address) == (507, "The file cannot be stored here: No space left on device.")


def test_one_recording_is_transcribed_eight_wait_and_a_ninth_is_told_when_to_come_again() -> None:
    model = Endless()
    with serving(make_app(model=model)) as address, ExitStack() as clients:
        try:
            sockets = [
                clients.enter_context(sent(address, audio=b"RIFF endless")) for _ in range(10)
            ]
            answered, _, _ = select(sockets, [], [], 20)
            (refusal,) = [client.recv(4096).decode() for client in answered]
        finally:
            model.ended.set()
    assert refusal.startswith("HTTP/1.1 503")
    assert int(re.findall(r"retry-after: (\d+)", refusal)[0]) > 0


def test_the_page_names_the_model_and_loads_nothing_from_elsewhere(address: str) -> None:
    with urlopen(address) as response:  # noqa: S310
        page, policy = response.read().decode(), response.headers["Content-Security-Policy"]
    assert "&lt;i&gt;m&lt;/i&gt;" in page
    assert not re.findall(r"https?://", page)
    assert response.headers["Cache-Control"] == "no-store"
    assert "default-src 'none'" in policy
    nonces = {*re.findall(r'nonce="([^"]+)"', page)}
    assert len(nonces) == 1
    assert nonces.pop() in policy


def test_a_port_that_is_taken_is_named_before_the_model_is_read() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(DanishAsrError, match=f"--port {port}"):
            serve("m", {}, port=port, max_mb=1)


_SERVE = """
import sys
from danish_asr.inference.serve import serve
model, port, begun = sys.argv[1:]
decoder = {"decoder": "tests.served:Slow", "decoder_config": {"begun": begun}}
serve(model, decoder, port=int(port), max_mb=100)
"""


@pytest.mark.slow
def test_ctrl_c_ends_a_server_in_a_window_and_nothing_of_audio_and_folders_is_shown_or_kept(
    model_directory: Path, tmp_path: Path, speech: NDArray[np.float32]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    begun, temporary = tmp_path / "begun", tmp_path / "temporary"
    temporary.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE, str(model_directory), str(port), str(begun)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    ) as server:
        try:
            assert server.stderr is not None
            address = next(
                filter(None, (re.search(r"http://\S+/", line) for line in server.stderr))
            )[0]
            done = events(send(address, ("stream", "true"), audio=tone(3, rate=44_100)))[-1]
            audio = encode(speech, 16_000)
            plain = sent(address, ("stream", "false"), audio=audio)
            stream = sent(address, ("stream", "true"), audio=audio)
            with plain as one, stream as other:
                limit = time.monotonic() + 60
                while not begun.exists():
                    assert time.monotonic() < limit
                    time.sleep(0.01)
                server.send_signal(signal.SIGINT)
                assert one.makefile("rb").read().startswith(b"HTTP/1.1 503")
                assert b'"type": "error"' in other.makefile("rb").read()
            _, printed = server.communicate(timeout=60)
        finally:
            server.kill()
    assert address == f"http://127.0.0.1:{port}/"
    assert server.returncode == 0
    assert "Traceback" not in printed
    assert done["duration"] == pytest.approx(3)
    assert json.loads(done["files"]["json"])["about"]["model"] == model_directory.name
    assert str(model_directory.parent) not in json.dumps(done)
    assert not [*temporary.iterdir()]


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_the_server_at_once(
    monkeypatch: pytest.MonkeyPatch, sign: signal.Signals
) -> None:
    ends: list[int] = []
    monkeypatch.setattr("danish_asr.inference.serve.exit_at_once", ends.append)
    server = Server(uvicorn.Config(make_app()), Worker(None))
    server.handle_exit(sign, None)
    assert not ends
    server.handle_exit(sign, None)
    assert ends == [0]
