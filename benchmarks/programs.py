"""What the programs of others make of an exported model: texts, times, training, awkward audio.

    python benchmarks/programs.py [PYTHON ...] [--model demo/run] [--audio rows] [--rows 40]

Exports the model to each format here, then runs itself with each PYTHON, the interpreter of an
environment with any of transformers (and accelerate), onnxruntime and sherpa-onnx, which need not
have this project. AUDIO is a folder of FLAC files, each with a ``.txt`` beside it; its first ROWS
are transcribed, and joined they make 60 s. Without arguments: this environment, and a model with
random weights on synthetic sounds, whose texts mean nothing.
"""

from __future__ import annotations

import difflib
import itertools
import json
import subprocess
import sys
import tempfile
import warnings
from argparse import ArgumentParser
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

RATE = 16_000
ROOT = Path(__file__).parents[1]
SHERPA = "import sherpa_onnx as s; r = s.OfflineRecognizer.from_omnilingual_asr_ctc({!r}, {!r}); "


def main() -> None:
    """Export, run every environment, print what each did."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("pythons", nargs="*", default=[sys.executable])
    parser.add_argument("--model", type=Path)
    parser.add_argument("--audio", type=Path)
    parser.add_argument("--rows", type=int, default=40)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        export(folder, args.model, args.audio, args.rows)
        for python in args.pythons:
            command = [python, __file__, "--inside", name]
            lines = subprocess.check_output(command, text=True, stderr=subprocess.DEVNULL)  # noqa: S603
            print(lines, flush=True)


def export(folder: Path, run: Path | None, audio: Path | None, rows: int) -> None:
    """Write the exports, the waveforms and fairseq2's text of each waveform."""
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    from danish_asr.decoding.greedy import GreedyDecoder  # noqa: PLC0415
    from danish_asr.inference.export import export_model  # noqa: PLC0415
    from danish_asr.inference.export.verify import (  # noqa: PLC0415
        awkward_utterances,
        read_utterances,
    )
    from danish_asr.inference.model import load_model  # noqa: PLC0415
    from tests.random_models import build_model  # noqa: PLC0415

    model = str(run or build_model(folder / "random"))
    for to in ("hf", "onnx", "sherpa-onnx"):
        export_model(model, to, folder / to, int8=to != "hf")
    files = sorted(audio.glob("*.flac"))[:rows] if audio else []
    utterances = read_utterances(files)
    speech = np.concatenate([each.waveform for each in utterances])
    speech = np.tile(speech, -(-60 * RATE // len(speech)))[: 60 * RATE]
    short, silence, noise, _ = awkward_utterances()
    waveforms = {str(number): each.waveform for number, each in enumerate(utterances)}
    waveforms |= {"0.2 s": short.waveform, "silence": silence.waveform}
    waveforms |= {"noise": noise.waveform, "60 s": speech}
    loaded = load_model(model, device="cpu")
    decode = GreedyDecoder(loaded.tokenizer)
    texts = {}
    for name, waveform in waveforms.items():
        row = loaded.log_probs([waveform])[0]
        texts[name] = decode(row[None], [len(row)])[0].strip()
        soundfile.write(folder / f"{name}.flac", waveform, RATE, subtype="PCM_24")
    references = {str(n): each.reference or texts[str(n)] for n, each in enumerate(utterances)}
    (folder / "texts.json").write_text(json.dumps([texts, references]), encoding="utf-8")


def inside(folder: Path) -> None:
    """Print what this environment makes of the exports, a line per program."""
    warnings.simplefilter("ignore")
    texts, references = json.loads((folder / "texts.json").read_text(encoding="utf-8"))
    waveforms = {
        name: soundfile.read(folder / f"{name}.flac", dtype="float32")[0] for name in texts
    }
    for package in ("transformers", "onnxruntime", "sherpa-onnx"):
        try:
            print(f"{package} {version(package)}", end="")
        except PackageNotFoundError:
            continue
        if package == "transformers":
            print(f", torch {version('torch')}")
            transformers(folder / "hf", waveforms, texts, references)
        elif package == "onnxruntime":
            print()
            onnx(folder / "onnx", waveforms, texts)
        else:
            print()
            sherpa(folder / "sherpa-onnx", waveforms, texts)


def tell(what: str, found: dict[str, str], expected: dict[str, str]) -> None:
    """Print how many texts are equal, and which awkward ones are not."""
    usual = [name for name in found if name.isdigit()]
    equal = sum(found[name] == expected[name] for name in usual)
    others = [name for name in found if not name.isdigit() and found[name] != expected[name]]
    awkward = (
        f"other texts for {', '.join(others)}" if others else "0.2 s, silence, noise, 60 s too"
    )
    print(f"  {what}: {equal} of {len(usual)} texts equal; {awkward}")


def transformers(
    folder: Path, waveforms: dict[str, Any], texts: dict[str, str], references: dict[str, str]
) -> None:
    """The pipeline, whole, in chunks and with times, and five steps of training."""
    import torch  # noqa: PLC0415

    hf: Any = import_module("transformers")
    model = hf.AutoModelForCTC.from_pretrained(folder).eval()
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    found = {}
    for name, waveform in waveforms.items():
        samples = torch.from_numpy(waveform)
        with torch.inference_mode():
            best = model(torch.nn.functional.layer_norm(samples, samples.shape)[None]).logits[0]
        best = best.argmax(-1)
        found[name] = tokenizer.decode(best.where(best > 2, 0)).strip()
    tell("as the card says", found, texts)
    asr = hf.pipeline("automatic-speech-recognition", str(folder))
    tell("pipeline", {name: asr(each.copy())["text"] for name, each in waveforms.items()}, texts)
    long = waveforms["60 s"]
    whole, times = texts["60 s"].split(), {"return_timestamps": "word"}
    result = asr(long.copy(), chunk_length_s=20, stride_length_s=4, **times)
    starts = [chunk["timestamp"][0] for chunk in result["chunks"]]
    single = [chunk["timestamp"][0] for chunk in asr(long.copy(), **times)["chunks"]]
    moved = "the same number of words" if len(starts) == len(single) else "other words"
    if len(starts) == len(single):
        moved = f"starts within {np.abs(np.subtract(starts, single)).max():.2f} s of those"
    alike = difflib.SequenceMatcher(None, result["text"].split(), whole, autojunk=False)
    same = sum(block.size for block in alike.get_matching_blocks())
    print(f"  60 s in chunks of 20 s: {same} of {len(whole)} words as in one piece, {moved}")
    print(f"    times rise: {starts == sorted(starts)}, last {result['chunks'][-1]['timestamp']}")
    try:
        version("accelerate")
    except PackageNotFoundError:
        print("  Trainer: needs accelerate, which is not here")
        return
    rows = [{"waveform": waveforms[name], "text": text} for name, text in references.items()]
    losses, text = train(folder, rows)
    print(f"  Trainer, accelerate {version('accelerate')}: losses", *(f"{x:.3f}" for x in losses))
    print(
        f"    saved and loaded again, it writes: {text[:60]!r}; expected {rows[0]['text'][:60]!r}"
    )


def train(folder: Path, rows: list[dict[str, Any]]) -> tuple[list[float], str]:
    """Losses of five steps on the same eight rows, and a text of the model saved after them."""
    hf: Any = import_module("transformers")
    processor = hf.AutoProcessor.from_pretrained(folder)

    def collate(batch: list[dict[str, Any]]) -> Any:
        waveforms = [row["waveform"] for row in batch]
        inputs = processor(
            waveforms, sampling_rate=RATE, padding=True, return_tensors="pt", text=None
        )
        labels = processor.tokenizer(
            [row["text"].lower() for row in batch], padding=True, return_tensors="pt"
        )
        inputs["labels"] = labels.input_ids.masked_fill(labels.attention_mask == 0, -100)
        return inputs

    with tempfile.TemporaryDirectory() as out:
        trainer = hf.Trainer(
            hf.AutoModelForCTC.from_pretrained(folder, ctc_loss_reduction="mean"),
            hf.TrainingArguments(
                out,
                max_steps=5,
                per_device_train_batch_size=8,
                learning_rate=1e-4,
                logging_steps=1,
                use_cpu=True,
                remove_unused_columns=False,
                report_to=[],
                save_strategy="no",
                disable_tqdm=True,
            ),
            train_dataset=rows[:8],
            data_collator=collate,
            processing_class=processor,
        )
        sys.stdout, stdout = sys.stderr, sys.stdout  # it prints each step
        trainer.train()
        trainer.save_model(out)
        sys.stdout = stdout
        asr = hf.pipeline("automatic-speech-recognition", out)
        text = asr(rows[0]["waveform"].copy())["text"]
    return [row["loss"] for row in trainer.state.log_history if "loss" in row], text


def onnx(folder: Path, waveforms: dict[str, Any], texts: dict[str, str]) -> None:
    """One session for all lengths: alone, then in batches of four."""
    import onnxruntime  # noqa: PLC0415

    tokens = (folder / "tokens.txt").read_text(encoding="utf-8").splitlines()
    names = [line.rsplit(" ", 1)[0] for line in tokens]

    def decoded(rows: list[Any]) -> Iterator[str]:
        batch = np.zeros((len(rows), max(map(len, rows))), np.float32)
        for row, waveform in zip(batch, rows, strict=True):
            row[: len(waveform)] = waveform
        lengths = np.array([len(row) for row in rows])
        logits, frames = session.run(None, {"waveforms": batch, "lengths": lengths})
        for row, count in zip(logits, frames, strict=True):
            best = [symbol for symbol, _ in itertools.groupby(row[:count].argmax(-1)) if symbol > 2]
            yield "".join(names[symbol] for symbol in best).replace("▁", " ").strip()

    for file in ("model.onnx", "model.int8.onnx"):
        session = onnxruntime.InferenceSession(folder / file)
        for size in (1, 4):
            found = dict[str, str]()
            order = list(waveforms)
            for start in range(0, len(order), size):
                part = order[start : start + size]
                found |= zip(part, decoded([waveforms[name] for name in part]), strict=True)
            tell(f"{file}, batches of {size}", found, texts)


def sherpa(folder: Path, waveforms: dict[str, Any], texts: dict[str, str]) -> None:
    """Texts, times and what becomes of hot words."""
    sherpa_onnx: Any = import_module("sherpa_onnx")
    files = str(folder / "model.onnx"), str(folder / "tokens.txt")
    recognizer = sherpa_onnx.OfflineRecognizer.from_omnilingual_asr_ctc(*files)
    found, times = {}, []
    for name, waveform in waveforms.items():
        stream = recognizer.create_stream()
        stream.accept_waveform(RATE, waveform)
        recognizer.decode_stream(stream)
        found[name], times = stream.result.text.strip(), stream.result.timestamps
    tell("model.onnx", found, texts)
    print(f"  60 s: {len(times)} symbols with times, rising: {times == sorted(times)}")
    code = SHERPA.format(*files) + "r.create_stream('krone')"
    command = [sys.executable, "-c", code]
    asked = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
    said = asked.stderr.strip().rpartition(" ")[0].split(" ", 1)[-1] if asked.stderr else ""
    print(f"  create_stream(hotwords): status {asked.returncode}; {said}")


if __name__ == "__main__":
    if "--inside" in sys.argv:
        inside(Path(sys.argv[-1]))
    else:
        main()
