"""The server of the page: who may use it, one transcription at a time, nothing left behind."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any

import pytest

from danish_asr.base.errors import DanishAsrError
from danish_asr.inference.serve.server import MAX_WAITING, Send, Server


class _Speech:
    """Stands in for a model: what is in the audio is the text, and the test says when."""

    def __init__(self) -> None:
        self.at_work = 0
        self.most_at_work = 0
        self.going_on = threading.Event()
        self.given_up = threading.Event()

    def __call__(self, audio: bytes, send: Send) -> None:
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        try:
            send({"done": 1, "duration": 2})
            while audio == b"endless":
                send({"done": 1, "duration": self.going_on.wait(0.01)})
            self.going_on.wait(60)
            send({"files": {"txt": audio.decode()}, "duration": 2})
        except ConnectionError:
            self.given_up.set()
            raise
        finally:
            self.at_work -= 1


@pytest.fixture
def speech() -> _Speech:
    return _Speech()


@contextmanager
def serving(transcribe: Any, *, model: str = "m", host: str = "127.0.0.1") -> Iterator[Server]:
    server = Server(transcribe, model=model, host=host, port=0, max_mb=1)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.close()
        thread.join()


@pytest.fixture
def server(speech: _Speech) -> Iterator[Server]:
    with serving(speech) as server:
        yield server


def _open(server: Server) -> HTTPConnection:
    return HTTPConnection("127.0.0.1", server.server_port, timeout=60)


def _post(server: Server, audio: bytes, **headers: str) -> tuple[int, list[dict[str, Any]]]:
    connection = _open(server)
    connection.request("POST", "/transcribe", audio, headers)
    response = connection.getresponse()
    return response.status, [json.loads(line) for line in response.read().splitlines()]


def test_the_page_allows_no_foreign_script_and_shows_a_name_as_text(speech: _Speech) -> None:
    with serving(speech, model="<script>alert(1)</script>") as server:
        connection = _open(server)
        connection.request("GET", "/")
        response = connection.getresponse()
        page = response.read().decode()
    assert "&lt;script&gt;alert" in page
    assert "default-src 'none'; script-src 'self'" in str(response.headers)
    assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "[::1", ""])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_foreign_name_that_points_here_is_refused(server: Server, host: str, method: str) -> None:
    connection = _open(server)
    connection.request(method, "/transcribe", b"hej", {"Host": host})
    response = connection.getresponse()
    assert response.status == 403
    assert server.url in response.read().decode()


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", ""])
def test_a_page_of_another_site_cannot_send_audio(server: Server, origin: str) -> None:
    status, (message,) = _post(server, b"hej", Origin=origin)
    assert status == 403
    assert server.url in message["error"]


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]", "192.168.1.2"])
def test_addresses_of_this_machine_and_tunnels_are_accepted(
    server: Server, speech: _Speech, name: str
) -> None:
    speech.going_on.set()
    status, _ = _post(server, b"hej", Host=f"{name}:9000", Origin=f"http://{name}:9000")
    assert status == 200


@pytest.mark.parametrize(
    ("length", "status", "says"),
    [
        *(("1000001", 413, "At most 1 MB"), ("9" * 400, 413, "At most 1 MB")),
        *((None, 411, "length"), ("-1", 411, "length")),
    ],
)
def test_a_file_that_is_too_large_is_refused_before_it_is_read(
    server: Server, length: str | None, status: int, says: str
) -> None:
    connection = _open(server)
    connection.putrequest("POST", "/transcribe")
    if length:
        connection.putheader("Content-Length", length)
    connection.endheaders()
    response = connection.getresponse()
    assert response.status == status
    assert says in json.loads(response.read())["error"]


def test_a_client_that_sends_too_slowly_is_refused_and_keeps_no_place(
    server: Server, speech: _Speech, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("danish_asr.inference.serve.server._Handler.timeout", 5)
    monkeypatch.setattr("danish_asr.inference.serve.server._SLOWEST", -1)  # each is too slow
    for _ in range(MAX_WAITING + 1):
        connection = _open(server)
        connection.putrequest("POST", "/transcribe")
        connection.putheader("Content-Length", "10")
        connection.endheaders(b"a")
        response = connection.getresponse()
        assert (response.status, b"slowly" in response.read()) == (408, True)
    monkeypatch.undo()
    speech.going_on.set()
    assert _post(server, b"hej")[0] == 200


def test_a_bug_is_reported_and_the_next_is_transcribed(
    server: Server, speech: _Speech, capsys: pytest.CaptureFixture[str]
) -> None:
    speech.going_on.set()
    assert "terminal" in _post(server, b"\xff")[1][-1]["error"]
    assert _post(server, b"hej")[1][-1]["files"] == {"txt": "hej"}
    printed = capsys.readouterr()
    assert "UnicodeDecodeError" in printed.err
    assert "hej" not in printed.err + printed.out


def test_one_recording_is_transcribed_at_a_time_and_the_others_wait(
    server: Server, speech: _Speech
) -> None:
    responses = []
    for text, first in ((b"a", {"done": 1, "duration": 2}), (b"b", {"waiting": True})):
        connection = _open(server)
        connection.request("POST", "/transcribe", text)
        responses.append(connection.getresponse())
        assert json.loads(responses[-1].readline()) == first
    speech.going_on.set()
    answers = [[json.loads(line) for line in response] for response in responses]
    assert speech.most_at_work == 1
    assert [messages[-1]["files"]["txt"] for messages in answers] == ["a", "b"]
    assert not any({"waiting": True} in messages for messages in answers)


def test_a_client_that_goes_away_frees_its_turn(server: Server, speech: _Speech) -> None:
    for _ in range(MAX_WAITING + 1):
        connection = _open(server)
        connection.request("POST", "/transcribe", b"endless")
        response = connection.getresponse()
        response.readline()
        response.close()
        connection.close()
        assert speech.given_up.wait(60)
        speech.given_up.clear()
    speech.going_on.set()
    assert _post(server, b"hej")[0] == 200


def test_more_recordings_than_fit_in_memory_are_refused(server: Server) -> None:
    connections = [_open(server) for _ in range(MAX_WAITING)]
    for connection in connections:
        connection.request("POST", "/transcribe", b"endless")
    responses = [connection.getresponse() for connection in connections]
    for response in responses:
        response.readline()
    status, (message,) = _post(server, b"hej")
    assert status == 503
    assert "Try later" in message["error"]
    for response in responses:
        response.close()


def test_the_server_ends_while_a_client_is_served(speech: _Speech) -> None:
    with serving(speech) as server:
        connection = _open(server)
        connection.request("POST", "/transcribe", b"endless")
        connection.getresponse().readline()
    assert speech.given_up.is_set()
    connection.close()


def test_a_port_in_use_and_an_unknown_host_are_errors(server: Server, speech: _Speech) -> None:
    for wrong in ({"port": server.server_port}, {"host": "nowhere.invalid"}, {"port": 70_000}):
        options: dict[str, Any] = {"host": "127.0.0.1", "port": 0} | wrong
        with pytest.raises(DanishAsrError, match=r"--host .* --port"):
            Server(speech, model="m", max_mb=1, **options)


@pytest.mark.parametrize(("host", "local"), [("127.0.0.1", True), ("0.0.0.0", False)])  # noqa: S104
def test_only_loopback_counts_as_local(speech: _Speech, host: str, *, local: bool) -> None:
    with serving(speech, host=host) as server:
        assert server.is_local == local
