"""Transcription on a CPU: this project beside other programs with the same weights, in one run.

    python benchmarks/transcribe.py [MODEL] --audio FOLDER [--seconds 600] [--random-seconds 60]

Programs: ``danish-asr transcribe``, also with ``--int8``; omnilingual-asr's own pipeline; and the
exports of the model in transformers, onnxruntime and sherpa-onnx. Each transcribes the same
utterances, one after the other, in processes of their own with 1 and with 2 threads
(``--threads``). FOLDER has recordings, with their texts in ``.txt`` files. After MODEL, the
architecture ``--arch`` runs with random weights, on less audio, in pieces of 15 s.

A real-time factor is seconds of processor time (all threads) or of the clock per second of audio,
the least of several rounds; only ratios within one run say something. Memory is the peak while the
program transcribes, and of the whole process with loading. Texts are compared with those of
omnilingual-asr. ``danish-asr`` also finds the speech and the times of words, which the others lack.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from danish_asr.inference.onnx_file import write_onnx
from danish_asr.inference.transformers_folder import write_hugging_face

PROGRAMS = (
    "omnilingual-asr",
    "danish-asr",
    "danish-asr --int8",
    "transformers",
    "onnxruntime",
    "onnxruntime int8",
    "sherpa-onnx",
    "sherpa-onnx int8",
)
COLUMNS = ("threads", "program", "RTF, processor", "RTF, clock", "GiB", "with loading")
ROUNDS = 2
RATE = 16_000
TURN = 15
"""Seconds of a recording for random weights."""


class Utterance(NamedTuple):
    """Audio to transcribe, and a file that may have its text."""

    waveform: NDArray[np.float32]
    text: Path


def main() -> None:
    """Export each model, measure each program with each number of threads, print a table each."""
    if sys.argv[1] == "--run":
        program, count, name, exports = sys.argv[2:]
        run_program(program, int(count), name, Path(exports))
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("model", nargs="?")
    parser.add_argument("--audio", nargs="+", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--random-seconds", type=float, default=60)
    parser.add_argument("--arch", default="300m")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    args = parser.parse_args()
    from danish_asr.base.audio import decode, resampled
    from danish_asr.inference.recordings import find_recordings

    files = [recording.path for recording in find_recordings(args.audio)]
    utterances = [Utterance(resampled(*decode(file)), file.with_suffix(".txt")) for file in files]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if args.model:
            table_of(args.model, utterances, args.seconds, folder, threads=args.threads)
        random = folder / "random"
        write_random(args.arch, random)
        seconds = args.random_seconds
        table_of(str(random), utterances, seconds, folder, threads=args.threads, title=args.arch)


def table_of(
    model: str,
    utterances: Sequence[Utterance],
    seconds: float,
    parent: Path,
    *,
    threads: Sequence[int],
    title: str = "",
) -> None:
    """Print the table of a model, with so many seconds of audio."""
    from rich.console import Console
    from rich.table import Table

    from danish_asr.inference.model import load_model
    from danish_asr.metrics import compute_wer
    from danish_asr.text.profiles import normalize

    ends = np.cumsum([len(utterance.waveform) / RATE for utterance in utterances])
    chosen = [u for u, end in zip(utterances, ends, strict=True) if end <= seconds]
    used = float(ends[len(chosen) - 1])
    folder = parent / f"exports-{Path(model).name}"
    loaded = load_model(model, device="cpu")
    for part in ("hf", "onnx"):
        (folder / part).mkdir(parents=True)
    write_hugging_face(loaded, folder / "hf")
    write_onnx(loaded, folder / "onnx", int8=True)
    del loaded
    waveforms = [utterance.waveform for utterance in chosen]
    if title:  # weights are random, and so are texts: recordings as long as a speaker's turn
        waveforms = np.array_split(np.concatenate(waveforms), max(1, round(used / TURN)))
    np.savez(folder / "audio.npz", *waveforms)
    audio = f"{len(waveforms)} recordings, {used:.0f} s, load {os.getloadavg()[0]:.1f}"
    table = Table(*COLUMNS, "equal texts", "WER %", title=f"{title or Path(model).name}: {audio}")
    texts = [u.text.read_text("utf-8") for u in chosen if u.text.is_file() and not title]
    references = [normalize(text, "coral") for text in texts]
    for count in threads:
        expected: list[str] = []
        for program in PROGRAMS:
            command = [sys.executable, __file__, "--run", program, str(count), model, str(folder)]
            env = {**os.environ, "OMP_NUM_THREADS": str(count)}
            out = subprocess.check_output(command, env=env, text=True)  # noqa: S603
            *numbers, texts = json.loads(out.splitlines()[-1])
            expected = expected or texts
            equal = sum(map(str.__eq__, texts, expected))
            found = [normalize(text, "coral") for text in texts]
            wer = f"{100 * compute_wer(found, references):.2f}" if references else ""
            factors = [f"{number / used:.4f}" for number in numbers[:2]]
            memory = [f"{number:.2f}" for number in numbers[2:]]
            table.add_row(str(count), program, *factors, *memory, str(equal), wer)
            print(count, program, *factors, *memory, equal, wer, file=sys.stderr, flush=True)
    Console(width=120).print(table)


def write_random(arch: str, folder: Path) -> None:
    """Write a model of this architecture with random weights as a directory that loads."""
    from danish_asr.base.files import to_yaml
    from danish_asr.corpus.cards import build_char_tokenizer

    # isort: split
    from fairseq2.models.wav2vec2.asr import create_wav2vec2_asr_model, get_wav2vec2_asr_model_hub

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


def run_program(program: str, threads: int, model: str, folder: Path) -> None:
    """Measure a program and print the numbers."""
    waveforms = list(np.load(folder / "audio.npz").values())
    transcribe = opened(program, model, folder, threads)
    transcribe(waveforms[:1])
    loaded = peak_memory()
    Path("/proc/self/clear_refs").write_text("5")
    times, texts = [], list[str]()
    for _ in range(ROUNDS):
        processor, clock = time.process_time(), time.perf_counter()
        texts = transcribe(waveforms)
        times.append((time.process_time() - processor, time.perf_counter() - clock))
    memory = peak_memory()
    texts = [" ".join(text.split()) for text in texts]
    print(json.dumps([*np.min(times, axis=0), memory, max(memory, loaded), texts]))


def peak_memory() -> float:
    """Return the peak of the process's memory in GiB."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line) / 2**20


def opened(program: str, model: str, folder: Path, threads: int) -> Callable[[Any], list[str]]:
    """Return what a program makes of a list of waveforms: their texts."""
    if program == "omnilingual-asr":
        return omnilingual_asr(model)
    int8 = program.endswith("int8")
    if program.startswith("danish-asr"):
        from danish_asr.inference.model import load_model

        ours = load_model(model, device="cpu", int8=int8)
        return lambda waveforms: [
            ours.transcribe(waveform, rate=RATE).text for waveform in waveforms
        ]
    openers = {"transformers": transformers, "onnxruntime": onnxruntime, "sherpa-onnx": sherpa_onnx}
    file = "model.int8.onnx" if int8 else "model.onnx"
    run = openers[program.split(maxsplit=1)[0]](folder, file, threads)
    return lambda waveforms: [run(waveform) for waveform in waveforms]


def omnilingual_asr(model: str) -> Callable[[Any], list[str]]:
    """Return omnilingual-asr's pipeline with a model as fairseq2 has it."""
    from danish_asr.inference import model as loading

    # isort: split
    from omnilingual_asr.models.inference.pipeline import ASRInferencePipeline

    vars(loading)["prepare_for_cpu"] = lambda *_, **__: None  # fairseq2's own forward pass
    loaded = loading.load_model(model, device="cpu")
    options: Any = {"model": loaded.module, "tokenizer": loaded.tokenizer, "dtype": torch.float32}
    pipeline = ASRInferencePipeline(None, device="cpu", **options)

    def run(waveforms: Any) -> list[str]:
        audio: Any = [{"waveform": waveform, "sample_rate": RATE} for waveform in waveforms]
        return list(pipeline.transcribe(audio, lang=None, batch_size=1))

    return run


def transformers(folder: Path, _file: str, _threads: int) -> Callable[[Any], str]:
    """Return transformers with the export in float32."""
    from transformers import AutoModelForCTC, AutoTokenizer

    model = AutoModelForCTC.from_pretrained(folder / "hf").eval()
    tokenizer: Any = AutoTokenizer.from_pretrained(folder / "hf")  # type: ignore[no-untyped-call]

    @torch.inference_mode()
    def run(waveform: Any) -> str:
        samples = torch.from_numpy(waveform)
        inputs = torch.nn.functional.layer_norm(samples, samples.shape)[None]
        best = model(inputs).logits[0].argmax(-1)
        return str(tokenizer.decode(best.where(best > 2, 0)))

    return run


def onnxruntime(folder: Path, file: str, threads: int) -> Callable[[Any], str]:
    """Return onnxruntime with an export."""
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads = threads
    session = InferenceSession(folder / "onnx" / file, options)
    lines = (folder / "onnx" / "tokens.txt").read_text("utf-8").splitlines()
    names = [line.rsplit(" ", 1)[0] for line in lines]

    def run(waveform: Any) -> str:
        x = (waveform - waveform.mean()) / np.sqrt(waveform.var() + 1e-5)
        (logits,) = session.run(None, {"x": x[None].astype(np.float32)})
        symbols = [symbol for symbol, _ in itertools.groupby(logits[0].argmax(-1))]
        return "".join(names[symbol] for symbol in symbols if symbol > 2).replace("▁", " ")

    return run


def sherpa_onnx(folder: Path, file: str, threads: int) -> Callable[[Any], str]:
    """Return sherpa-onnx with an export."""
    from sherpa_onnx import OfflineRecognizer  # type: ignore[import-untyped]

    files = [str(folder / "onnx" / name) for name in (file, "tokens.txt")]
    recognizer = OfflineRecognizer.from_omnilingual_asr_ctc(*files, num_threads=threads)

    def run(waveform: Any) -> str:
        stream = recognizer.create_stream()
        stream.accept_waveform(RATE, waveform)
        recognizer.decode_stream(stream)
        return str(stream.result.text)

    return run


if __name__ == "__main__":
    main()
