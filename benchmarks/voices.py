"""Real human voices with known words, from two Debian packages, through the whole pipeline.

    make voices                     # python benchmarks/voices.py voices [--texts FILE]

FOLDER gets the packages (``apt-get download`` and ``dpkg -x``; Debian or Ubuntu, no root), a table
of the recordings whose words their names tell, and what the commands make of them: a dataset, a
short training of the demo's model, scores, and a transcript of a joined recording.

- ``ktuberling-data``: single words of a Dane; the name of a file is its word.
- ``asterisk-core-sounds-en-wav``: numbers and letters of an American woman. ``--texts`` names a
  table (TSV: name of the file without its ending, text) of more of her prompts.

Every fifth recording is for test, every fifth for dev. The last lines are a table in Markdown.
"""

import argparse
import csv
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import soundfile
from num2words import num2words

PACKAGES: Final = ("asterisk-core-sounds-en-wav", "ktuberling-data")
LETTERS: Final = {"ae": "æ", "oe": "ø", "aa": "å"}
"""How names of Danish files write them."""

PAUSE: Final = 0.6
"""Seconds between two recordings of the joined one."""

STEPS: Final = 1500


class Recording(NamedTuple):
    """A file, its words and who says them."""

    path: Path
    text: str
    speaker: str


def main() -> None:
    """Fetch the packages, run the commands, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--texts", type=Path, help="more prompts: name<TAB>text")
    parser.add_argument("--model", default="demo/run", help="what the training starts from")
    args = parser.parse_args()
    folder = args.folder.resolve()
    fetch(folder)
    recordings = [*danish_words(folder), *prompts(folder, args.texts)]
    write_table(folder, recordings)
    danish_asr("convert", folder / "voices.csv", "--name", "voices", "--out", folder / "dataset")
    # Both speakers are in train and test: there are no others.
    check = ("verify", folder / "dataset", "--page", folder / "page.html")
    danish_asr(*check, "--allow-shared", "speakers")
    run = folder / "run"
    every = [f"regime.{kind}_every_n_steps=500" for kind in ("validate", "checkpoint")]
    settings = (f"regime.num_steps={STEPS}", *every)
    start = ("--dataset", folder / "dataset", f"model.path={args.model}")
    danish_asr("train", run, *start, *settings)
    danish_asr("evaluate", run)
    before = folder / "before"
    danish_asr("evaluate", before, *start, "--config", run / "config.yaml")
    joined = write_joined(folder, [row for row in recordings if row.speaker == "dane"])
    danish_asr("transcribe", run, joined, "--format", "json,txt", "--overwrite")
    words = joined.with_suffix(".words.txt")
    align = ("transcribe", run, joined, "--text", words, "--format", "csv")
    danish_asr(*align, "--out", folder / "times", statuses=(0, 1))  # 1: few confident words
    print_table(folder, recordings, [before, run])


def fetch(folder: Path) -> None:
    """Unpack the packages below ``folder``, once."""
    folder.mkdir(parents=True, exist_ok=True)
    for package in PACKAGES:
        if not [*folder.glob(f"{package}_*.deb")]:
            subprocess.run(["apt-get", "download", package], cwd=folder, check=True)  # noqa: S603, S607
        (file,) = folder.glob(f"{package}_*.deb")
        subprocess.run(["dpkg", "-x", file, folder / "packages"], check=True)  # noqa: S603, S607


def danish_words(folder: Path) -> Iterator[Recording]:
    """Yield the words of the Dane: ``egypt_aesel.ogg`` is "æsel"."""
    for path in sorted((folder / "packages/usr/share/ktuberling/sounds/da").glob("*.ogg")):
        word = path.stem.rpartition("_")[2]
        if "tux" in path.stem:  # names of figures, in English
            continue
        for written, letter in LETTERS.items():
            word = word.replace(written, letter) if word != "oase" else word
        yield Recording(path, word, "dane")


def prompts(folder: Path, texts: Path | None) -> Iterator[Recording]:
    """Yield numbers, letters and, with ``texts``, other prompts of the American woman."""
    (sounds,) = (folder / "packages/usr/share/asterisk/sounds").glob("en_US*")
    words = {f"digits/{number}": num2words(number) for number in (*range(20), *range(20, 100, 10))}
    words |= {f"letters/{letter}": letter for letter in "abcdefghijklmnopqrstuvwxyz"}
    if texts is not None:
        lines = texts.read_text(encoding="utf-8").splitlines()[1:]
        words |= dict(line.split("\t") for line in lines)
    for name, text in words.items():
        if (path := sounds / f"{name}.wav").is_file():
            yield Recording(path, text, "american")


def write_table(folder: Path, recordings: Sequence[Recording]) -> None:
    """Write ``voices.csv``: each speaker's fifths are test, dev, train, train, train."""
    with (folder / "voices.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["path", "text", "speaker", "split"])
        for number, row in enumerate(recordings):
            split = ("test", "dev", "train", "train", "train")[number % 5]
            table.writerow([row.path, row.text, row.speaker, split])


def write_joined(folder: Path, recordings: Sequence[Recording]) -> Path:
    """Write one recording of many with pauses, its words, and where each of them is."""
    path, places, parts, position = folder / "joined.wav", [], list[Any](), 0
    rate = soundfile.info(recordings[0].path).samplerate
    pause = np.zeros(round(PAUSE * rate), np.float32)
    for row in recordings:
        samples, own_rate = soundfile.read(row.path, dtype="float32", always_2d=True)
        if own_rate != rate:
            continue
        places.append([row.text, position / rate, (position + len(samples)) / rate])
        parts += [samples.mean(axis=1), pause]
        position += len(samples) + len(pause)
    soundfile.write(path, np.concatenate(parts), rate)
    path.with_suffix(".words.txt").write_text("\n".join(text for text, *_ in places) + "\n")
    path.with_suffix(".places.json").write_text(json.dumps(places), encoding="utf-8")
    return path


def danish_asr(*words: object, statuses: Sequence[int] = (0,)) -> None:
    """Run a command of this project; it may end with one of the ``statuses``."""
    command = [sys.executable, "-m", "danish_asr", *map(str, words)]
    print("$ danish-asr", *map(str, words), flush=True)
    if subprocess.run(command, check=False).returncode not in statuses:  # noqa: S603
        sys.exit(f"failed: {' '.join(command)}")


def print_table(folder: Path, recordings: Sequence[Recording], runs: Sequence[Path]) -> None:
    """Print what was measured, in Markdown."""
    from danish_asr.metrics import compute_wer

    print("\n| what | number |\n|---|---|")
    for speaker in ("dane", "american"):
        print(f"| recordings of the {speaker} | {sum(r.speaker == speaker for r in recordings)} |")
    for run in runs:
        (file,) = run.glob("eval/*/test*/scores.json")
        overall, *_ = json.loads(file.read_text(encoding="utf-8"))["groups"]
        print(f"| {run.name}: WER, CER on test | {overall['wer']:.1%}, {overall['cer']:.1%} |")
    places = json.loads((folder / "joined.places.json").read_text(encoding="utf-8"))
    text = (folder / "joined.txt").read_text(encoding="utf-8").replace("\n", " ")
    wer = compute_wer([text], [" ".join(word for word, *_ in places)])
    print(f"| {len(places)} words of the dane, joined: WER of `transcribe` | {wer:.1%} |")
    with (folder / "times/joined.csv").open(encoding="utf-8") as table:
        rows = [*csv.DictReader(table)]
    inside = sum(
        start <= (float(row["start"]) + float(row["end"])) / 2 <= end
        for row, (_, start, end) in zip(rows, places, strict=True)
    )
    print(f"| words that `transcribe --text` puts into their recording | {inside} of {len(rows)} |")


if __name__ == "__main__":
    main()
