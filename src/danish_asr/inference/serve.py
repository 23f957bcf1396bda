"""``danish-asr serve``: a page on this machine, and OpenAI's request for transcriptions.

``GET /`` is the page. ``POST /v1/audio/transcriptions`` takes a form with a file and answers as
https://platform.openai.com/docs/api-reference/audio/createTranscription says; with ``stream=true``
it sends server-sent events, each segment as soon as it ends, which the page reads. Nothing is kept.
"""

import asyncio
import json
import secrets
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from jinja2 import Template
from rich.console import Console

from danish_asr.base.errors import DanishAsrError, MissingExtraError
from danish_asr.base.stops import ends_in_time, exit_if_held
from danish_asr.decoding.transcript import Segment, Transcript
from danish_asr.inference.formats import FORMATS
from danish_asr.inference.worker import GivenUpError, Transcription, Worker
from danish_asr.recipe.run.run import check_model

try:
    import uvicorn
    from fastapi import Depends, FastAPI, File, Form, Request, UploadFile
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import (
        HTMLResponse,
        JSONResponse,
        PlainTextResponse,
        Response,
        StreamingResponse,
    )
    from starlette.datastructures import MutableHeaders
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
except ImportError:
    raise MissingExtraError("serve", "serve") from None

_HOST: Final = "127.0.0.1"
_NAMES: Final = frozenset({_HOST, "localhost"})

_Format = Literal["json", "verbose_json", "text", "srt", "vtt"]
_DOWNLOADS: Final = ("txt", "srt", "vtt", "json")

_HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_POLICY: Final = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src "
    "'self'; media-src blob:; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


def serve(model: str, load: Mapping[str, Any], *, port: int, max_mb: int) -> None:
    """Load a model and serve its page on this machine until Ctrl-C.

    ``load`` are further arguments of `load_model`; ``max_mb`` limits a file, in 10^6 bytes. Raises
    what `load_model` does.
    """
    check_model(model)
    try:
        listener = socket.create_server((_HOST, port))
    except OSError as error:
        raise DanishAsrError(f"--port {port}: {error.strerror}; choose another") from error
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"loading {model} ...", markup=False)

    from danish_asr.inference.model import load_model  # noqa: PLC0415 - slow
    from danish_asr.inference.run_facts import facts_of  # noqa: PLC0415 - slow

    loaded, name = load_model(model, **load), Path(model).resolve().name
    loaded.about = {**loaded.about, "model": name}  # transcripts show no folder of this machine
    languages = facts_of(model).languages
    app = create_app(
        loaded,
        name=name,
        language=languages[0] if len(languages) == 1 else "",
        max_mb=max_mb,
    )
    address = f"http://{_HOST}:{port}/"
    console.print(f"{model} on {loaded.device}: {address} (Ctrl-C ends it)", markup=False)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2)
    worker: Worker = app.state.worker
    with suppress(KeyboardInterrupt):  # which is how it ends
        _Server(config, worker).run(sockets=[listener])
    with suppress(KeyboardInterrupt):  # a second one does not wait
        ends_in_time(worker.join, seconds=1)
    exit_if_held(0)  # a batch of speech can take a large model half a minute


class _Server(uvicorn.Server):
    """A server that ends within a second or two, also while it transcribes."""

    def __init__(self, config: uvicorn.Config, worker: Worker) -> None:
        super().__init__(config)
        self._worker = worker

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer those who wait for a transcription that there will be none, and end."""
        self._worker.stop()
        await super().shutdown(sockets)


def create_app(model: Any, *, name: str, language: str, max_mb: int) -> FastAPI:
    """Return the application; ``model`` is a `danish_asr.inference.model.Model`."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    page = Template(
        files("danish_asr.inference").joinpath("page.html").read_text("utf-8"), autoescape=True
    )
    app.add_middleware(_Guard, max_mb=max_mb)
    app.state.worker = worker = Worker(model)

    async def transcription_of(request: Request) -> AsyncIterator[Transcription]:
        """Yield a transcription that ends with its request, however that ends."""
        with worker.transcription() as transcription:
            watch = asyncio.create_task(_give_up_without_client(transcription, request))
            try:
                yield transcription
            finally:
                watch.cancel()

    @app.exception_handler(DanishAsrError)
    async def explain(_: Request, error: Exception) -> Response:
        return _error(503 if isinstance(error, GivenUpError) else 400, str(error))

    @app.exception_handler(RequestValidationError)
    async def explain_form(_: Request, error: RequestValidationError) -> Response:
        return _error(400, "; ".join(f"{one['loc'][-1]}: {one['msg']}" for one in error.errors()))

    @app.get("/")
    async def show_page() -> Response:
        nonce = secrets.token_urlsafe()
        text = page.render(model=name, language=language, max_mb=max_mb, nonce=nonce)
        policy = {"Content-Security-Policy": _POLICY.format(nonce=nonce)}
        return HTMLResponse(text, headers=policy)

    @app.post("/v1/audio/transcriptions")
    async def transcribe(
        transcription: Annotated[Transcription, Depends(transcription_of)],
        file: Annotated[UploadFile, File()],
        response_format: Annotated[_Format, Form()] = "json",
        stream: Annotated[bool, Form()] = False,
    ) -> Response:
        transcription.start(await file.read())
        if stream:
            events = _events(transcription.items())
            return StreamingResponse(events, media_type="text/event-stream")
        *_, transcript = [item async for item in transcription.items()]
        return _answer(transcript, response_format, language)

    return app


def _answer(transcript: Any, response_format: str, language: str) -> Response:
    answer: dict[str, Any] = {"text": " ".join(transcript.text.split())}
    if response_format == "text":
        return PlainTextResponse(f"{answer['text']}\n")
    if response_format in FORMATS and response_format != "json":
        return PlainTextResponse(FORMATS[response_format](transcript))
    if response_format == "verbose_json":
        answer |= {
            "task": "transcribe",
            "language": language,
            "duration": transcript.duration,
            "segments": [{"id": n, **own.to_dict()} for n, own in enumerate(transcript.segments)],
            "words": [{"word": w.text, "start": w.start, "end": w.end} for w in transcript.words],
        }
    return JSONResponse(answer)


class _Guard:
    """Refuses pages of other sites, and files that are too large.

    It is plain ASGI: below Starlette's own form of middleware, no client is ever seen to leave.
    """

    def __init__(self, app: ASGIApp, max_mb: int) -> None:
        self._app = app
        self._max_mb = max_mb

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = _refusal(Request(scope), self._max_mb)
        if refusal is None:
            await self._app(scope, receive, send_with_headers)
            return
        while (await receive()).get("more_body"):
            pass  # a client that still sends reads no answer
        await _error(*refusal)(scope, receive, send_with_headers)


def _refusal(request: Request, max_mb: int) -> tuple[int, str] | None:
    """Return the status and the reason of a request that is not answered.

    A site whose DNS name points here (DNS rebinding) has its name in ``Host``. Any other site has
    its address in ``Origin``.
    """
    host, origin = request.headers.get("host", ""), request.headers.get("origin")
    if urlsplit(f"//{host}").hostname not in _NAMES or origin not in {None, f"http://{host}"}:
        return 403, "Only the page of this server can send audio."
    if request.method != "POST":
        return None
    size = request.headers.get("content-length", "")
    if not size.isdigit():
        return 411, "The request does not state its length."
    # The parts of a form beside the file are small.
    if int(size) > max_mb * 1_000_000 + 10_000:
        return 413, (
            f"The file has {int(size) / 1e6:.0f} MB. At most {max_mb} MB are accepted; "
            "danish-asr serve --max-mb allows more."
        )
    return None


def _error(status: int, message: str) -> JSONResponse:
    """A refusal as OpenAI's clients read it."""
    error = {"message": message, "type": "invalid_request_error", "code": None}
    return JSONResponse({"error": error}, status)


async def _give_up_without_client(transcription: Transcription, request: Request) -> None:
    """Wait until the client of a request that was read is gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    transcription.give_up("the client is gone")


async def _events(items: AsyncIterator[Segment | Transcript]) -> AsyncIterator[str]:
    """Yield OpenAI's events; each delta has its segment too, and the last has files."""
    try:
        async for item in items:
            if isinstance(item, Segment):
                yield _event("transcript.text.delta", delta=f"{item.text} ", segment=item.to_dict())
            else:
                contents = {name: FORMATS[name](item) for name in _DOWNLOADS}
                text = " ".join(item.text.split())
                yield _event(
                    "transcript.text.done", text=text, duration=item.duration, files=contents
                )
    except DanishAsrError as error:
        yield _event("error", error={"message": str(error)})


def _event(kind: str, **values: Any) -> str:
    return f"data: {json.dumps({'type': kind, **values})}\n\n"
