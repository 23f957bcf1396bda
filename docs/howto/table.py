"""Write a table of a folder.

python table.py FOLDER LEVEL > recordings.csv
LEVEL: how many folders above a recording the speaker's name is, from 1.
"""

import csv
import json
import sys
from pathlib import Path

folder, level = Path(sys.argv[1]).resolve(), int(sys.argv[2])
files = sorted(path for path in folder.rglob("*") if path.is_file())
audio: dict[str, Path] = {}
for path in files:
    if path.suffix.lower() in {".wav", ".flac", ".mp3", ".ogg", ".opus"}:
        name = path.stem.removesuffix("_mic1")  # of VCTK's two microphones the first
        if audio.setdefault(name, path) != path:
            sys.exit(f"two recordings of one name: {audio[name]}, {path}")
table = csv.writer(sys.stdout)
table.writerow(["path", "text", "speaker", "split"])
without = set(audio)
for file in files:
    if file.suffix not in {".txt", ".json"}:
        continue
    lines = [line.split(maxsplit=1) for line in file.read_text(encoding="utf-8").splitlines()]
    if file.stem in audio:
        content = file.read_text(encoding="utf-8")
        text = json.loads(content)["text"] if file.suffix == ".json" else content.strip()
        lines = [[file.stem, text]]
    for name, text in (line for line in lines if len(line) == 2 and line[0] in audio):
        path = audio[name]
        folders = (part.lower() for part in path.relative_to(folder).parts)
        split = next((part for part in folders if part.startswith(("train", "dev", "test"))), "")
        table.writerow([path, text, path.parents[level - 1].name, split])
        without.discard(name)
print(f"recordings without text: {len(without)}", *sorted(without)[:3], file=sys.stderr)
