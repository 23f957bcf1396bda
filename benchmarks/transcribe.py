"""Real-time factors of transcription beside omnilingual-asr's own pipeline, in one run.

    python benchmarks/transcribe.py MODEL AUDIO... [--arch 300m]

AUDIO are files of up to 40 s, the most that upstream's pipeline takes; both get the same files and
the same weights, in float32, with 1 and with 2 threads, in processes of their own. ``--arch`` adds
that architecture with random weights. A real-time factor is seconds of processor time (all threads)
or of the clock per second of audio; only the ratio of two lines of one run says something. Ours
includes voice activity and the alignment of words, which upstream's pipeline does not have.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import soundfile
import torch
from rich.console import Console
from rich.table import Table

from danish_asr.base.files import to_yaml
from danish_asr.corpus.cards import build_char_tokenizer
from danish_asr.inference.model import Model, load_model

# isort: split
from fairseq2.models.wav2vec2.asr import create_wav2vec2_asr_model, get_wav2vec2_asr_model_hub
from omnilingual_asr.models.inference.pipeline import ASRInferencePipeline

ROUNDS = 3


def main() -> None:
    """Measure each model with each number of threads and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("audio", nargs="+", type=Path)
    parser.add_argument("--arch", default="300m")
    parser.add_argument("--measure", choices=["danish-asr", "omnilingual-asr"])
    args = parser.parse_args()
    if args.measure:
        measure(args.measure, load_model(args.model, device="cpu"), args.audio)
        return
    seconds = sum(soundfile.info(str(file)).duration for file in args.audio)
    table = Table(title=f"{len(args.audio)} files, {seconds:.0f} s of audio")
    for column in ("model", "threads", "pipeline", "RTF, processor", "RTF, clock"):
        table.add_column(column, justify="right" if "RTF" in column else "left")
    with tempfile.TemporaryDirectory() as folder:
        random = Path(folder, args.arch)
        write_random(args.arch, random)
        for name, model in ((Path(args.model).name, args.model), (f"{args.arch} (random)", random)):
            for threads in (1, 2):
                for pipeline in ("danish-asr", "omnilingual-asr"):
                    cpu, clock = run(pipeline, str(model), args.audio, threads)
                    row = (cpu / seconds, clock / seconds)
                    table.add_row(name, str(threads), pipeline, *(f"{each:.4f}" for each in row))
    Console().print(table)


def write_random(arch: str, folder: Path) -> None:
    """Write a model of this architecture with random weights as a directory that loads."""
    alphabet = "abcdefghijklmnopqrstuvwxyzæøå "
    config = get_wav2vec2_asr_model_hub().get_arch_config(arch)
    config.target_vocab_size = len(alphabet) + 4
    (folder / "cards").mkdir(parents=True)
    (folder / "cards" / "tokenizer.model").write_bytes(build_char_tokenizer(alphabet))
    torch.save(create_wav2vec2_asr_model(config).state_dict(), folder / "model.pt")
    card = {
        "name": "random",
        "model_family": "wav2vec2_asr",
        "model_arch": arch,
        "model_config": {"target_vocab_size": config.target_vocab_size},
        "checkpoint": "../model.pt",
        "tokenizer_family": "char_tokenizer",
        "tokenizer": "tokenizer.model",
    }
    (folder / "cards" / "random.yaml").write_text(to_yaml(card), encoding="utf-8")


def run(pipeline: str, model: str, audio: list[Path], threads: int) -> tuple[float, float]:
    """Measure in a process with this many threads; returns seconds of processor and clock."""
    command = [sys.executable, __file__, model, *map(str, audio), "--measure", pipeline]
    env = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    result = subprocess.run(command, env=env, check=True, capture_output=True, text=True)  # noqa: S603
    cpu, clock = json.loads(result.stdout.splitlines()[-1])
    return cpu, clock


def measure(pipeline: str, model: Model, audio: list[Path]) -> None:
    """Print the seconds of processor and clock of the fastest of several rounds."""
    files = [str(file) for file in audio]
    upstream = ASRInferencePipeline(
        None,
        model=model.module,
        tokenizer=model.tokenizer,
        device="cpu",
        dtype=torch.float32,
    )

    def transcribe() -> None:
        if pipeline == "danish-asr":
            model.transcribe(list(files))
        else:
            upstream.transcribe(files, lang=None, batch_size=1)

    transcribe()
    times = []
    for _ in range(ROUNDS):
        cpu, clock = time.process_time(), time.perf_counter()
        transcribe()
        times.append((time.process_time() - cpu, time.perf_counter() - clock))
    print(json.dumps(min(times)))


if __name__ == "__main__":
    main()
