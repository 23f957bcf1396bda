"""Servers of a stand-in for a model in this process, and what clients send."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from fairseq2.data.tokenizers import Tokenizer
from fastapi import FastAPI
from torch import Tensor

from danish_asr.base.errors import TranscriptionError
from danish_asr.decoding.ctc import GreedyDecoder
from danish_asr.decoding.transcript import Segment, Word
from danish_asr.inference import serve

uvicorn = pytest.importorskip("uvicorn", reason="the extra 'serve'")

WORDS = [Word("røde", 0.25, 0.5, 0.98), Word("<b>grød</b>", 0.75, 1.5, 0.05)]


class KnowsTwoWords:
    """Stands in for a model."""

    about = {"model": "m"}  # noqa: RUF012

    def stream(self, audio: bytes, *, progress: Any) -> Iterator[Segment]:
        if audio == b"RIFF fault":
            raise KeyError(audio)
        if audio == b"RIFF silent":
            return
        if not audio.startswith(b"RIFF"):
            raise TranscriptionError("the audio: undecodable audio; convert it to WAV")
        progress(2.00049, 2.0)
        yield Segment(0.25, 1.5, WORDS)
        yield Segment(59.6, 59.9, [Word("hej", 59.6, 59.9, 0.5)])

    def why_empty(self, _audio: bytes) -> str:
        return "no speech was found"


class Slow:
    """A decoder that takes ten minutes from its second batch on, and touches a file then."""

    def __init__(self, tokenizer: Tokenizer, begun: str) -> None:
        self.begun = Path(begun)
        self.decoders: list[Any] = [self.sleep, GreedyDecoder(tokenizer)]

    def __call__(self, log_probs: list[Tensor]) -> list[str]:
        texts: list[str] = self.decoders[-1](log_probs)
        del self.decoders[1:]
        return texts

    def sleep(self, _log_probs: list[Tensor]) -> list[str]:
        self.begun.touch()
        time.sleep(600)
        return []


def make_app(max_mb: int = 1, model: Any = None, **allowed: Any) -> FastAPI:
    model = model or KnowsTwoWords()
    return serve.create_app(model, name="<i>m</i>", language="da", max_mb=max_mb, **allowed)


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """The address of a server on a free port."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()


def form(*fields: tuple[str, str], audio: bytes = b"RIFF\r\n--\r\n\0\r\n") -> tuple[bytes, str]:
    """A form as programs send it, and its content type."""
    parts = [f'form-data; name="{name}"\r\n\r\n{value}'.encode() for name, value in fields]
    if audio:
        head = 'form-data; name="file"; filename="æ.wav"\r\nContent-Type: audio/wav\r\n\r\n'
        parts.append(head.encode() + audio)
    body = b"".join(b"--x\r\nContent-Disposition: " + part + b"\r\n" for part in parts)
    return body + b"--x--\r\n", "multipart/form-data; boundary=x"


def send(address: str, *fields: tuple[str, str], **options: Any) -> str:
    """Send a form, and return the answer."""
    headers, chunked = options.pop("headers", {}), options.pop("chunked", False)
    body, kind = form(*fields, **options)
    request = Request(  # noqa: S310 - of this machine
        f"{address}v1/audio/transcriptions",
        iter([body[:100], body[100:]]) if chunked else body,  # without its length
        {"Content-Type": kind, **headers},
    )
    with urlopen(request, timeout=20) as response:  # noqa: S310
        content: bytes = response.read()
    return content.decode()


def refused(address: str, *fields: tuple[str, str], **options: Any) -> tuple[int, str]:
    """Send a form that is refused; return the status and the message."""
    with pytest.raises(HTTPError) as refusal:
        send(address, *fields, **options)
    return refusal.value.code, json.loads(refusal.value.read())["error"]["message"]


def events(answer: str) -> list[Any]:
    """The server-sent events of an answer."""
    lines = [line for line in answer.split("\n\n") if line]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


@contextmanager
def sent(
    address: str, *fields: tuple[str, str], audio: bytes, share: float = 1
) -> Iterator[socket.socket]:
    """A request of which a share is sent, and whose client leaves at the end of the context."""
    body, kind = form(*fields, audio=audio)
    place = urlsplit(address)
    head = f"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: {place.netloc}\r\n"
    head += f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    content = head.encode() + body
    with socket.create_connection((place.hostname, place.port), timeout=30) as connection:
        connection.sendall(content[: round(share * len(content))])
        yield connection
