"""``danish-asr serve``: a page on this machine, and OpenAI's requests.

``GET /`` is the page, ``GET /v1/models`` names the model. ``POST /v1/audio/transcriptions`` takes a
form with a file; with ``stream=true`` it sends server-sent events, each segment as soon as it ends,
which the page reads. Nothing is kept.
"""

import asyncio
import logging
import secrets
import socket
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final, Literal

from jinja2 import Template

from danish_asr.base.errors import DanishAsrError, MissingExtraError
from danish_asr.base.progress import plain_console
from danish_asr.base.stops import ends_in_time, exit_at_once, exit_if_held
from danish_asr.inference.answers import (
    delta_event,
    done_event,
    error_event,
    error_of,
    model_list,
    short_answer,
    verbose_answer,
)
from danish_asr.inference.formats import FORMATS
from danish_asr.inference.guard import OWN_NAMES, Guard, allowed_names
from danish_asr.inference.worker import BusyError, GivenUpError, Transcription, Worker
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
    from starlette.datastructures import FormData
    from starlette.exceptions import HTTPException
    from starlette.middleware.cors import CORSMiddleware
except ImportError:
    raise MissingExtraError("serve", "serve") from None

_HOST: Final = "127.0.0.1"

_Format = Literal["json", "verbose_json", "text", "srt", "vtt"]
_Times = Literal["word", "segment"]

_SINGLE: Final = ("file", "response_format", "stream")
"""The fields of a form that stand there once; of several, one would win in silence."""

_POLICY: Final = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src "
    "'self'; media-src blob:; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)

_UNBUFFERED: Final = {"X-Accel-Buffering": "no"}
"""Without it nginx holds the events of a stream back until all have come."""

_FAULT: Final = "The server failed. Its terminal says more."

_log: Final = logging.getLogger("uvicorn.error")


def serve(
    model: str,
    load: Mapping[str, Any],
    *,
    port: int,
    max_mb: int,
    allow_host: Sequence[str] = (),
    allow_origin: Sequence[str] = (),
) -> None:
    """Load a model and serve its page on this machine until Ctrl-C.

    Args:
        model: As for `load_model`.
        load: Its further arguments.
        port: The port.
        max_mb: The largest file, in 10^6 bytes.
        allow_host: Names of this machine in requests, beside localhost.
        allow_origin: Other pages and programs in a browser that may send audio.

    Raises ConfigError if a host is no name, and what `load_model` does.
    """
    check_model(model)
    names = allowed_names(allow_host)
    try:
        listener = socket.create_server((_HOST, port))
    except OSError as error:
        raise DanishAsrError(f"--port {port}: {error.strerror}; choose another") from error
    console = plain_console(stderr=True)
    console.print(f"loading {model} ...")

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
        hosts=names,
        origins=allow_origin,
    )
    address = f"http://{_HOST}:{port}/"
    console.print(f"{model} on {loaded.device}: {address} (Ctrl-C ends it)")
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2)
    worker: Worker = app.state.worker
    with suppress(KeyboardInterrupt):  # which is how it ends
        Server(config, worker).run(sockets=[listener])
    with suppress(KeyboardInterrupt):  # a second one does not wait
        ends_in_time(worker.join, seconds=1)
    exit_if_held(0)  # a batch of speech can take a large model half a minute


class Server(uvicorn.Server):
    """A server that ends within a second or two, also while it transcribes."""

    def __init__(self, config: uvicorn.Config, worker: Worker) -> None:
        super().__init__(config)
        self._worker = worker

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End at a signal, and at once at a second one."""
        if self.should_exit:
            exit_at_once(0)
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer those who wait for a transcription that there will be none, and end."""
        self._worker.stop()
        await super().shutdown(sockets)


def create_app(
    model: Any,
    *,
    name: str,
    language: str,
    max_mb: int,
    hosts: frozenset[str] = OWN_NAMES,
    origins: Sequence[str] = (),
) -> FastAPI:
    """Return the application; ``model`` is a `danish_asr.inference.model.Model`."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    page = Template(
        files("danish_asr.inference").joinpath("page.html").read_text("utf-8"), autoescape=True
    )
    app.add_middleware(Guard, max_mb=max_mb, hosts=hosts, origins=origins)
    if origins:  # a browser asks first, and reads only answers that allow it
        app.add_middleware(
            CORSMiddleware, allow_origins=origins, allow_methods=["*"], allow_headers=["*"]
        )
    app.state.worker = worker = Worker(model)
    loaded_at = round(time.time())
    _explain_errors(app)

    async def transcription_of(request: Request) -> AsyncIterator[Transcription]:
        """Yield a transcription that ends with its request, however that ends."""
        with worker.transcription() as transcription:
            watch = asyncio.create_task(_give_up_without_client(transcription, request))
            try:
                yield transcription
            finally:
                watch.cancel()

    @app.get("/")
    async def show_page() -> Response:
        nonce = secrets.token_urlsafe()
        text = page.render(model=name, language=language, max_mb=max_mb, nonce=nonce)
        policy = {"Content-Security-Policy": _POLICY.format(nonce=nonce)}
        return HTMLResponse(text, headers=policy)

    @app.get("/v1/models")
    async def list_models() -> Response:
        return JSONResponse(model_list(name, loaded_at))

    @app.post("/v1/audio/transcriptions")
    async def transcribe(
        *,
        request: Request,
        transcription: Annotated[Transcription, Depends(transcription_of)],
        file: Annotated[UploadFile, File()],
        response_format: Annotated[_Format, Form()] = "json",
        times: Annotated[list[_Times], Form(alias="timestamp_granularities[]")] = [],  # noqa: B006
        timestamp_granularities: Annotated[list[_Times], Form()] = [],  # noqa: B006
        stream: Annotated[bool, Form()] = False,
        temperature: Annotated[float, Form(allow_inf_nan=False)] = 0,  # noqa: ARG001 - is checked
    ) -> Response:
        wanted = {*times, *timestamp_granularities}
        has_words = stream or response_format == "verbose_json"
        _check(await request.form(), wanted, has_words=has_words)
        transcription.start(await file.read(), file.filename)
        if stream:
            return StreamingResponse(
                _events(transcription), media_type="text/event-stream", headers=_UNBUFFERED
            )
        transcript = await transcription.transcript()
        if response_format == "json":
            return JSONResponse(short_answer(transcript))
        if response_format == "verbose_json":
            return JSONResponse(verbose_answer(transcript, language, wanted or {"segment"}))
        if response_format == "text":
            return PlainTextResponse(f"{short_answer(transcript)['text']}\n")
        return PlainTextResponse(FORMATS[response_format](transcript))

    return app


def _check(form: FormData, times: Collection[str], *, has_words: bool) -> None:
    """Refuse what would have no effect, though each field is right; raises HTTPException.

    Vercel's AI SDK asks for segments of every format.
    """
    if repeated := [name for name in _SINGLE if len(form.getlist(name)) > 1]:
        raise HTTPException(400, f"{', '.join(repeated)}: more than one; send one in a request")
    if "word" in times and not has_words:
        raise HTTPException(400, "timestamp_granularities[]: words need verbose_json")


def _explain_errors(app: FastAPI) -> None:
    """Answer errors in the form that clients read."""

    def answer(status: int, message: str, **headers: str) -> Response:
        return JSONResponse(error_of(status, message), status, headers=headers)

    @app.exception_handler(DanishAsrError)
    async def explain(_: Request, error: DanishAsrError) -> Response:
        headers = {"Retry-After": str(error.seconds)} if isinstance(error, BusyError) else {}
        return answer(_status_of(error), str(error), **headers)

    @app.exception_handler(RequestValidationError)
    async def explain_form(_: Request, error: RequestValidationError) -> Response:
        return answer(400, "; ".join(map(_fault_of, error.errors())))

    @app.exception_handler(HTTPException)
    async def explain_request(_: Request, error: HTTPException) -> Response:
        if isinstance(error.__cause__, OSError):  # of the temporary file of an upload
            return answer(507, f"The file cannot be stored here: {error.__cause__.strerror}.")
        return answer(error.status_code, error.detail, **(error.headers or {}))

    @app.exception_handler(Exception)
    async def explain_fault(_: Request, _error: Exception) -> Response:
        return answer(500, _FAULT)


async def _give_up_without_client(transcription: Transcription, request: Request) -> None:
    """Wait until the client of a request that was read is gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    transcription.give_up("the client is gone")


async def _events(transcription: Transcription) -> AsyncIterator[str]:
    """Yield an event for each segment as it ends, and one for the end or the error."""
    try:
        async for segment in transcription.segments():
            yield delta_event(segment)
        yield done_event(await transcription.transcript(), transcription.why_empty)
    except DanishAsrError as error:
        yield error_event(_status_of(error), str(error))
    except Exception:  # noqa: BLE001 - the answer has begun
        _log.exception("a transcription failed")
        yield error_event(500, _FAULT)


def _fault_of(error: Mapping[str, Any]) -> str:
    """Say what is wrong with a field of a form, by pydantic's description."""
    _, field, *_ = error["loc"]
    fault = "is no file; curl sends one as -F file=@NAME" if field == "file" else error["msg"]
    return f"{field}: {fault}"


def _status_of(error: Exception) -> int:
    return 503 if isinstance(error, BusyError | GivenUpError) else 400
