"""``danish-asr serve`` as a process, with a trained model."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
import pytest
import soundfile


@pytest.mark.slow
def test_a_model_is_served_until_ctrl_c_and_nothing_of_the_audio_is_kept(
    finished_run: Path, tmp_path: Path
) -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, 3 * 44_100)
    wav = io.BytesIO()
    soundfile.write(wav, noise, 44_100, format="WAV")
    command = [sys.executable, "-m", "danish_asr", "serve", str(finished_run), "--port", "0"]
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(temporary)}
    ) as server:
        assert server.stderr is not None
        found = next(filter(None, (re.search(r"http://\S+", line) for line in server.stderr)))
        assert found[0].startswith("http://127.0.0.1:")
        with urlopen(Request(f"{found[0]}transcribe", data=wav.getvalue())) as answer:  # noqa: S310
            messages = [json.loads(line) for line in answer]
        server.send_signal(signal.SIGINT)
        assert "Traceback" not in server.stderr.read()
    assert server.returncode == 0
    assert messages[-1]["duration"] == pytest.approx(3)
    assert [*messages[-1]["files"]] == ["txt", "srt", "vtt", "json"]
    assert not list(temporary.iterdir())
