"""One program of benchmarks/transcribe.py in a process of its own, which imports nothing else.

    python benchmarks/transcribe_program.py PROGRAM THREADS MODEL FOLDER

FOLDER has the exports of the model and ``audio.npz``. The last line that it prints is a JSON list:
seconds of processor and clock, GiB while transcribing and in all, and the texts.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROUNDS = 2
RATE = 16_000


def main(program: str, threads: int, model: str, folder: Path) -> None:
    """Measure a program and print the numbers."""
    waveforms = list(np.load(folder / "audio.npz").values())
    transcribe = opened(program, model, folder, threads)
    transcribe(waveforms[:1])
    loaded = peak()
    Path("/proc/self/clear_refs").write_text("5")
    times, texts = [], list[str]()
    for _ in range(ROUNDS):
        processor, clock = time.process_time(), time.perf_counter()
        texts = transcribe(waveforms)
        times.append((time.process_time() - processor, time.perf_counter() - clock))
    memory = peak()
    texts = [" ".join(text.split()) for text in texts]
    print(json.dumps([*np.min(times, axis=0), memory, max(memory, loaded), texts]))


def peak() -> float:
    """Return the peak of the process's memory in GiB."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line) / 2**20


def opened(program: str, model: str, folder: Path, threads: int) -> Callable[[Any], list[str]]:
    """Return what a program makes of a list of waveforms: their texts."""
    if program == "omnilingual-asr":
        return omnilingual_asr(model)
    int8 = program.endswith("int8")
    if program.startswith("danish-asr"):
        from danish_asr.inference.model import load_model  # noqa: PLC0415

        ours = load_model(model, device="cpu", int8=int8)

        def texts(waveforms: list[Any]) -> list[str]:
            transcripts = ours.transcribe_each(waveforms, rate=RATE)
            return [one.text for one in transcripts if not isinstance(one, Exception)]

        return texts
    openers = {"transformers": transformers, "onnxruntime": onnxruntime, "sherpa-onnx": sherpa_onnx}
    file = "model.int8.onnx" if int8 else "model.onnx"
    run = openers[program.split(maxsplit=1)[0]](folder, file, threads)
    return lambda waveforms: [run(waveform) for waveform in waveforms]


def omnilingual_asr(model: str) -> Callable[[Any], list[str]]:
    """Return omnilingual-asr's pipeline with a model as fairseq2 has it."""
    import torch  # noqa: PLC0415

    from danish_asr.inference import model as loading  # noqa: PLC0415

    # isort: split
    from omnilingual_asr.models.inference.pipeline import ASRInferencePipeline  # noqa: PLC0415

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
    import torch  # noqa: PLC0415
    from transformers import AutoModelForCTC, AutoTokenizer  # noqa: PLC0415

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
    from onnxruntime import InferenceSession, SessionOptions  # noqa: PLC0415

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
    from sherpa_onnx import OfflineRecognizer  # type: ignore[import-untyped] # noqa: PLC0415

    files = [str(folder / "onnx" / name) for name in (file, "tokens.txt")]
    recognizer = OfflineRecognizer.from_omnilingual_asr_ctc(*files, num_threads=threads)

    def run(waveform: Any) -> str:
        stream = recognizer.create_stream()
        stream.accept_waveform(RATE, waveform)
        recognizer.decode_stream(stream)
        return str(stream.result.text)

    return run


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
