"""Runs the lines of an export's README.md over audio files, in a process without this project.

python -I -S plain_programs.py SITE EXPORT PROGRAM AUDIO OUTPUT: ``PROGRAM`` is the number of the
program among those of the card; OUTPUT gets a text for each FLAC file.
"""

import json
import os
import re
import sys
from pathlib import Path

site, export, program, audio, output = sys.argv[1:]
sys.path.append(site)

import soundfile  # noqa: E402 - of the site

readme = Path(export, "README.md").read_text(encoding="utf-8")
code = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)[int(program)]
os.chdir(export)
texts = {}
for file in sorted(Path(audio).glob("*.flac")):
    names = {"samples": soundfile.read(file, dtype="float32")[0]}
    exec(code, names)  # noqa: S102
    texts[file.stem] = names["text"].strip()
assert "danish_asr" not in sys.modules
Path(output).write_text(json.dumps(texts), encoding="utf-8")
