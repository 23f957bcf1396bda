"""Download a file so that an interrupted download continues where it ended."""

from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen

from danish_asr.base.errors import DownloadError, UnreachableError

_AGENT: Final = "Mozilla/5.0 (X11; Linux x86_64)"
"""Hosts of models answer 403 to programs that they do not know, so fairseq2 0.6 does the same."""

Show = Callable[[int, int | None], None]
"""Called with the bytes so far, those of earlier calls included, and of the file, or None."""


def download(url: str, folder: Path, show: Show) -> Path:
    """Download ``url`` into ``folder``, which holds nothing else, and return the complete file.

    What has arrived stays there as ``part``, and the next call asks for the rest, or for all of it
    if there is none. A longer file that has changed on the server meanwhile is not noticed.

    Raises:
        UnreachableError: The server cannot be reached, or ends connections.
        DownloadError: It does not have the file, or answers with a web page.
    """
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / "part"
    try:
        return _receive(url, part, show)
    except HTTPError as error:
        error.close()
        if error.code == 416 and part.is_file():  # it has no more than what has arrived
            part.unlink()
            return download(url, folder, show)
        answer = f"the server answers {error.code} {error.reason}"
        raise DownloadError(f"{url}: {answer}; check the address in the card") from None
    except (URLError, ConnectionError, TimeoutError, HTTPException) as error:
        problem = getattr(error, "reason", error)
        raise UnreachableError(f"{url}: {problem}; what has arrived is kept") from None


def _receive(url: str, part: Path, show: Show) -> Path:
    headers = {"User-Agent": _AGENT}
    begin = part.stat().st_size if part.is_file() else 0
    if begin:
        headers["Range"] = f"bytes={begin}-"
    with urlopen(Request(url, headers=headers), timeout=60) as answer:  # noqa: S310 - of a card
        if answer.headers.get_content_type() == "text/html":
            page = "answered with a web page, of a proxy or a login perhaps"
            raise DownloadError(f"{url}: {page}; open the address in a browser")
        begin *= answer.status == 206
        length = answer.headers["Content-Length"]
        total = begin + int(length) if length else None
        with part.open("ab" if begin else "wb") as stream:
            show(begin, total)
            while chunk := answer.read1(1 << 20):
                stream.write(chunk)
                begin += len(chunk)
                show(begin, total)
        name = answer.headers.get_filename() or unquote(urlsplit(answer.url).path)
    if total is not None and begin != total:
        raise ConnectionError(f"the connection ended at {begin:,} of {total:,} bytes")
    return part.rename(part.with_name(Path(name).name))
