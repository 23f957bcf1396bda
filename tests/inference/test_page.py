"""The page in a browser: what it reads, keeps and says."""

import base64
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from fastapi import Request
from fastapi.responses import HTMLResponse

from tests.browser import drive, needs_browser
from tests.builders import tone
from tests.served import make_app, serving

pytestmark = needs_browser

_SCRIPT = """
const wait = async (holds, end = Date.now() + 20_000) => {{
  while (!holds() && Date.now() < end) await new Promise((r) => setTimeout(r, 20));
}};
const [text, status, error] = ["text", "status", "error"].map(at);
const drop = (content, ...names) => {{
  const dataTransfer = new DataTransfer();
  for (const name of names) dataTransfer.items.add(new File([content], name));
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
URL.blobs = new Map();
const create = URL.createObjectURL;
URL.createObjectURL = (blob) => {{
  const href = create(blob);
  URL.blobs.set(href, blob);
  return href;
}};
const isHeld = () => !window.dispatchEvent(new Event("beforeunload", {{ cancelable: true }}));
const done = () => doing === "nothing" && status.textContent.startsWith("Done");
(async () => {{ {script} }})().then((found) =>
  fetch("found", {{ method: "POST", body: JSON.stringify({{ found }}) }}));
"""


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
        own = _SCRIPT.format(script=script, wav=base64.b64encode(tone(2, rate=16_000)).decode())
        headers = {k: v for k, v in response.headers.items() if k != "content-length"}
        return HTMLResponse(body.replace("</script>", f"{own}</script>"), headers=headers)

    quiet = ("--autoplay-policy=no-user-gesture-required", "--mute-audio")
    with serving(app) as address:
        return drive(address, found, tmp_path / "profile", *quiet, *flags)


@pytest.mark.parametrize(
    ("width", "without"),
    [
        (390, "ReadableStream.prototype[Symbol.asyncIterator], delete Array.prototype.at"),
        (1400, "window.nothing"),
    ],
    ids=["narrow, of an older Safari", "wide"],
)
def test_a_dropped_file_is_read_played_and_downloaded(
    tmp_path: Path, width: int, without: str
) -> None:
    found = in_page(
        f"delete {without};"
        """
        drop(wav, "a.wav", "b.wav");
        const refused = error.textContent !== "" && text.textContent === "";
        drop(wav, "møde.1.wav");
        await wait(done);
        const links = [...document.querySelectorAll("#downloads a")];
        const json = JSON.parse(await URL.blobs.get(links[3].href).text());
        const spans = [...document.querySelectorAll("#text .word")];
        spans[1].click();
        await wait(() => audio.currentTime >= 0.75);
        return {
          refused, file: json.file, status: status.textContent, clicked: at("word").textContent,
          text: text.textContent, unsure: spans.map((span) => span.tagName === "MARK"),
          foreign: document.querySelectorAll("b, i").length,
          names: links.map((link) => link.download),
          fits: document.documentElement.scrollWidth <= innerWidth,
        };
        """,
        tmp_path,
        f"--window-size={width},844",
    )
    assert found == {
        "refused": True,
        "file": "møde.1.wav",
        "status": "Done: 3 words in 0:02 of audio",
        "clicked": "<b>grød</b>: 0:00.75 to 0:01.50, confidence 5 %",
        "text": "0:00røde <b>grød</b> 1:00hej ",
        "unsure": [False, True, False],
        "foreign": 0,
        "names": ["møde.1.txt", "møde.1.srt", "møde.1.vtt", "møde.1.json"],
        "fits": True,
    }


def test_words_are_reached_and_played_with_arrow_keys_and_are_no_tab_stops(tmp_path: Path) -> None:
    found = in_page(
        """
        drop(wav, "a.wav");
        await wait(done);
        const press = (key, modifiers) => document.activeElement.dispatchEvent(
          new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...modifiers }));
        const stops = [...text.querySelectorAll("*")].filter((node) => node.tabIndex >= 0);
        const steps = [stops.map((node) => node.textContent)];
        stops[0].focus();
        for (const key of ["ArrowLeft", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"]) {
          press(key);
          steps.push(document.activeElement.textContent);
        }
        press("ArrowLeft", { altKey: true });
        press("Enter");
        steps.push(at("word").textContent.split(":")[0]);
        return steps;
        """,
        tmp_path,
    )
    words = ["0:00", "røde", "<b>grød</b>", "1:00", "<b>grød</b>"]
    assert found == [["0:00", "1:00"], *words, "<b>grød</b>"]


_TOO_LONG = """class {
  async decodeAudioData() { return { getChannelData: () => new Float32Array(600_000) }; }
}"""

_MICROPHONE = ("--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream")


@pytest.mark.parametrize(
    ("name", "instead", "kind"),
    [
        ("fetch", "() => Promise.reject(new TypeError('gone'))", "wav"),
        ("OfflineAudioContext", _TOO_LONG, "wav"),
        ("OfflineAudioContext", "undefined", "webm"),
    ],
    ids=["no server", "too long", "not decoded"],
)
def test_a_recording_can_be_saved_whatever_happens_to_it(
    name: str, instead: str, kind: str, tmp_path: Path
) -> None:
    found = in_page(
        f"""
        const original = window.fetch;
        window.{name} = {instead};
        await recordShortly();
        await wait(() => error.textContent);
        window.fetch = original;
        const isLink = recordings().map(({{ href }}) => URL.blobs.get(href).size > 100);
        return [recordings().map((link) => link.download), isLink, error.textContent !== ""];
        """,
        tmp_path,
        *_MICROPHONE,
    )
    assert found == [[f"recording.{kind}"], [True], True]


_ENDLESS = """
const content = JSON.stringify({ segment: { text: "hej", start: 1, end: 2, words: [
  { text: "hej", start: 1, end: 2, confidence: 1 }] } });
window.fetch = async (_, { signal }) => new Response(new ReadableStream({ start(stream) {
  stream.enqueue(new TextEncoder().encode(`data: ${content}\n\n`));
  signal.addEventListener("abort", () => stream.error(new DOMException("", "AbortError")));
} }));
"""


def test_one_thing_is_done_at_a_time_and_a_cancelled_text_can_be_saved(tmp_path: Path) -> None:
    found = in_page(
        """
        const original = window.fetch;
        """
        + _ENDLESS
        + """
        const visible = () => ["choose", "record", "cancel"].filter((id) => !at(id).hidden);
        at("file").focus();
        drop(wav, "a.wav");
        await wait(() => text.textContent);
        drop(wav, "b.wav");
        const steps = [error.textContent !== "", at("title").textContent];
        steps.push(visible(), document.activeElement.id, isHeld());
        at("cancel").click();
        await wait(() => status.textContent.startsWith("Cancelled"));
        window.fetch = original;
        const links = [...document.querySelectorAll("#downloads a")];
        const contents = await Promise.all(links.map(({ href }) => URL.blobs.get(href).text()));
        const json = JSON.parse(contents[1]);
        steps.push(links.map((link) => link.download), contents[0]);
        steps.push(json.incomplete, json.file, json.segments[0].words.length);
        steps.push(visible(), document.activeElement.id, isHeld());
        return steps;
        """,
        tmp_path,
    )
    assert found == [
        *(True, "Text of a.wav", ["cancel"], "cancel", True),
        *(["a (incomplete).txt", "a (incomplete).json"], "hej\n", True, "a.wav", 1),
        *(["choose", "record"], "file", True),
    ]


@pytest.mark.parametrize("fault", ["NotAllowedError", "NotFoundError"])
def test_without_a_microphone_the_page_says_why_and_goes_on(fault: str, tmp_path: Path) -> None:
    found = in_page(
        f"""
        let asked = 0;
        navigator.mediaDevices.getUserMedia = async () => {{
          asked += 1;
          await new Promise((ready) => setTimeout(ready, 50));
          throw new DOMException("", "{fault}");
        }};
        at("record").click();
        at("record").click();
        await wait(() => error.textContent);
        return [asked, error.textContent.includes("refused"), at("record").disabled, isHeld()];
        """,
        tmp_path,
    )
    assert found == [1, fault == "NotAllowedError", False, False]


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
