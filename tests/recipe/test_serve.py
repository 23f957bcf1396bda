"""``danish-asr serve`` as a process, with a trained model."""

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
import pytest
import soundfile

pytest.importorskip("fastapi", reason="the extra 'serve'")


@pytest.mark.slow
def test_a_model_is_served_until_ctrl_c_and_nothing_of_the_audio_is_kept(
    finished_run: Path, tmp_path: Path
) -> None:
    wav = io.BytesIO()
    soundfile.write(wav, np.random.default_rng(0).normal(0, 0.1, 3 * 44_100), 44_100, format="WAV")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "danish_asr", "serve", str(finished_run), "--port", str(port)]
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(temporary)}
    ) as server:
        assert server.stderr is not None
        found = next(filter(None, (re.search(r"http://\S+/", line) for line in server.stderr)))
        assert found[0] == f"http://127.0.0.1:{port}/"
        form = {"file": ("noise.wav", wav.getvalue()), "response_format": (None, b"verbose_json")}
        with urlopen(_post(f"{found[0]}v1/audio/transcriptions", form)) as answer:  # noqa: S310
            transcript = json.load(answer)
        server.send_signal(signal.SIGINT)
        assert "Traceback" not in server.stderr.read()
    assert server.returncode == 0
    assert transcript["duration"] == pytest.approx(3)
    assert not list(temporary.iterdir())


def _post(address: str, form: dict[str, tuple[str | None, bytes]]) -> Request:
    """A request with a form; each field has a file's name, or None, and its content."""
    body = b""
    for field, (name, content) in form.items():
        file = "" if name is None else f'; filename="{name}"'
        head = f'--x\r\nContent-Disposition: form-data; name="{field}"{file}\r\n\r\n'
        body += head.encode() + content + b"\r\n"
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    return Request(address, data=body + b"--x--\r\n", headers=headers)  # noqa: S310
