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
from danish_asr.decoding.transcript import Segment, Transcript
from danish_asr.inference.formats import FORMATS
from danish_asr.recipe.run.run_directory import check_model

try:
    import uvicorn
    from fastapi import FastAPI, File, Form, Request, UploadFile
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import (
        HTMLResponse,
        JSONResponse,
        PlainTextResponse,
        Response,
        StreamingResponse,
    )
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
    with suppress(KeyboardInterrupt):  # which is how it ends
        uvicorn.Server(config).run(sockets=[listener])


def create_app(model: Any, *, name: str, language: str, max_mb: int) -> FastAPI:
    """Return the application; ``model`` is a `danish_asr.inference.model.Model`."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    page = Template(
        files("danish_asr.inference").joinpath("page.html").read_text("utf-8"), autoescape=True
    )
    turn = asyncio.Lock()  # one transcription at a time

    @app.middleware("http")
    async def guard(request: Request, answer: Any) -> Response:
        """Refuse pages of other sites, and files that are too large."""
        refusal = _refusal(request, max_mb)
        if refusal is None:
            response: Response = await answer(request)
        else:
            async for _ in request.stream():
                pass  # a client that still sends reads no answer
            response = _error(*refusal)
        response.headers.update(_HEADERS)
        return response

    @app.exception_handler(DanishAsrError)
    async def explain(_: Request, error: Exception) -> Response:
        return _error(400, str(error))

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
        request: Request,
        file: Annotated[UploadFile, File()],
        response_format: Annotated[_Format, Form()] = "json",
        stream: Annotated[bool, Form()] = False,
    ) -> Response:
        transcription = _transcription(model, await file.read(), turn, request)
        if stream:
            return StreamingResponse(_events(transcription), media_type="text/event-stream")
        *_, transcript = [item async for item in transcription]
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
        return 413, f"The file has {int(size) / 1e6:.0f} MB. At most {max_mb} MB are accepted."
    return None


def _error(status: int, message: str) -> JSONResponse:
    """A refusal as OpenAI's clients read it."""
    error = {"message": message, "type": "invalid_request_error", "code": None}
    return JSONResponse({"error": error}, status)


async def _transcription(
    model: Any, audio: bytes, turn: asyncio.Lock, request: Request
) -> AsyncIterator[Segment | Transcript]:
    """Yield segments as they end, then the transcript; ends early if the client goes away."""
    spoken: list[Segment] = []
    seconds = 0.0

    def note(done: float, _: float | None) -> None:
        nonlocal seconds
        seconds = done

    async with turn:
        segments = model.stream(audio, progress=note)
        while (segment := await asyncio.to_thread(next, segments, None)) is not None:
            spoken.append(segment)
            yield segment
            if await request.is_disconnected():
                break
    yield Transcript(seconds, spoken, about=dict(model.about))


async def _events(transcription: AsyncIterator[Segment | Transcript]) -> AsyncIterator[str]:
    """Yield OpenAI's events; each delta has its segment too, and the last has files."""
    try:
        async for item in transcription:
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
