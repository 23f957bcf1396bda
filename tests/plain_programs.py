"""Transcribe a folder as programs do that cannot import this project: with README.md's examples.

    python -I -S tests/plain_programs.py SITE_PACKAGES EXPORT AUDIO OUTPUT

``-I -S`` leaves out editable installs. SITE_PACKAGES has transformers, onnxruntime or sherpa-onnx;
EXPORT is a directory of ``danish-asr export``, AUDIO one of FLAC files. OUTPUT gets, for each
example, a JSON object from the name of each file to its text.
"""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any


def main(site: str, export: str, audio: str, output: str) -> None:
    sys.path.append(site)
    for package in ("danish_asr", "fairseq2"):
        sys.modules[package] = None  # type: ignore[assignment] # importing it fails
    warnings.simplefilter("ignore")
    import soundfile  # noqa: PLC0415 - it is in SITE_PACKAGES

    target = Path(output).resolve()  # the examples run in other directories
    folder, files = Path(export).resolve(), sorted(Path(audio).resolve().glob("*.flac"))
    waveforms = {file.stem: soundfile.read(file, dtype="float32")[0] for file in files}
    readme = (folder / "README.md").read_text(encoding="utf-8")
    texts = []
    for example in re.findall(r"```python\n(.*?)```", readme, re.DOTALL):
        os.chdir(folder)
        texts.append(run(example, waveforms))
    target.write_text(json.dumps(texts, ensure_ascii=False), encoding="utf-8")


def run(example: str, waveforms: dict[str, Any]) -> dict[str, str]:
    """Run an example; its last paragraph once for each waveform."""
    setup, _, transcribe = example.rpartition("\n\n")
    names: dict[str, Any] = {}
    exec(setup, names)  # noqa: S102
    texts = {}
    for name, samples in waveforms.items():
        names["samples"] = samples
        exec(transcribe, names)  # noqa: S102
        texts[name] = names["text"]
    return texts


if __name__ == "__main__":
    main(*sys.argv[1:])
