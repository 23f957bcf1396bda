"""The server: OpenAI's five formats and events, refusals as its clients read them, its end."""

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
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest
from numpy.typing import NDArray

from danish_asr.base.errors import DanishAsrError
from danish_asr.inference.serve import serve
from tests.builders import encode, tone
from tests.served import KnowsTwoWords, events, form, make_app, send, sent, serving

TEXT = "røde <b>grød</b> hej"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(make_app()) as address:
        yield address


def refused(address: str, *fields: tuple[str, str], **options: Any) -> tuple[int, str]:
    with pytest.raises(HTTPError) as refusal:
        send(address, *fields, **options)
    return refusal.value.code, json.loads(refusal.value.read())["error"]["message"]


def test_all_formats_are_answered(address: str) -> None:
    assert json.loads(send(address, ("model", "whisper-1"))) == {"text": TEXT}
    assert send(address, ("response_format", "text")) == f"{TEXT}\n"
    assert send(address, ("response_format", "srt")).startswith("1\n00:00:00,250 --> ")
    assert send(address, ("response_format", "vtt")).startswith("WEBVTT\n")
    verbose = json.loads(send(address, ("response_format", "verbose_json")))
    assert (verbose["duration"], verbose["text"], verbose["language"]) == (2.0, TEXT, "da")
    first, second = verbose["segments"]
    assert (first["start"], first["end"], first["text"]) == (0.25, 1.5, "røde <b>grød</b>")
    assert (second["id"], second["text"]) == (1, "hej")
    assert verbose["words"][0] == {"word": "røde", "start": 0.25, "end": 0.5}


def test_segments_come_as_events(address: str) -> None:
    *deltas, done = events(send(address, ("stream", "true")))
    assert [event["delta"] for event in deltas] == ["røde <b>grød</b> ", "hej "]
    assert deltas[1]["segment"]["start"] == 59.6
    assert (done["type"], done["text"], done["duration"]) == ("transcript.text.done", TEXT, 2.0)
    assert sorted(done["files"]) == ["json", "srt", "txt", "vtt"]
    (error,) = events(send(address, ("stream", "true"), audio=b"no audio"))
    assert "cannot be decoded" in error["error"]["message"]


@pytest.mark.parametrize(
    ("fields", "audio", "status", "says"),
    [
        ([("response_format", "xml")], b"RIFF", 400, "response_format"),
        ([("model", "m")], b"", 400, "file"),
        ([("model", "m")], b"no audio", 400, "cannot be decoded"),
        ([("model", "m")], b"RIFF" + bytes(1_011_000), 413, "At most 1 MB"),
    ],
)
def test_a_request_that_cannot_be_answered_is_refused_as_clients_read_it(
    address: str, fields: list[tuple[str, str]], audio: bytes, status: int, says: str
) -> None:
    code, message = refused(address, *fields, audio=audio)
    assert (code, says in message) == (status, True)


def test_a_file_of_the_largest_size_is_accepted_and_none_of_unknown_size(address: str) -> None:
    assert send(address, audio=b"RIFF" + bytes(1_000_000 - 4))
    body, kind = form()
    chunked = Request(  # noqa: S310 - of this machine
        f"{address}v1/audio/transcriptions", iter([body]), {"Content-Type": kind}
    )
    with pytest.raises(HTTPError, match="411"):
        urlopen(chunked)  # noqa: S310


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


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://evil.example"}, {"Host": "evil.example"}, {"Host": "127.0.0.1.evil.org"}],
)
def test_pages_of_other_sites_are_refused(address: str, headers: dict[str, str]) -> None:
    assert refused(address, headers=headers)[0] == 403
    with pytest.raises(HTTPError):
        urlopen(Request(address, headers=headers))  # noqa: S310


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
decoder = {"decoder": "tests.served:Slow", "decoder_config": {"begun": begun}} if begun else {}
serve(model, decoder, port=int(port), max_mb=100)
"""


@contextmanager
def served(
    model: Path, begun: str = "", **environment: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server as a process, and its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE, str(model), str(port), begun],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    ) as server:
        try:
            assert server.stderr is not None
            found = next(filter(None, (re.search(r"http://\S+/", line) for line in server.stderr)))
            assert found[0] == f"http://127.0.0.1:{port}/"
            yield server, found[0]
        finally:
            server.kill()


def interrupt(server: subprocess.Popen[str]) -> str:
    """Press Ctrl-C; return what the server prints until it has ended."""
    server.send_signal(signal.SIGINT)
    _, printed = server.communicate(timeout=60)
    return printed


@pytest.mark.slow
def test_a_model_is_served_until_ctrl_c_and_nothing_of_audio_and_folders_is_shown_or_kept(
    model_directory: Path, tmp_path: Path
) -> None:
    with served(model_directory, TMPDIR=str(tmp_path)) as (server, address):
        audio = tone(3, rate=44_100)
        verbose = send(address, ("response_format", "verbose_json"), audio=audio)
        done = events(send(address, ("stream", "true"), audio=audio))[-1]
        assert "Traceback" not in interrupt(server)
    assert server.returncode == 0
    assert json.loads(verbose)["duration"] == pytest.approx(3)
    assert json.loads(done["files"]["json"])["about"]["model"] == model_directory.name
    assert str(model_directory.parent) not in verbose + json.dumps(done)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_ctrl_c_ends_a_server_in_the_midst_of_a_window(
    model_directory: Path, tmp_path: Path, speech: NDArray[np.float32]
) -> None:
    begun, audio = tmp_path / "begun", encode(speech, 16_000)
    with served(model_directory, str(begun)) as (server, address):
        plain = sent(address, ("stream", "false"), audio=audio)
        stream = sent(address, ("stream", "true"), audio=audio)
        with plain as one, stream as other:
            end = time.monotonic() + 60
            while not begun.exists():
                assert time.monotonic() < end
                time.sleep(0.01)
            assert "Traceback" not in interrupt(server)
            assert one.makefile("rb").read().startswith(b"HTTP/1.1 503")
            assert b'"type": "error"' in other.makefile("rb").read()
    assert server.returncode == 0
