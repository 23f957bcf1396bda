"""What `danish-asr audit` finds in a spoiled dataset, and what leaving it out gives.

    make demo && python -m benchmarks.quality_audit FOLDER demo/run

The demo's model is fine-tuned on synthetic speech of other speakers: on rows as they are (`clean`),
on rows of which some are spoiled (`spoiled`), on each half of those (`half-0`, `half-1`), of which
each transcribes the other, and on what the audit leaves of them (`audited`). An interrupted command
continues.
"""

import argparse
import csv
import io
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile

from benchmarks.quality_data import WORDS
from danish_asr.base.files import publish_text
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.convert import convert
from danish_asr.corpus.sources.synthetic import SyntheticSize, synthesise
from danish_asr.corpus.sources.voices import Espeak, SyntheticSpeaker
from danish_asr.scoring.predictions import read_predictions
from danish_asr.scoring.scores import score_predictions

SHARES: Final = {
    "exchanged": 0.02,  # the text of another row
    "shortened": 0.015,  # the first half of the words
    "garbled": 0.015,  # half of the words are other letters
    "cut audio": 0.01,  # the first half
    "other language": 0.01,  # German, speech and text
    "noise": 0.01,  # no speech
}
"""Of the training rows; the first three spoil 5 % of the texts."""

HALF: Final = "LENGTH(text) % 2 = "
STEPS: Final = 80
HALVES: Final = ("half-0", "half-1")
RUNS: Final = (*HALVES, "clean", "spoiled", "audited")


def main() -> None:
    """Make the data, train what is missing, audit, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("base", type=Path, help="the run to start from")
    parser.add_argument("--run", action="append", choices=RUNS, help="only this; repeatable")
    args = parser.parse_args()
    folder = args.folder.resolve()
    roots = [folder / "data" / name for name in ("clean", "spoiled")]
    os.environ["DANISH_ASR_ASSETS"] = os.pathsep.join(str(root / "cards") for root in roots)
    prepare(folder / "data")
    for run in args.run or RUNS:
        if run == "audited":
            audit(folder)
        if not any((folder / run).glob("eval/best/**/evaluation.json")):
            print(run, flush=True)
            train_and_evaluate(folder, run, args.base.resolve())
    if not args.run:
        report(folder)


def prepare(data: Path) -> None:
    """Make what is missing of the two datasets."""
    size = SyntheticSize(train=2_000)
    synthesise(data / "clean.source", size=size, seed=2, workers=os.cpu_count() or 1)
    if not (data / "spoiled.json").is_file():
        spoil(data / "clean.source", data / "spoiled.source", data / "spoiled.json")
    for name in ("clean", "spoiled"):
        if not (data / name / "manifest.json").is_file():
            convert(data / f"{name}.source", data / name, ConvertOptions(name=f"audit_{name}"))


def spoil(source: Path, out: Path, kinds_file: Path) -> None:
    """Copy a corpus with some training rows spoiled, and write the kind of each by its id."""
    espeak, kinds = Espeak(), dict[str, str]()
    for number, file in enumerate(sorted(source.glob("*/*.parquet"))):
        table = pq.read_table(file)
        rows = table.to_pylist()
        if file.name.startswith("train"):
            random = Random(number)  # noqa: S311 - not for cryptography
            chosen = random.sample(range(len(rows)), len(rows))
            for kind, share in SHARES.items():
                count = round(share * len(rows))
                of_kind, chosen = chosen[:count], chosen[count:]
                texts = [rows[row]["text"] for row in of_kind]
                for row, other in zip(of_kind, texts[1:] + texts[:1], strict=True):
                    _spoil_row(rows[row], kind, other, random, espeak)
                    kinds[_id(rows[row])] = kind
        target = out / file.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, table.schema), target, row_group_size=100)
    publish_text(kinds_file, json.dumps(kinds))


def _id(row: Mapping[str, Any]) -> str:
    if "id_recording" in row:
        return str(row["id_recording"])
    return f"{row['id_conversation']}_{row['id_segment']}"


def _spoil_row(row: dict[str, Any], kind: str, other: str, random: Random, espeak: Espeak) -> None:
    words = row["text"].split()
    wave, rate = soundfile.read(io.BytesIO(row["audio"]["bytes"]), dtype="float32")
    if kind == "exchanged":
        row["text"] = other
    elif kind == "shortened":
        row["text"] = " ".join(words[: len(words) // 2])
    elif kind == "garbled":
        for place in random.sample(range(len(words)), (len(words) + 1) // 2):
            letters = random.choices("abcdefghijklmnopqrstuvwxyzæøå", k=len(words[place]))
            words[place] = "".join(letters)
        row["text"] = " ".join(words)
    elif kind == "cut audio":
        wave = wave[: len(wave) // 2]
    elif kind == "other language":
        row["text"] = " ".join(random.sample(WORDS["de"].split(), 6)).replace("ß", "ss")
        voice = SyntheticSpeaker({}, "de+f2", 165, 50, 50, 40, 0)
        wave, rate = 0.3 * espeak.speak(row["text"], voice), espeak.sample_rate
    else:
        noise = np.random.default_rng(random.getrandbits(32)).standard_normal(len(wave))
        wave = (0.05 * noise).astype(np.float32)
    audio = io.BytesIO()
    soundfile.write(audio, wave, rate, format="FLAC", subtype="PCM_16")
    row["audio"] = row["audio"] | {"bytes": audio.getvalue()}


def train_and_evaluate(folder: Path, run: str, base: Path) -> None:
    """Train a run; evaluate it on test, or each half on the other half."""
    dataset = "clean" if run == "clean" else "spoiled"
    changes = [
        *(f"model.path={base}", f"dataset.name=audit_{dataset}", "common.torch.num_threads=1"),
        *(f"regime.num_steps={STEPS}", f"regime.validate_every_n_steps={STEPS // 2}"),
        f"regime.checkpoint_every_n_steps={STEPS // 2}",
        f"regime.publish_metrics_every_n_steps={STEPS // 4}",
    ]
    scored = ["evaluator.split=test"]
    half = run.removeprefix("half-")
    if half != run:
        other = 1 - int(half)
        changes.append(f"dataset.train_where={HALF}{half}")
        rest = f"evaluator.where={HALF}{other}"
        scored = ["evaluator.split=train", rest, "evaluator.label=unseen"]
    if run == "audited":
        ids = ", ".join(map(repr, _listed(folder)))
        changes.append(f"dataset.train_where=id NOT IN ({ids})")
    danish_asr("train", folder / run, "-c", "configs/demo.yaml", *changes)
    danish_asr("evaluate", folder / run, *scored)


def audit(folder: Path) -> None:
    """List the rows that each half's model contradicts in the other half."""
    for name in HALVES:
        page = folder / f"audit-{name}.html"
        danish_asr(
            "audit", folder / "data" / "spoiled", f"--model={folder / name}", f"--out={page}"
        )


def _listed(folder: Path) -> dict[str, str]:
    """The ids that the audit lists, and the kind of each."""
    listed: dict[str, str] = {}
    for name in HALVES:
        with (folder / f"audit-{name}.csv").open(encoding="utf-8", newline="") as file:
            listed |= {row["id"]: row["reason"] for row in csv.DictReader(file)}
    return listed


def danish_asr(*arguments: object) -> None:
    """Run the command in a process of its own."""
    command = [sys.executable, "-m", "danish_asr", *map(str, arguments)]
    subprocess.run(command, check=True)  # noqa: S603


def report(folder: Path) -> None:
    """Print what the list found, by kind, and the WER of the runs."""
    kinds = json.loads((folder / "data" / "spoiled.json").read_text())
    listed = _listed(folder)
    print("| spoiled | rows | listed | as |\n|---|---|---|---|")
    for kind, count in Counter(kinds.values()).items():
        found = Counter(name for row, name in listed.items() if kinds.get(row) == kind)
        names = ", ".join(f"{name} {number}" for name, number in found.most_common())
        print(f"| {kind} | {count} | {found.total()} | {names} |")
    right = sum(row in kinds for row in listed)
    print(f"listed: {len(listed)}, of which spoiled: {right} ({right / len(listed):.1%})")
    for run in ("clean", "spoiled", "audited"):
        file = folder / run / "eval" / "best" / "test" / "predictions.jsonl"
        wer = score_predictions(read_predictions(file), by=[]).overall.wer
        print(f"| {run} | {100 * wer.value:.2f} | {wer.interval} |")


if __name__ == "__main__":
    main()
