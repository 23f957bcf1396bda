"""Speed and memory of an exported model beside fairseq2's, on one and two cores, in one run.

    python benchmarks/export.py [ARCH [SECONDS]]

Exports a model with random weights (default: 300m, of omniASR's size) to transformers and to ONNX,
in float32 and int8, and transcribes SECONDS (default 10) of noise with each, in processes of their
own that have one or two threads. The real-time factor is processing time divided by audio: by the
clock, and in processor time of all threads, which other processes on the machine change less. The
best of three passes counts. Memory is the process's peak, after the weights were loaded.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

ENGINES = ("fairseq2", "transformers", "ONNX float32", "ONNX int8")
PASSES = 3
RATE = 16_000


def fairseq2_model(arch: str) -> Any:
    """A `Model` with random weights and a small head."""
    from danish_asr.base import native  # noqa: F401, PLC0415 - libsndfile before fairseq2's native half
    from danish_asr.base.fairseq2_private import new_model  # noqa: PLC0415
    from danish_asr.corpus.cards import build_char_tokenizer  # noqa: PLC0415
    from danish_asr.inference.model import Decoders, Model  # noqa: PLC0415
    from danish_asr.recipe.config.config import AsrEvalConfig  # noqa: PLC0415
    from danish_asr.recipe.models.assets import Assets  # noqa: PLC0415

    # isort: split
    from fairseq2.data.tokenizers.char import load_char_tokenizer  # noqa: PLC0415
    from fairseq2.gang import create_fake_gangs  # noqa: PLC0415

    config = AsrEvalConfig()
    family = Assets(config).model_family()
    assert family is not None
    settings: Any = family.maybe_get_arch_config(arch)
    with tempfile.NamedTemporaryFile(suffix=".model") as file:
        file.write(build_char_tokenizer("abcdefghijklmnopqrstuvwxyzæøå"))
        file.flush()
        tokenizer = load_char_tokenizer(Path(file.name), None)
    settings.target_vocab_size = tokenizer.vocab_info.size
    gangs = create_fake_gangs(torch.device("cpu"))
    module: Any = new_model(family, settings, gangs, torch.float32)
    decoders = Decoders(tokenizer, config.dataset.text_profile)
    return Model(module, settings, decoders, config, name=arch)


def opened(engine: str, folder: Path, arch: str, threads: int) -> Callable[[Any], object]:
    """Return what an engine computes from a waveform."""
    if engine == "fairseq2":
        model = fairseq2_model(arch)
        return lambda waveform: model.log_probs([waveform])
    if engine == "transformers":
        from transformers import AutoModelForCTC  # noqa: PLC0415

        module = AutoModelForCTC.from_pretrained(folder / "hf").eval()

        @torch.inference_mode()
        def run(waveform: Any) -> object:
            samples = torch.from_numpy(waveform)
            return module(torch.nn.functional.layer_norm(samples, samples.shape)[None]).logits

        return run
    import onnxruntime  # noqa: PLC0415

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    name = "model.int8.onnx" if engine.endswith("int8") else "model.onnx"
    session = onnxruntime.InferenceSession(folder / "onnx" / name, options)
    return lambda waveform: session.run(
        None, {"waveforms": waveform[None], "lengths": np.array([len(waveform)])}
    )


def measure(engine: str, folder: Path, arch: str, threads: int, seconds: float) -> None:
    """Print the two real-time factors and the peak of memory in GiB, as JSON."""
    torch.set_num_threads(threads)
    waveform = 0.1 * np.random.default_rng(0).standard_normal(round(seconds * RATE), np.float32)
    run = opened(engine, folder, arch, threads)
    run(waveform[:RATE])
    # From here on, the peak is that of inference: loading may have held the weights twice.
    Path("/proc/self/clear_refs").write_text("5")
    passes = []
    for _ in range(PASSES):
        clock, processor = time.perf_counter(), time.process_time()
        run(waveform)
        passes.append([time.perf_counter() - clock, time.process_time() - processor])
    status = Path("/proc/self/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    print(json.dumps([*np.min(passes, axis=0) / seconds, peak / 2**20]))


def main(arch: str, seconds: str) -> None:
    """Export the model, then measure each engine in a process."""
    from danish_asr.inference.export.to_hugging_face import write_hugging_face  # noqa: PLC0415
    from danish_asr.inference.export.to_onnx import write_onnx  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = fairseq2_model(arch)
        for part in ("hf", "onnx"):
            (folder / part).mkdir()
        write_hugging_face(model, folder / "hf", None)
        write_onnx(model, folder / "onnx", int8=True)
        del model
        files = [folder / "hf" / "model.safetensors", *sorted((folder / "onnx").glob("*.onnx"))]
        print(", ".join(f"{file.name} {file.stat().st_size / 2**20:,.0f} MiB" for file in files))
        print(f"{arch}, {seconds} s of audio, load {os.getloadavg()[0]:.1f}")
        print(f"{'':14}threads  real-time factor  in processor time  memory, GiB")
        for threads in (1, 2):
            for engine in ENGINES:
                command = [sys.executable, __file__, engine, name, arch, str(threads), seconds]
                found = subprocess.check_output(command, text=True)  # noqa: S603 - this file
                clock, processor, peak = json.loads(found.splitlines()[-1])
                line = f"{engine:14}{threads:7}{clock:18.3f}{processor:19.3f}{peak:13.2f}"
                print(line, flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 6:
        measure(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
    else:
        main(*[*sys.argv[1:], *("300m", "10")[len(sys.argv) - 1 :]])
