"""OpenAI's request: the five formats, and refusals as its clients read them."""

import json
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from danish_asr.base.errors import TranscriptionError
from danish_asr.inference.serve.server import Send, Server
from tests.unit.serve.test_server import serving

WORDS = [
    {"text": "hej", "start": 0.5, "end": 0.9, "confidence": 0.5},
    {"text": "med", "start": 1.0, "end": 1.2, "confidence": 0.0},
]


def _transcribe(audio: bytes, send: Send) -> None:
    """Stands in for a model; audio is bytes with line ends, as in a form."""
    if not audio.startswith(b"RIFF\r\n--"):
        raise TranscriptionError("the audio: cannot be decoded as audio")
    send({"segment": {"start": 0.5, "end": 1.2, "words": WORDS, "channel": None}})
    files = {"txt": "hej med\ndig\n", "srt": "1\n...", "vtt": "WEBVTT\n"}
    send({"files": files, "duration": 2.0})


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(_transcribe, model="danish") as server:
        yield server


def _send(server: Server, *fields: tuple[str, str], audio: bytes = b"RIFF\r\n--\r\n\0\r\n") -> Any:
    """Send a form as programs do; returns the answer."""
    boundary = uuid.uuid4().hex
    parts = [f'form-data; name="{name}"\r\n\r\n{value}'.encode() for name, value in fields]
    if audio:
        head = 'form-data; name="file"; filename="æ.wav"\r\nContent-Type: audio/wav\r\n\r\n'
        parts.append(head.encode() + audio)
    edge = f"--{boundary}".encode()
    body = b"".join(edge + b"\r\nContent-Disposition: " + part + b"\r\n" for part in parts)
    kind = f"multipart/form-data; boundary={boundary}"
    request = Request(  # noqa: S310 - of this machine
        f"{server.url}v1/audio/transcriptions", body + edge + b"--\r\n", {"Content-Type": kind}
    )
    with urlopen(request) as response:  # noqa: S310
        content: bytes = response.read()
    return content.decode()


def test_each_format_is_answered(server: Server) -> None:
    def ask(name: str) -> Any:
        return _send(server, ("model", "whisper-1"), ("response_format", name))

    assert json.loads(_send(server, ("model", "whisper-1"))) == {"text": "hej med dig"}
    assert json.loads(ask("json")) == {"text": "hej med dig"}
    assert ask("text") == "hej med dig\n"
    assert ask("srt") == "1\n..."
    assert ask("vtt") == "WEBVTT\n"
    verbose = json.loads(ask("verbose_json"))
    assert (verbose["duration"], verbose["text"]) == (2.0, "hej med dig")
    (segment,) = verbose["segments"]
    assert (segment["start"], segment["end"], segment["text"]) == (0.5, 1.2, "hej med")
    assert segment["avg_logprob"] == pytest.approx(-10.708, abs=1e-3)  # of 0.5 and 1e-9
    assert "words" not in verbose


def test_words_have_times_where_they_are_asked_for(server: Server) -> None:
    fields = ("response_format", "verbose_json"), ("timestamp_granularities[]", "word")
    assert json.loads(_send(server, *fields))["words"] == [
        {"word": "hej", "start": 0.5, "end": 0.9},
        {"word": "med", "start": 1.0, "end": 1.2},
    ]


@pytest.mark.parametrize(
    ("fields", "audio", "says"),
    [
        ([("response_format", "xml")], b"RIFF\r\n--", "json, verbose_json, text, srt, vtt"),
        ([("model", "m")], b"", "file: expected an audio file"),
        ([("model", "m")], b"no audio", "cannot be decoded"),
    ],
)
def test_a_request_that_cannot_be_answered_is_refused_as_clients_read_it(
    server: Server, fields: list[tuple[str, str]], audio: bytes, says: str
) -> None:
    with pytest.raises(HTTPError) as refusal:
        _send(server, *fields, audio=audio)
    assert refusal.value.code == 400
    assert says in json.loads(refusal.value.read())["error"]["message"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "audio/wav"}, 400),
        ({"Content-Type": "multipart/form-data"}, 400),
        ({"Content-Type": "multipart/form-data; boundary=x", "Origin": "http://evil.example"}, 403),
        ({"Content-Type": "multipart/form-data; boundary=x", "Host": "evil.example"}, 403),
    ],
)
def test_other_bodies_and_pages_of_other_sites_are_refused(
    server: Server, headers: dict[str, str], status: int
) -> None:
    with pytest.raises(HTTPError) as refusal:
        urlopen(  # noqa: S310
            Request(f"{server.url}v1/audio/transcriptions", b"--x\r\n", headers)  # noqa: S310
        )
    assert refusal.value.code == status
    assert json.loads(refusal.value.read())["error"]["message"]
    assert "Access-Control-Allow-Origin" not in refusal.value.headers


def test_programs_find_the_name_of_the_model(server: Server) -> None:
    with urlopen(f"{server.url}v1/models") as response:  # noqa: S310
        assert [model["id"] for model in json.load(response)["data"]] == ["danish"]
