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
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest
from numpy.typing import NDArray

from danish_asr.base.errors import ConfigError, DanishAsrError
from danish_asr.inference.guard import allowed_names
from danish_asr.inference.serve import Server, serve
from danish_asr.inference.worker import Worker
from tests.builders import encode, tone
from tests.served import (
    KnowsTwoWords,
    events,
    form,
    make_app,
    send,
    sent,
    serving,
    uvicorn,
)

HOWTO = Path(__file__).parents[2] / "docs" / "howto" / "serve.md"
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
    usage = {"type": "duration", "seconds": 2.0}
    assert json.loads(send(address, ("model", "whisper-1"))) == {"text": TEXT, "usage": usage}
    assert send(address, ("response_format", "text")) == f"{TEXT}\n"
    assert send(address, ("response_format", "srt")).startswith("1\n00:00:00,250 --> ")
    assert send(address, ("response_format", "vtt")).startswith("WEBVTT\n")
    verbose = json.loads(send(address, ("response_format", "verbose_json")))
    assert verbose["segments"].pop(1)["id"] == 1
    (segment,) = verbose.pop("segments")
    assert verbose == {
        "task": "transcribe",
        "language": "da",
        "duration": 2.0,
        "text": TEXT,
        "usage": usage,
    }
    assert segment == {
        "id": 0,
        "seek": 25,
        "start": 0.25,
        "end": 1.5,
        "text": "røde <b>grød</b>",
        "tokens": [],
        "temperature": 0.0,
        "avg_logprob": pytest.approx((np.log(0.98) + np.log(0.05)) / 2),
        "compression_ratio": 0.72,
        "no_speech_prob": 0.0,
    }


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


def test_segments_come_as_events(address: str) -> None:
    *deltas, done = events(send(address, ("stream", "true"), ("timestamp_granularities[]", "word")))
    assert [event["delta"] for event in deltas] == ["røde <b>grød</b> ", "hej "]
    assert deltas[1]["segment"]["start"] == 59.6
    assert (done["type"], done["text"], done["duration"]) == ("transcript.text.done", TEXT, 2.0)
    assert sorted(done["files"]) == ["json", "srt", "txt", "vtt"]
    assert json.loads(done["files"]["json"])["file"] == "æ.wav"
    (done,) = events(send(address, ("stream", "true"), audio=b"RIFF silent"))
    assert (done["text"], "no speech" in done["why_empty"]) == ("", True)


def keys_of(tree: Any) -> set[str]:
    if isinstance(tree, list):
        return {key for one in tree for key in keys_of(one)}
    if not isinstance(tree, dict):
        return set()
    return {*tree} | keys_of([value for key, value in tree.items() if key != "files"])


def test_the_guide_has_exactly_the_fields_that_are_sent(address: str) -> None:
    tables = documented(HOWTO.read_text(encoding="utf-8"))
    times = [("timestamp_granularities[]", one) for one in ("word", "segment")]
    answer = json.loads(send(address, ("response_format", "verbose_json"), *times))
    assert keys_of(answer) == tables["answer"]
    sent = events(send(address, ("stream", "true")))
    (error,) = events(send(address, ("stream", "true"), audio=b"no audio"))
    assert keys_of(sent) | {*error} == tables["event"]


def documented(guide: str) -> dict[str, set[str]]:
    """The fields of each table that are not absent."""
    tables = re.findall(r"\| field of (?:the|an) (\w+) \|.*\n\|---\|---\|\n((?:\|.*\n)+)", guide)
    return {
        name: {
            field
            for row in rows.splitlines()
            if not row.endswith("| absent |")
            for field in re.findall("`([^`]+)`", row.split("|")[1])
        }
        for name, rows in tables
    }


def test_a_proxy_passes_each_event_on_as_it_comes(address: str) -> None:
    body, kind = form(("stream", "true"))
    request = Request(f"{address}v1/audio/transcriptions", body, {"Content-Type": kind})  # noqa: S310
    with urlopen(request) as response:  # noqa: S310
        assert response.headers["X-Accel-Buffering"] == "no"  # which nginx obeys


@pytest.mark.parametrize(
    ("audio", "status", "kind"),
    [(b"no audio", 400, "invalid_request_error"), (b"RIFF fault", 500, "server_error")],
)
def test_an_error_is_answered_and_ends_a_stream(
    address: str, audio: bytes, status: int, kind: str
) -> None:
    (event,) = events(send(address, ("stream", "true"), audio=audio))
    assert (event["type"], event["error"]["type"]) == ("error", kind)
    code, message = refused(address, audio=audio)
    assert (code, message) == (status, event["error"]["message"])


def test_the_model_is_listed_and_other_addresses_are_refused_as_clients_read_it(
    address: str,
) -> None:
    with urlopen(f"{address}v1/models") as response:  # noqa: S310
        (model,) = json.loads(response.read())["data"]
    assert (model["id"], model["object"], type(model["created"])) == ("<i>m</i>", "model", int)
    with pytest.raises(HTTPError, match="404") as refusal:
        urlopen(f"{address}v1/audio/speech")  # noqa: S310
    assert json.loads(refusal.value.read())["error"]["type"] == "invalid_request_error"


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
        ([("model", "m")], b"RIFF" + bytes(1_011_000), 413, "--max-mb"),
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


@pytest.mark.parametrize("kind", ["audio/wav", "multipart/form-data"])
def test_a_client_that_sends_no_form_reads_why(kind: str) -> None:
    """A connection that is closed before it has sent all would be broken for it."""
    with serving(make_app(max_mb=20)) as address:
        code, message = refused(address, audio=bytes(10_000_000), headers={"Content-Type": kind})
    assert (code, re.search("file|boundary", message) is not None) == (400, True)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_file_of_the_largest_size_is_accepted(address: str, *, chunked: bool) -> None:
    assert send(address, audio=b"RIFF" + bytes(1_000_000 - 4), chunked=chunked)


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


FOREIGN = [
    ({"Origin": "http://evil.example"}, 403),
    ({"Host": "evil.example"}, 403),
    ({"Host": "127.0.0.1.evil.org"}, 403),
    ({"Host": "["}, 400),
    ({"Host": ""}, 400),
]


@pytest.mark.parametrize(("headers", "status"), FOREIGN)
def test_pages_of_other_sites_are_refused(
    address: str, headers: dict[str, str], status: int
) -> None:
    assert refused(address, headers=headers)[0] == status
    with pytest.raises(HTTPError, match=str(status)):
        urlopen(Request(address, headers=headers))  # noqa: S310


def test_names_and_origins_that_were_allowed_are_answered() -> None:
    hosts, origin = allowed_names(["Asr.Local:8000"]), "app://notes.example"
    with serving(make_app(hosts=hosts, origins=[origin])) as address:
        assert send(address, headers={"Host": "asr.local"})
        assert send(address, headers={"Host": "asr.local", "Origin": "https://asr.local"})
        request = Request(f"{address}v1/models", headers={"Origin": origin})  # noqa: S310
        with urlopen(request) as response:  # noqa: S310
            assert response.headers["Access-Control-Allow-Origin"] == origin
        assert refused(address, headers={"Origin": "app://other.example"})[0] == 403
    with pytest.raises(ConfigError, match="--allow-host"):
        allowed_names(["["])


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
