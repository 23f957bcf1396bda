"""The page in a real browser: a file, a recording, errors, keys."""

import base64
import io
import json
import re
from dataclasses import asdict
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np
import pytest
import soundfile

from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.decoding.transcript import Segment, Word
from danish_asr.inference.serve.server import Send, Server
from danish_asr.inference.sound import open_sound
from tests.browser import drive, needs_browser
from tests.unit.serve.test_server import serving

pytestmark = needs_browser

WORDS = [Word("røde", 0.25, 0.5, 0.98), Word("<b>grød</b>", 0.75, 1.5, 0.05)]

_SCRIPT = """
const wait = async (holds) => {{ while (!holds()) await new Promise((r) => setTimeout(r, 20)); }};
const [text, status, error] = ["text", "status", "error"].map(at);
const blobs = [];
const create = URL.createObjectURL;
URL.createObjectURL = (blob) => (blobs.push(blob), create(blob));
const drop = (content, name) => {{
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([content], name));
  document.dispatchEvent(new DragEvent("drop", {{ dataTransfer }}));
}};
const wav = Uint8Array.from(atob("{wav}"), (c) => c.charCodeAt());
const press = (key) => text.dispatchEvent(new KeyboardEvent("keydown", {{ key }}));
const done = () => status.textContent.startsWith("Done");
(async () => {{ {script} }})().then((found) =>
  fetch("transcribe", {{ method: "POST", body: JSON.stringify({{ found }}) }}));
"""


def _wav(seconds: float = 2) -> bytes:
    file = io.BytesIO()
    tone = 0.3 * np.sin(np.arange(int(seconds * SAMPLE_RATE)) / 10)
    soundfile.write(file, tone, SAMPLE_RATE, format="WAV")
    return file.getvalue()


def _in_page(script: str, tmp_path: Path, *flags: str) -> Any:
    """Return what the script returns in the page of a server that knows two words."""
    found: Queue[Any] = Queue()

    def transcribe(audio: bytes, send: Send) -> None:
        if audio.startswith(b"{"):
            found.put(json.loads(audio)["found"])
            return
        with open_sound(audio) as sound:
            seconds = sum(map(len, sound)) / SAMPLE_RATE
        send({"done": 0, "duration": sound.total})
        send({"segment": asdict(Segment(0.25, 1.5, WORDS))})
        send({"files": {"txt": "røde", "srt": "1"}, "duration": seconds})

    def drive_in(server: Server) -> Any:
        wav = base64.b64encode(_wav()).decode()
        server.files["page.js"] += _SCRIPT.format(script=script, wav=wav)
        quiet = ("--autoplay-policy=no-user-gesture-required", "--mute-audio")
        return drive(server.url, found, tmp_path / "profile", *quiet, *flags)

    with serving(transcribe, model="<i>m</i>") as server:
        return drive_in(server)


def test_a_dropped_file_is_read_played_and_downloaded(tmp_path: Path) -> None:
    found = _in_page(
        """
        drop(wav, "møde.1.wav");
        await wait(done);
        const spans = [...document.querySelectorAll("#text .word")];
        spans[1].click();
        await wait(() => audio.currentTime >= 0.75);
        const clicked = at("about-word").textContent;
        press("ArrowLeft");
        press("Enter");
        await wait(() => audio.currentTime < 0.75);
        return {
          status: status.textContent, clicked, pressed: at("about-word").textContent,
          text: text.textContent, unsure: spans.map((span) => span.classList.contains("unsure")),
          foreign: document.querySelectorAll("b, i").length,
          names: [...document.querySelectorAll("#downloads a")].map((link) => link.download),
          txt: await blobs[1].text(),
        };
        """,
        tmp_path,
    )
    assert found == {
        "status": "Done: 2 words in 0:02 of audio",
        "clicked": "<b>grød</b>: 0:00.75 to 0:01.50, confidence 5 %",
        "pressed": "røde: 0:00.25 to 0:00.50, confidence 98 %",
        "text": "0:00røde <b>grød</b> ",
        "unsure": [False, True],
        "foreign": 0,
        "names": ["møde.1.txt", "møde.1.srt"],
        "txt": "røde",
    }


def test_a_recording_arrives_as_audio_of_its_length(tmp_path: Path) -> None:
    clip = tmp_path / "microphone.wav"
    clip.write_bytes(_wav(10))
    seconds, loudest, said = _in_page(
        """
        at("record").click();
        await wait(() => at("record").textContent === "Stop (0:01)");
        const said = status.textContent;
        at("record").click();
        await wait(done);
        const samples = new Int16Array(await blobs[0].slice(44).arrayBuffer());
        return [samples.length / 16000, Math.max(...samples) / 32768, said];
        """,
        tmp_path,
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-audio-capture={clip}",
    )
    assert 0.2 < seconds < 5
    assert 0.1 < loudest < 0.6
    assert said == "Recording, at most 0:31"


def test_errors_are_said_in_plain_words_and_the_page_goes_on(tmp_path: Path) -> None:
    found = _in_page(
        """
        const errors = [];
        for (const [content, name] of [["no audio", "a.txt"], [new Uint8Array(1000001), "b.wav"]]) {
          drop(content, name);
          await wait(() => error.textContent);
          errors.push(error.textContent);
          error.textContent = "";
        }
        drop(wav, "c.wav");
        await wait(done);
        return [...errors, error.textContent];
        """,
        tmp_path,
    )
    assert found[0] == "a.txt: cannot be decoded as audio; it is text; choose a recording"
    assert found[1:] == ["b.wav has 2 MB. At most 1 MB are accepted.", ""]


def test_a_text_that_is_not_saved_is_replaced_only_after_a_question(tmp_path: Path) -> None:
    found = _in_page(
        """
        const asked = [];
        window.confirm = (question) => (asked.push(question), false);
        drop(wav, "a.wav");
        await wait(done);
        drop(wav, "b.wav");
        const leaving = new Event("beforeunload", { cancelable: true });
        window.dispatchEvent(leaving);
        const kept = at("text-title").textContent;
        const clipboardData = new DataTransfer();
        const copy = new ClipboardEvent("copy", { clipboardData, cancelable: true });
        document.execCommand = () => !document.dispatchEvent(copy); // a browser wants a real click
        at("copy").click();
        drop(wav, "b.wav");
        await wait(() => at("text-title").textContent === "Text of b.wav");
        await wait(done);
        const copied = clipboardData.getData("text/plain");
        return { asked, kept, copied, left: !leaving.defaultPrevented };
        """,
        tmp_path,
    )
    assert found == {
        "asked": ["Not saved: text. Delete it from this page?"],
        "kept": "Text of a.wav",
        "copied": "røde <b>grød</b>",
        "left": False,
    }


def test_a_running_transcription_is_not_replaced_and_only_one_file_is_taken(
    tmp_path: Path,
) -> None:
    found = _in_page(
        """
        drop(wav, "a.wav");
        drop(wav, "b.wav");
        const first = error.textContent;
        await wait(done);
        const dataTransfer = new DataTransfer();
        for (const name of ["c.wav", "d.wav"]) dataTransfer.items.add(new File([wav], name));
        document.dispatchEvent(new DragEvent("drop", { dataTransfer }));
        return [first, at("text-title").textContent, error.textContent];
        """,
        tmp_path,
    )
    assert found == ["Cancel first, or wait for the text.", "Text of a.wav", "One file at a time."]


_TOO_LONG = """class {
  async decodeAudioData() { return { getChannelData: () => new Float32Array(600000) }; }
}"""


@pytest.mark.parametrize(
    ("name", "instead", "ending"),
    [
        ("fetch", "() => Promise.reject(new TypeError())", "wav"),
        ("OfflineAudioContext", "undefined", "webm"),
        ("OfflineAudioContext", _TOO_LONG, "wav"),
    ],
    ids=["no server", "not decoded", "too long"],
)
def test_a_recording_can_be_saved_when_its_transcription_fails(
    name: str, instead: str, ending: str, tmp_path: Path
) -> None:
    found = _in_page(
        f"""
        const original = window.{name};
        window.{name} = {instead};
        at("record").click();
        await wait(() => at("record").textContent === "Stop (0:01)");
        drop(wav, "a.wav");
        const first = error.textContent;
        at("record").click();
        await wait(() => !at("keep").hidden && at("progress").hidden);
        window.{name} = original;
        return [first, at("keep").download, at("keep").href.startsWith("blob:"), blobs[0].size];
        """,
        tmp_path,
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
    )
    assert found[0] == "Stop the recording first."
    assert re.fullmatch(rf"recording [\d-]{{10}} [\d.]{{8}}\.{ending}", found[1])
    assert found[2]
    assert found[3] > 100


def test_a_broken_connection_leaves_a_text_that_is_called_incomplete(tmp_path: Path) -> None:
    found = _in_page(
        """
        const original = window.fetch;
        const words = [{ text: "hej", start: 0, end: 1, confidence: null }];
        const segment = { start: 0, end: 1, channel: null, words };
        window.fetch = async () => new Response(JSON.stringify({ segment }) + "\\n");
        drop(wav, "a.wav");
        await wait(() => error.textContent);
        window.fetch = original;
        return [text.textContent, error.textContent];
        """,
        tmp_path,
    )
    assert found[0] == "0:00hej "
    assert "The text is incomplete" in found[1]
