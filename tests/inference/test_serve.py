"""The server: OpenAI's five formats and events, refusals as its clients read them, the page."""

import base64
import io
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request as HttpRequest
from urllib.request import urlopen

import numpy as np
import pytest
import soundfile
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse

from danish_asr.base.errors import TranscriptionError
from danish_asr.decoding.transcript import Segment, Word
from danish_asr.inference import serve
from tests.browser import drive, needs_browser

uvicorn = pytest.importorskip("uvicorn", reason="the extra 'serve'")


WORDS = [Word("røde", 0.25, 0.5, 0.98), Word("<b>grød</b>", 0.75, 1.5, 0.05)]


class KnowsTwoWords:
    """Stands in for a model."""

    about = {"model": "m"}  # noqa: RUF012

    def stream(self, audio: bytes, *, progress: Any) -> Iterator[Segment]:
        if not audio.startswith(b"RIFF"):
            raise TranscriptionError("the audio: cannot be decoded as audio; convert it to WAV")
        progress(2.0, 2.0)
        yield Segment(0.25, 1.5, WORDS)
        yield Segment(59.6, 59.9, [Word("hej", 59.6, 59.9, 0.5)])


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """The address of a server on a free port."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()


def make_app(max_mb: int = 1, model: Any = None) -> FastAPI:
    model = model or KnowsTwoWords()
    return serve.create_app(model, name="<i>m</i>", language="da", max_mb=max_mb)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(make_app()) as address:
        yield address


def form(*fields: tuple[str, str], audio: bytes = b"RIFF\r\n--\r\n\0\r\n") -> tuple[bytes, str]:
    """A form as programs send it, and its content type."""
    parts = [f'form-data; name="{name}"\r\n\r\n{value}'.encode() for name, value in fields]
    if audio:
        head = 'form-data; name="file"; filename="æ.wav"\r\nContent-Type: audio/wav\r\n\r\n'
        parts.append(head.encode() + audio)
    body = b"".join(b"--x\r\nContent-Disposition: " + part + b"\r\n" for part in parts)
    return body + b"--x--\r\n", "multipart/form-data; boundary=x"


def send(address: str, *fields: tuple[str, str], **options: Any) -> str:
    headers = options.pop("headers", {})
    body, kind = form(*fields, **options)
    request = HttpRequest(  # noqa: S310 - of this machine
        f"{address}v1/audio/transcriptions", body, {"Content-Type": kind, **headers}
    )
    with urlopen(request, timeout=20) as response:  # noqa: S310
        content: bytes = response.read()
    return content.decode()


def refused(address: str, *fields: tuple[str, str], **options: Any) -> tuple[int, str]:
    with pytest.raises(HTTPError) as refusal:
        send(address, *fields, **options)
    return refusal.value.code, json.loads(refusal.value.read())["error"]["message"]


def test_all_formats_are_answered(address: str) -> None:
    text = "røde <b>grød</b> hej"
    assert json.loads(send(address, ("model", "whisper-1"))) == {"text": text}
    assert send(address, ("response_format", "text")) == f"{text}\n"
    assert send(address, ("response_format", "srt")).startswith("1\n00:00:00,250 --> ")
    assert send(address, ("response_format", "vtt")).startswith("WEBVTT\n")
    verbose = json.loads(send(address, ("response_format", "verbose_json")))
    assert (verbose["duration"], verbose["text"], verbose["language"]) == (2.0, text, "da")
    first, second = verbose["segments"]
    assert (first["start"], first["end"], first["text"]) == (0.25, 1.5, "røde <b>grød</b>")
    assert (second["id"], second["text"]) == (1, "hej")
    assert verbose["words"][0] == {"word": "røde", "start": 0.25, "end": 0.5}


def test_segments_come_as_events(address: str) -> None:
    events = [
        json.loads(line.removeprefix("data: "))
        for line in send(address, ("stream", "true")).split("\n\n")
        if line
    ]
    *deltas, done = events
    assert [event["delta"] for event in deltas] == ["røde <b>grød</b> ", "hej "]
    assert (done["type"], done["duration"]) == ("transcript.text.done", 2.0)
    assert sorted(done["files"]) == ["json", "srt", "txt", "vtt"]
    (error,) = send(address, ("stream", "true"), audio=b"no audio").split("\n\n")[:1]
    assert "cannot be decoded" in json.loads(error.removeprefix("data: "))["error"]["message"]


@pytest.mark.parametrize(
    ("fields", "audio", "status", "says"),
    [
        ([("response_format", "xml")], b"RIFF", 400, "response_format"),
        ([("model", "m")], b"", 400, "file"),
        ([("model", "m")], b"no audio", 400, "cannot be decoded"),
        ([("model", "m")], b"RIFF" + bytes(1_100_000), 413, "At most 1 MB"),
    ],
)
def test_a_request_that_cannot_be_answered_is_refused_as_clients_read_it(
    address: str, fields: list[tuple[str, str]], audio: bytes, status: int, says: str
) -> None:
    code, message = refused(address, *fields, audio=audio)
    assert (code, says in message) == (status, True)


class Endless(KnowsTwoWords):
    """Hears a recording that does not end before ``ended`` is set, if it is named so."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.ended = threading.Event()
        self.now = self.most = 0  # recordings at once

    def stream(self, audio: bytes, *, progress: Any) -> Iterator[Segment]:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            while b"endless" in audio and not self.ended.wait(0.01):
                self.begun.set()
                progress(1.0, None)
            yield from super().stream(audio, progress=progress)
        finally:
            self.now -= 1


@contextmanager
def sent(address: str, *fields: tuple[str, str], audio: bytes) -> Iterator[None]:
    """A request that is sent, and whose client leaves at the end of the context."""
    body, kind = form(*fields, audio=audio)
    place = urlsplit(address)
    head = f"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: {place.netloc}\r\n"
    head += f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((place.hostname, place.port), timeout=20) as connection:
        connection.sendall(head.encode() + body)
        yield


@pytest.mark.parametrize("stream", ["true", "false"])
def test_recordings_whose_clients_leave_make_way_for_the_next(stream: str) -> None:
    model = Endless()
    with serving(make_app(model=model)) as address:
        try:
            with sent(address, ("stream", stream), audio=b"RIFF endless"):
                assert model.begun.wait(20)
                with sent(address, ("stream", stream), audio=b"RIFF endless"):
                    pass  # it leaves before its turn
            assert json.loads(send(address))["text"]
        finally:
            model.ended.set()
    assert model.most == 1


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://evil.example"}, {"Host": "evil.example"}, {"Host": "127.0.0.1.evil.org"}],
)
def test_pages_of_other_sites_are_refused(address: str, headers: dict[str, str]) -> None:
    assert refused(address, headers=headers)[0] == 403
    with pytest.raises(HTTPError):
        urlopen(HttpRequest(address, headers=headers))  # noqa: S310


def test_the_page_names_the_model_and_loads_nothing_from_elsewhere(address: str) -> None:
    with urlopen(address) as response:  # noqa: S310
        page, policy = response.read().decode(), response.headers["Content-Security-Policy"]
    assert "&lt;i&gt;m&lt;/i&gt;" in page
    assert not re.findall(r"https?://", page)
    assert response.headers["Cache-Control"] == "no-store"
    assert "default-src 'none'" in policy
    nonces = {*re.findall(r'nonce="([^"]+)"', page)}
    assert len(nonces) == 1
    assert nonces.pop() in policy


_SCRIPT = """
const wait = async (holds, end = Date.now() + 20_000) => {{
  while (!holds() && Date.now() < end) await new Promise((r) => setTimeout(r, 20));
}};
const [text, status, error] = ["text", "status", "error"].map(at);
const drop = (content, name) => {{
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([content], name));
  document.dispatchEvent(new DragEvent("drop", {{ dataTransfer }}));
}};
const wav = Uint8Array.from(atob("{wav}"), (c) => c.charCodeAt());
const recordings = () => [...document.querySelectorAll("a:not([hidden])[download^=recording]")];
const recordShortly = async () => {{
  at("record").click();
  await wait(() => at("record").textContent.startsWith("Stop ("));
  at("record").click();
  await wait(() => at("record").textContent === "Record");
}};
const isHeld = () => !window.dispatchEvent(new Event("beforeunload", {{ cancelable: true }}));
const done = () => status.textContent.startsWith("Done");
(async () => {{ {script} }})().then((found) =>
  fetch("found", {{ method: "POST", body: JSON.stringify({{ found }}) }}));
"""


def wav(seconds: float = 2) -> bytes:
    file = io.BytesIO()
    tone = 0.3 * np.sin(np.arange(int(seconds * 16_000)) / 10)
    soundfile.write(file, tone, 16_000, format="WAV")
    return file.getvalue()


def in_page(script: str, tmp_path: Path, *flags: str) -> Any:
    """Return what the script returns in the page of a server that knows two words."""
    found: Queue[Any] = Queue()
    app = make_app()

    @app.post("/found")
    async def take(request: Request) -> None:
        found.put((await request.json())["found"])

    @app.middleware("http")
    async def add_script(request: Request, answer: Any) -> Any:
        response = await answer(request)
        if request.url.path != "/":
            return response
        body = b"".join([part async for part in response.body_iterator]).decode()
        own = _SCRIPT.format(script=script, wav=base64.b64encode(wav()).decode())
        headers = {k: v for k, v in response.headers.items() if k != "content-length"}
        return HTMLResponse(body.replace("</script>", f"{own}</script>"), headers=headers)

    quiet = ("--autoplay-policy=no-user-gesture-required", "--mute-audio")
    with serving(app) as address:
        return drive(address, found, tmp_path / "profile", *quiet, *flags)


@needs_browser
@pytest.mark.parametrize("width", [390, 1400])
def test_a_dropped_file_is_read_played_and_downloaded(tmp_path: Path, width: int) -> None:
    found = in_page(
        """
        drop(wav, "møde.1.wav");
        await wait(done);
        const spans = [...document.querySelectorAll("#text .word")];
        spans[1].click();
        await wait(() => audio.currentTime >= 0.75);
        return {
          status: status.textContent, clicked: at("word").textContent,
          text: text.textContent, unsure: spans.map((span) => span.classList.contains("unsure")),
          foreign: document.querySelectorAll("b, i").length,
          names: [...document.querySelectorAll("#downloads a")].map((link) => link.download),
          fits: document.documentElement.scrollWidth <= innerWidth,
        };
        """,
        tmp_path,
        f"--window-size={width},844",
    )
    assert found == {
        "status": "Done: 3 words in 0:02 of audio",
        "clicked": "<b>grød</b>: 0:00.75 to 0:01.50, confidence 5 %",
        "text": "0:00røde <b>grød</b> 1:00hej ",
        "unsure": [False, True, False],
        "foreign": 0,
        "names": ["møde.1.txt", "møde.1.srt", "møde.1.vtt", "møde.1.json"],
        "fits": True,
    }


@needs_browser
def test_a_recording_arrives_as_audio(tmp_path: Path) -> None:
    clip = tmp_path / "microphone.wav"
    clip.write_bytes(wav(10))
    found = in_page(
        """
        at("record").click();
        await wait(() => at("record").textContent.startsWith("Stop ("));
        drop(wav, "other.wav"); // is ignored, and cannot be chosen
        const hidden = at("choose").hidden && status.textContent.startsWith("Recording");
        at("record").click();
        await wait(done);
        const title = at("title").textContent;
        return [hidden, status.textContent, title, at("record").textContent];
        """,
        tmp_path,
        *_MICROPHONE,
        f"--use-file-for-fake-audio-capture={clip}",
    )
    assert found == [True, "Done: 3 words in 0:02 of audio", "Text of recording.wav", "Record"]


_TOO_LONG = """class {
  async decodeAudioData() { return { getChannelData: () => new Float32Array(600_000) }; }
}"""


_MICROPHONE = ("--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream")


@needs_browser
@pytest.mark.parametrize(
    ("name", "instead", "kind"),
    [
        ("fetch", "async () => new Response('broken', { status: 500 })", "wav"),
        ("fetch", "() => Promise.reject(new TypeError('gone'))", "wav"),
        ("OfflineAudioContext", _TOO_LONG, "wav"),
        ("OfflineAudioContext", "undefined", "webm"),
    ],
    ids=["the server fails", "no server", "too long", "not decoded"],
)
def test_a_recording_can_be_saved_whatever_happens_to_it(
    name: str, instead: str, kind: str, tmp_path: Path
) -> None:
    found = in_page(
        f"""
        const original = window.fetch;
        const sizes = [];
        const create = URL.createObjectURL;
        URL.createObjectURL = (blob) => (sizes.push(blob.size), create(blob));
        window.{name} = {instead};
        await recordShortly();
        await wait(() => error.textContent);
        window.fetch = original;
        const isLink = recordings().map((link) => link.href.startsWith("blob:") && sizes[0] > 100);
        return [recordings().map((link) => link.download), isLink, error.textContent !== ""];
        """,
        tmp_path,
        *_MICROPHONE,
    )
    assert found == [[f"recording.{kind}"], [True], True]


@needs_browser
def test_what_is_not_saved_is_replaced_only_after_a_question(tmp_path: Path) -> None:
    found = in_page(
        """
        const asked = [];
        const steps = [isHeld()];
        const title = () => at("title").textContent;
        document.addEventListener("click", (event) => event.preventDefault()); // no download
        window.confirm = (question) => (asked.push(question), false);
        drop(wav, "a.wav");
        await wait(done);
        drop(wav, "b.wav");
        at("record").click();
        steps.push(asked.length, title(), isHeld());
        document.querySelector("#downloads a").click();
        steps.push(isHeld());
        await recordShortly();
        await wait(done);
        steps.push(asked.length, title());
        document.querySelector("#downloads a").click();
        const { href } = recordings()[0];
        at("record").click();
        steps.push(asked.length, isHeld());
        drop(wav, "c.wav");
        await wait(() => title().endsWith("c.wav") && done());
        steps.push(asked.length, title(), recordings()[0].href === href);
        recordings()[0].click();
        window.confirm = () => true;
        steps.push(isHeld());
        drop("no audio", "notes.txt");
        await wait(() => error.textContent);
        steps.push(isHeld());
        return steps;
        """,
        tmp_path,
        *_MICROPHONE,
    )
    assert found == [
        *(False, 2, "Text of a.wav", True),
        False,
        *(2, "Text of recording.wav"),
        *(3, True),
        *(3, "Text of c.wav", True),
        *(True, False),
    ]


@needs_browser
def test_a_browser_whose_streams_cannot_be_iterated_shows_the_text(tmp_path: Path) -> None:
    found = in_page(
        """
        delete ReadableStream.prototype[Symbol.asyncIterator];
        drop(wav, "a.wav");
        await wait(() => done() || error.textContent);
        return [done(), text.textContent];
        """,
        tmp_path,
    )
    assert found == [True, "0:00røde <b>grød</b> 1:00hej "]


@needs_browser
def test_what_fails_is_said_in_the_page(tmp_path: Path) -> None:
    found = in_page(
        """
        drop("no audio", "notes.txt");
        await wait(() => error.textContent);
        const first = error.textContent;
        drop(new Uint8Array(1_100_000), "large.wav");
        await wait(() => error.textContent !== first);
        const second = error.textContent;
        drop("", "empty.wav");
        await wait(() => error.textContent !== second);
        return [first, second, error.textContent, at("player").hidden];
        """,
        tmp_path,
    )
    assert found[0].startswith("notes.txt: cannot be decoded as audio")
    assert found[1].startswith("large.wav has 2 MB. At most 1 MB are accepted")
    assert found[2:] == ["empty.wav is empty.", True]
