"""``danish-asr serve`` as a process, with a trained model."""

import io
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
import pytest
import soundfile

from danish_asr.corpus.sources.voices import draw_speaker
from tests.speech import speak

pytest.importorskip("fastapi", reason="the extra 'serve'")


pytestmark = pytest.mark.slow


# Says "a" for each window, in `seconds`, and marks when two threads decode at once.
_DECODER = """
import os, time

class Slow:
    def __init__(self, tokenizer, seconds, folder):
        self.seconds, self.folder = seconds, folder

    def __call__(self, log_probs):
        if not log_probs:
            return []
        try:
            os.mkdir(f"{self.folder}/busy")
        except FileExistsError:
            os.makedirs(f"{self.folder}/two at once", exist_ok=True)
            return ["a"] * len(log_probs)
        time.sleep(self.seconds)
        os.rmdir(f"{self.folder}/busy")
        return ["a"] * len(log_probs)
"""


_SERVE = """
import sys
from danish_asr.inference.serve import serve
model, port, seconds, folder = sys.argv[1:]
decoder = {"decoder": "slow:Slow", "decoder_config": {"seconds": float(seconds), "folder": folder}}
serve(model, decoder, port=int(port), max_mb=100)
"""


@contextmanager
def serving(*command: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A server as a process, and its port, for which ``PORT`` stands in the command."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = [str(port) if part == "PORT" else part for part in command]
    environ = os.environ | environment
    with subprocess.Popen(
        [sys.executable, *arguments], stderr=subprocess.PIPE, text=True, env=environ
    ) as server:
        try:
            assert server.stderr is not None
            found = next(filter(None, (re.search(r"http://\S+/", line) for line in server.stderr)))
            assert found[0] == f"http://127.0.0.1:{port}/"
            yield server, port
        finally:
            server.kill()


@contextmanager
def serving_slowly(
    run: Path, folder: Path, seconds: float
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A server whose decoder takes some seconds for a window of speech."""
    (folder / "slow.py").write_text(_DECODER)
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    command = ("-c", _SERVE, str(run), "PORT", str(seconds), str(folder))
    with serving(*command, PYTHONPATH=path) as served:
        yield served


def interrupt(server: subprocess.Popen[str]) -> str:
    """Press Ctrl-C; return what the server prints until it has ended."""
    server.send_signal(signal.SIGINT)
    _, printed = server.communicate(timeout=60)
    return printed


@pytest.fixture(scope="module")
def speech() -> bytes:
    """Twelve seconds with a sentence every few seconds, as a FLAC file."""
    (sentence,) = speak(("hun tog bussen hjem", draw_speaker(random.Random(1), "1", "Fynsk", None)))
    samples = np.tile(np.concatenate([sentence, np.zeros(16_000)]), 10)[: 12 * 16_000]
    file = io.BytesIO()
    soundfile.write(file, samples, 16_000, format="FLAC")
    return file.getvalue()


def _post(port: int, audio: bytes, **fields: str) -> Request:
    """A request with a form."""
    body = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    body += audio + b"\r\n"
    for name, value in fields.items():
        head = f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        body += head.encode()
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    url = f"http://127.0.0.1:{port}/v1/audio/transcriptions"
    return Request(url, data=body + b"--x--\r\n", headers=headers)


def _begin(port: int, request: Request, share: float = 1.0) -> socket.socket:
    """Send a share of a request, and return its connection."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    assert isinstance(request.data, bytes)
    head = (
        f"POST {request.selector} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Content-Type: {request.get_header('Content-type')}\r\n"
        f"Content-Length: {len(request.data)}\r\n\r\n"
    ).encode()
    content = head + request.data
    connection.sendall(content[: round(share * len(content))])
    return connection


def _rest(connection: socket.socket) -> bytes:
    with connection.makefile("rb") as file:
        return file.read()


def _wait_for(path: Path) -> None:
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end, f"no {path}"
        time.sleep(0.01)


def close_at_random_moments(port: int, audio: bytes, count: int) -> None:
    """Begin requests, half of which ask for events, and leave each at some moment."""
    chance = random.Random(1)
    for number in range(count):
        stream = "false" if number % 2 else "true"
        share = chance.choice([0.5, 1, 1, 1])
        connection = _begin(port, _post(port, audio, stream=stream), share)
        time.sleep(chance.choice([0, 0.1, 1]) * chance.random())
        if stream == "true" and share == 1 and chance.random() < 0.7:
            connection.recv(chance.choice([1, 200, 2_000]))
        connection.close()


def test_a_model_is_served_until_ctrl_c_and_nothing_of_the_audio_is_kept(
    finished_run: Path, tmp_path: Path
) -> None:
    wav = io.BytesIO()
    soundfile.write(wav, np.random.default_rng(0).normal(0, 0.1, 3 * 44_100), 44_100, format="WAV")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    command = ("-m", "danish_asr", "serve", str(finished_run), "--port", "PORT")
    with serving(*command, TMPDIR=str(temporary)) as (server, port):
        request = _post(port, wav.getvalue(), response_format="verbose_json")
        with urlopen(request) as answer:  # noqa: S310
            transcript = json.load(answer)
        assert "Traceback" not in interrupt(server)
    assert server.returncode == 0
    assert transcript["duration"] == pytest.approx(3)
    assert not list(temporary.iterdir())


def test_requests_that_were_closed_at_any_moment_leave_a_server_that_answers(
    finished_run: Path, tmp_path: Path, speech: bytes
) -> None:
    with serving_slowly(finished_run, tmp_path, 0.5) as (server, port):
        with _begin(port, _post(port, speech, stream="true")):
            _wait_for(tmp_path / "busy")
        close_at_random_moments(port, speech, 30)
        with urlopen(_post(port, speech), timeout=60) as answer:  # noqa: S310
            text = json.load(answer)["text"]
        assert "Traceback" not in interrupt(server)
    assert set(text.split()) == {"a"}
    assert not (tmp_path / "two at once").exists()


def test_ctrl_c_ends_a_server_in_the_midst_of_a_window(
    finished_run: Path, tmp_path: Path, speech: bytes
) -> None:
    with serving_slowly(finished_run, tmp_path, 600) as (server, port):
        plain = _begin(port, _post(port, speech, stream="false"))
        events = _begin(port, _post(port, speech, stream="true"))
        with plain, events:
            _wait_for(tmp_path / "busy")
            assert "Traceback" not in interrupt(server)
            assert _rest(plain).startswith(b"HTTP/1.1 503")
            assert b'"type": "error"' in _rest(events)
    assert server.returncode == 0
