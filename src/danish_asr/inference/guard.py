"""Which requests `serve` answers: those of its own page and of programs, with files of a size."""

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from danish_asr.base.errors import ConfigError, MissingExtraError
from danish_asr.inference.answers import error_of

try:
    from fastapi.responses import JSONResponse
    from starlette.datastructures import Headers, MutableHeaders
    from starlette.exceptions import HTTPException
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
except ImportError:
    raise MissingExtraError("serve", "serve") from None

OWN_NAMES: Final = frozenset({"127.0.0.1", "localhost"})
_HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

_REST: Final = 10_000
"""Bytes of a form beside its file, which are few."""


def allowed_names(hosts: Iterable[str]) -> frozenset[str]:
    """Return the names of this machine and of ``hosts``; raises ConfigError if one is no name."""
    names = {host: _name_of(host) for host in hosts}
    if faults := [f"--allow-host {host}: is no name" for host, name in names.items() if not name]:
        raise ConfigError(faults, where="the command")
    return OWN_NAMES.union(filter(None, names.values()))


class Guard:
    """Refuses pages of other sites, and files that are too large.

    A site whose DNS name points here (DNS rebinding) has its name in ``Host``. Any other site has
    its address in ``Origin``. It is plain ASGI: below Starlette's own form of middleware, no client
    is ever seen to leave.

    Args:
        app: What answers the other requests.
        max_mb: The largest file, in 10^6 bytes.
        hosts: Names that ``Host`` may have.
        origins: Values of ``Origin`` beside the address of the page.
    """

    def __init__(
        self, app: ASGIApp, max_mb: int, hosts: frozenset[str], origins: Iterable[str]
    ) -> None:
        self._app = app
        self._max_mb = max_mb
        self._hosts = hosts
        self._origins = {*origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        body = _Body(receive)

        async def receive_checked() -> Message:
            message = await body.read()
            self._check_size(body.size)  # the header may not state it
            return message

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                await body.skip()
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._check(Headers(scope=scope))
        except HTTPException as refusal:
            answer = JSONResponse(
                error_of(refusal.status_code, refusal.detail), refusal.status_code
            )
            await answer(scope, receive, send_with_headers)
            return
        await self._app(scope, receive_checked, send_with_headers)

    def _check(self, headers: Headers) -> None:
        """Refuse a request by its headers; raises HTTPException."""
        host, origin = headers.get("host", ""), headers.get("origin")
        name = _name_of(host)
        if name is None:
            raise HTTPException(400, f"The header Host has no name: '{host}'.")
        if name not in self._hosts:
            raise HTTPException(
                403, f"The name '{name}' is not allowed; danish-asr serve --allow-host allows it."
            )
        own_page = {None, f"http://{host}", f"https://{host}"}  # https by a proxy
        if origin not in own_page | self._origins:
            raise HTTPException(
                403,
                f"The page or program '{origin}' is not allowed; danish-asr serve --allow-origin "
                "allows it.",
            )
        self._check_size(int(headers.get("content-length", 0)))

    def _check_size(self, size: int) -> None:
        if size > self._max_mb * 1_000_000 + _REST:
            raise HTTPException(
                413,
                f"The file has more than {self._max_mb} MB; danish-asr serve --max-mb allows more.",
            )


class _Body:
    """The body of a request, as it comes in."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.size = 0  # bytes so far
        self._has_ended = False

    async def read(self) -> Message:
        """Return the next message, as ASGI's ``receive`` does."""
        message = await self._receive()
        self.size += len(message.get("body", b""))
        self._has_ended = not message.get("more_body")
        return message

    async def skip(self) -> None:
        """Read the rest: a client that still sends reads no answer, but loses its connection."""
        while not self._has_ended:
            await self.read()


def _name_of(host: str) -> str | None:
    """Return the name of a host with or without a port, in small letters; None if it has none."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:  # "["
        return None
