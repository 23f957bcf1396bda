"""``danish-asr serve``: a page, whose request gets segments as they come, and OpenAI's request."""

import ipaddress
import json
import select
import socket
import sys
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import Any, Final
from urllib.parse import urlsplit

from jinja2 import Template
from rich.console import Console

from danish_asr.base.errors import DanishAsrError
from danish_asr.decoding.transcript import Segment, Transcript
from danish_asr.inference.formats import FORMATS, rounded
from danish_asr.inference.serve import openai_form
from danish_asr.inference.transcribe import Settings
from danish_asr.recipe.run.run_directory import check_model

Send = Callable[[dict[str, Any]], None]
"""Sends a message to the page (`page.js`); raises ConnectionError if nobody is there any more."""

DOWNLOADS: Final = ("txt", "srt", "vtt", "json")

MAX_WAITING: Final = 8
"""Recordings in memory, with the one at work."""

_SLOWEST: Final = 100_000
"""Bytes a second that a client must send, after a first minute."""

_TYPES: Final = {"page.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "media-src blob:; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
}


def serve(model: str, *, host: str, port: int, max_mb: int, lm: Path | None, device: str) -> None:
    """Load a model and serve its page until Ctrl-C.

    ``port`` 0 takes a free one; ``max_mb`` limits a file, in 10^6 bytes; ``lm`` is a directory of
    ``lm build``, for beam search. Raises DanishAsrError if the address cannot be used or a model
    cannot be loaded.
    """
    check_model(model)
    settings = Settings(lm=lm)
    options = settings.options()
    title = Path(model).resolve().name
    language_model = lm and lm.resolve().name
    about = {"model": title, "decoder": options["decoder"], "lm": language_model}

    def transcribe(audio: bytes, send: Send) -> None:
        duration = 0.0

        def progress(seconds: float, total: float | None) -> None:
            nonlocal duration
            duration = seconds
            send({"done": seconds, "duration": total})

        segments: list[Segment] = []
        for segment in loaded.stream(audio, progress=progress, **options):
            segments.append(segment)
            send({"segment": segment.to_dict()})
        transcript = Transcript(duration, segments, about=about)
        files = {name: FORMATS[name](transcript) for name in DOWNLOADS}
        send({"files": files, "duration": duration})

    server = Server(transcribe, model=title, host=host, port=port, max_mb=max_mb)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"loading {model} ...", markup=False)
    loaded = settings.load(model, device)
    if not server.is_local:
        console.print(
            f"[yellow]warning:[/yellow] --host {host}: everybody who reaches port "
            f"{server.server_port} of this machine can use the page. Browsers record only on "
            "localhost or over HTTPS; for one user an SSH tunnel is better"
        )
    console.print(f"{model} on {loaded.device}: {server.url} (Ctrl-C ends it)", markup=False)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.close()


class Server(ThreadingHTTPServer):
    """Serves the page at ``url``; one transcription at a time.

    ``transcribe`` takes the bytes of an audio file and what sends messages to the page, which shows
    a `DanishAsrError`. Raises DanishAsrError if there is no such host or the port cannot be used.
    """

    def __init__(
        self,
        transcribe: Callable[[bytes, Send], None],
        *,
        model: str,
        host: str,
        port: int,
        max_mb: int,
    ) -> None:
        self.transcribe, self.model, self.max_mb = transcribe, model, max_mb
        self.turn, self.places, self.closing = Lock(), BoundedSemaphore(MAX_WAITING), False
        self.names = {host.lower(), "localhost", socket.gethostname().lower()}
        here = files("danish_asr.inference.serve")
        self.files = {name: here.joinpath(name).read_text("utf-8") for name in _TYPES}
        page = Template(self.files["page.html"], autoescape=True)
        self.files["page.html"] = page.render(model=model, max_mb=max_mb)
        try:
            self.address_family = socket.getaddrinfo(host, port)[0][0]
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise DanishAsrError(
                f"cannot serve on --host {host} --port {port}: {error}; choose another"
            ) from error
        address = ipaddress.ip_address(str(self.server_address[0]))
        self.is_local = address.is_loopback
        name = socket.gethostname() if address.is_unspecified else host
        self.url = f"http://{f'[{name}]' if ':' in name else name}:{self.server_port}/"

    def close(self) -> None:
        """Stop after the model's current step: a thread in it could crash the interpreter's end."""
        self.closing = True
        self.server_close()
        with self.turn:
            pass

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print the traceback of a bug; a browser that goes away is none."""
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = 60

    def do_GET(self) -> None:
        name = urlsplit(self.path).path.removeprefix("/") or "page.html"
        if not self._is_ours():
            message = f"The page is at {self.server.url} only; serve --host NAME adds a name."
            self._refuse(HTTPStatus.FORBIDDEN, message)
        elif f"/{name}" == openai_form.MODELS:
            self._answer(openai_form.models(self.server.model))
        elif name not in self.server.files:
            self._refuse(HTTPStatus.NOT_FOUND, "There is no such page.")
        else:
            self._begin(HTTPStatus.OK, f"{_TYPES[name]}; charset=utf-8")
            self.wfile.write(self.server.files[name].encode())

    def do_POST(self) -> None:
        server, path = self.server, urlsplit(self.path).path
        answers = {"/transcribe": self._transcribe, openai_form.PATH: self._transcribe_form}
        stated = self.headers.get("Content-Length", "")
        # More digits would be more than any limit.
        size = int(stated[:15]) if stated.isascii() and stated.isdigit() else -1
        if not self._is_ours():
            self._refuse(HTTPStatus.FORBIDDEN, f"Only the page at {server.url} can send audio.")
        elif path not in answers:
            self._refuse(HTTPStatus.NOT_FOUND, "There is no such page.")
        elif size < 0:
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "The request does not state its length.")
        elif size > server.max_mb * 1_000_000:
            self._refuse(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"The file has {size / 1e6:.0f} MB. At most {server.max_mb} MB are accepted.",
            )
        elif not server.places.acquire(blocking=False):
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "Too many recordings wait. Try later.")
        else:
            try:
                body = self._read(size)
                if len(body) == size:
                    answers[path](body)
            finally:
                server.places.release()

    def _read(self, size: int) -> bytes:
        """Read the body, less if the client goes away or is too slow."""
        end = time.monotonic() + self.timeout + size / _SLOWEST
        body = bytearray()
        while len(body) < size and (part := self.rfile.read1(min(size - len(body), 1 << 16))):
            body += part
            if time.monotonic() > end and len(body) < size:
                self._refuse(HTTPStatus.REQUEST_TIMEOUT, "The file comes too slowly.")
                break
        return bytes(body)

    def _transcribe(self, audio: bytes) -> None:
        self._begin(HTTPStatus.OK, "application/x-ndjson")
        while not self.server.turn.acquire(timeout=1):
            self._send({"waiting": True})
        try:
            self.server.transcribe(audio, self._send)
        except DanishAsrError as error:
            self._send({"error": str(error)})
        except (ConnectionError, TimeoutError):
            raise
        except Exception:
            self._send({"error": "The server failed; its terminal says more."})
            raise
        finally:
            self.server.turn.release()

    def _transcribe_form(self, body: bytes) -> None:
        """Answer a program that knows OpenAI's interface, at the end and at once."""
        messages: list[dict[str, Any]] = []

        def collect(message: dict[str, Any]) -> None:
            gone = select.select([self.connection], [], [], 0)[0]
            if self.server.closing or (gone and not self.connection.recv(1, socket.MSG_PEEK)):
                raise ConnectionAbortedError
            messages.append(rounded(message))

        try:
            form = openai_form.read_form(self.headers.get("Content-Type", ""), body)
            with self.server.turn:
                self.server.transcribe(form.audio, collect)
        except DanishAsrError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
            return
        except (ConnectionError, TimeoutError):
            raise
        except Exception:
            message = "The server failed; its terminal says more."
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, message)
            raise
        segments = [message["segment"] for message in messages if "segment" in message]
        end = messages[-1]
        found = openai_form.Transcription(end["files"], end["duration"], segments)
        kind, text = form.answer(found)
        self._begin(HTTPStatus.OK, kind)
        self.wfile.write(text.encode())

    def _is_ours(self) -> bool:
        """Whether the browser has a page of this server open, and not one of another site.

        A site whose DNS name points here (DNS rebinding) has its name in ``Host``; an address
        cannot be such a name. Any other site has its address in ``Origin``.
        """
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        try:
            name = urlsplit(f"//{host}").hostname or ""
            is_known = name in self.server.names or bool(ipaddress.ip_address(name))
        except ValueError:
            return False
        return is_known and origin in {None, f"http://{host}", f"https://{host}"}

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        if urlsplit(self.path).path.startswith("/v1/"):
            self._answer(openai_form.error(message), status)
            return
        self._begin(status, "application/x-ndjson")
        self._send({"error": message})

    def _answer(self, message: dict[str, Any], status: HTTPStatus = HTTPStatus.OK) -> None:
        self._begin(status, openai_form.JSON)
        self.wfile.write(json.dumps(message).encode())

    def _begin(self, status: HTTPStatus, kind: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, **_HEADERS}.items():
            self.send_header(name, value)
        self.end_headers()

    def _send(self, message: dict[str, Any]) -> None:
        if self.server.closing:
            raise ConnectionAbortedError
        self.wfile.write(json.dumps(rounded(message)).encode() + b"\n")

    def log_message(self, *_: object) -> None:
        """Say nothing."""
