"""A download that is interrupted continues where it ended."""

import io
from email.message import Message
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request

import pytest

from danish_asr.base import download as module
from danish_asr.base.errors import DownloadError, UnreachableError

CONTENT = bytes(range(256))


def answer(content: bytes, status: int = 200, **headers: object) -> io.BytesIO:
    """What a server answers that sends ``content`` of a file."""
    stream: Any = io.BytesIO(content)
    stream.status, stream.url, stream.headers = status, "http://host/a/w%20b.pt?k=1", Message()
    for name, value in headers.items():
        stream.headers[name.replace("_", "-")] = str(value)
    return stream  # type: ignore[no-any-return]


def fetched(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *answers: Any
) -> tuple[Path, list[Any], list[str | None]]:
    """Ask until a file is complete: the file, the bytes shown, and the parts asked for."""
    waiting, shown, asked = [*answers], list[Any](), list[str | None]()

    def urlopen(request: Request, **_: Any) -> Any:
        assert "Mozilla" in str(request.get_header("User-agent"))
        asked.append(request.get_header("Range"))
        if isinstance(waiting[0], Exception):
            raise waiting.pop(0)
        return waiting.pop(0)

    monkeypatch.setattr(module, "urlopen", urlopen)
    while True:
        try:
            file = module.download("http://host/x", folder, lambda *own: shown.append(own))
        except UnreachableError:
            shown.append("kept")
        else:
            return file, shown, asked


def test_a_download_goes_on_where_its_connection_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut, rest = answer(CONTENT[:100], Content_Length=256), answer(CONTENT[100:], 206)
    faults = (URLError("no route"), ConnectionError(), TimeoutError(), HTTPException())
    file, shown, asked = fetched(tmp_path / "new", monkeypatch, cut, *faults, rest)
    assert (file, file.read_bytes()) == (tmp_path / "new" / "w b.pt", CONTENT)
    assert shown == [(0, 256), (100, 256), *["kept"] * 5, (100, None), (256, None)]
    assert asked == [None, *["bytes=100-"] * 5]


def test_a_server_that_sends_all_again_is_read_from_the_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = answer(CONTENT[:100], Content_Length=256)
    whole = answer(CONTENT, Content_Length=256, Content_Disposition='attachment; filename="../b"')
    file, shown, _ = fetched(tmp_path, monkeypatch, cut, whole)
    assert (file, file.read_bytes()) == (tmp_path / "b", CONTENT)
    assert shown[-1] == (256, 256)


def test_what_has_arrived_and_cannot_be_continued_is_fetched_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is complete, as after a kill before it was renamed, or the server has another file."""
    cut, whole = answer(CONTENT[:100], Content_Length=256), answer(CONTENT, Content_Length=256)
    nothing_more = HTTPError("http://host/x", 416, "Range", Message(), io.BytesIO())
    file, _, asked = fetched(tmp_path, monkeypatch, cut, nothing_more, whole)
    assert (file.read_bytes(), asked) == (CONTENT, [None, "bytes=100-", None])


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (HTTPError("http://host/x", 404, "Not Found", Message(), io.BytesIO()), "404"),
        (answer(b"<html>", Content_Type="text/html; charset=utf-8"), "web page"),
    ],
)
def test_what_is_no_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Any, fault: str
) -> None:
    with pytest.raises(DownloadError, match=fault):
        fetched(tmp_path, monkeypatch, given)
