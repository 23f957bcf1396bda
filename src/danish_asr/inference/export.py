"""``danish-asr export``: write a model for another program, compare it, give it its name.

A model comes in. A directory with weights, symbols and a README.md comes out, which needs neither
fairseq2 nor this package; hugging_face.py and onnx_file.py write the files, model_card.py the rest.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from itertools import groupby, islice
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch.nn.functional import layer_norm, log_softmax

from danish_asr.base.audio import AudioError, to_mono
from danish_asr.base.errors import ConfigError, DanishAsrError, MissingExtraError, RunError
from danish_asr.base.files import publish_text
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.decoding.greedy import GreedyDecoder
from danish_asr.inference.hugging_face import SILENT, write_hugging_face
from danish_asr.inference.model import Model, load_model
from danish_asr.inference.model_card import model_card
from danish_asr.inference.onnx_file import INT8, MODEL, TOKENS, write_onnx
from danish_asr.inference.recordings import find_recordings
from danish_asr.inference.rows import dataset_of, read_rows, run_of

FORMATS: Final = ("hf", "onnx")

LIMIT: Final = 1e-3
"""The largest difference of log-probabilities of an export in float32. Measured: 0 in transformers,
below 6e-5 in ONNX, with digital silence as with speech; fairseq2 itself differs as much from
float64."""

_ROWS: Final = 20
"""Rows of the test split to compare on."""

_LONGEST: Final = 30 * SAMPLE_RATE
"""Samples of an utterance; the memory of a pass grows with their square."""

_Waveform = NDArray[np.float32]


class Output(NamedTuple):
    """What a program makes of a waveform."""

    logits: NDArray[np.float32]
    """(frames, symbols)"""
    text: str


_Runner = Callable[[_Waveform], Output]


def export_model(
    model: str,
    to: str,
    dest: Path,
    *,
    int8: bool = False,
    audio: Sequence[Path] = (),
    console: Console | None = None,
) -> None:
    """Export a model to a new directory, which appears when it is compared; print what was.

    Args:
        model: As for `load_model`.
        to: One of `FORMATS`.
        dest: The directory, which must not exist.
        int8: Also write ``model.int8.onnx``.
        audio: Files to compare on, and folders of them; else the test rows of the run's dataset.
        console: Where to print.

    Raises:
        ConfigError: The options do not fit each other, or there is no such model.
        MissingExtraError: The extra ``export`` is not installed.
        RunError: The model cannot be exported, or the export differs from it.
    """
    console = console or Console()
    _check(to, dest, int8=int8)
    partial = dest.with_name(f".{dest.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # of an export that was killed
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        raise RunError(f"{dest} cannot be written: {error.strerror}; name another") from error
    try:
        waveforms = [*(_read_audio(audio) if audio else _read_test_rows(model))]
        loaded = load_model(model, device="cpu")
        with console.status(f"exporting {model}"):
            if to == "hf":
                write_hugging_face(loaded, partial)
            else:
                write_onnx(loaded, partial, int8=int8)
        lines = compare(loaded, partial, to, waveforms)
        publish_text(partial / "README.md", model_card(loaded, model, to, lines))
        partial.rename(dest)
    except OSError as error:
        raise RunError(f"{dest}: {error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    for line in [*lines, f"wrote {dest}"]:
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def _check(to: str, dest: Path, *, int8: bool) -> None:
    faults = []
    if to not in FORMATS:
        faults.append(f"--to must be one of {', '.join(FORMATS)}, but is '{to}'")
    if int8 and to == "hf":
        faults.append("--int8 needs --to onnx")
    if dest.exists():
        faults.append(f"{dest} exists; name a new directory, or remove it")
    if faults:
        raise ConfigError(faults, where="danish-asr export")
    needed = ("transformers",) if to == "hf" else ("transformers", "onnx", "onnxruntime")
    if not all(map(find_spec, needed)):
        raise MissingExtraError(f"--to {to}", "export")


def _read_audio(paths: Sequence[Path]) -> Iterator[_Waveform]:
    """Yield the audio of files and folders; a longer recording than 30 s in parts."""
    for recording in find_recordings(paths).recordings:
        try:
            waveform = to_mono(recording.path)
        except (AudioError, OSError) as error:
            raise DanishAsrError(f"--audio {recording.path}: {error}") from None
        yield from np.array_split(waveform, -(-len(waveform) // _LONGEST))


def _read_test_rows(model: str) -> list[_Waveform]:
    try:
        _, config = run_of(model)
        rows = read_rows(dataset_of(config), ["test"], _ROWS)
        return [row.waveform[:_LONGEST] for row in islice(rows, _ROWS)]
    except DanishAsrError as error:
        raise RunError(
            f"the export is compared on speech; name files with --audio, as the model's own test "
            f"rows cannot be read: {error}"
        ) from error


def compare(model: Model, folder: Path, to: str, waveforms: Sequence[_Waveform]) -> list[str]:
    """Compare what is in ``folder``, in its own library, with the model; return lines to print.

    Raises:
        RunError: A log-probability differs by more than `LIMIT`, or a text differs.
    """
    run = _in_transformers(folder) if to == "hf" else _in_onnxruntime(folder, MODEL)
    library = "transformers" if to == "hf" else "onnxruntime"
    decode, shortest = GreedyDecoder(model.tokenizer), model.frames.shortest_input()
    largest, changed, texts = 0.0, 0, list[str]()
    prepared = []
    for samples in waveforms:
        waveform = np.pad(samples, (0, max(0, shortest - len(samples))))
        (expected,) = model.log_probs([waveform])
        texts.append(decode([expected])[0].strip())
        tensor = torch.from_numpy(waveform)
        prepared.append(layer_norm(tensor, tensor.shape).numpy() if model.normalizes else waveform)
        logits, text = run(prepared[-1])
        differences = (log_softmax(torch.from_numpy(logits), -1) - expected).abs()
        largest = max(largest, float(differences.max()))
        changed += text.strip() != texts[-1]
    measured = (
        f"on {len(waveforms)} utterances, in {library} {version(library)}: largest difference of a "
        f"log-probability {largest:.1e}, {changed} texts differ"
    )
    if largest > LIMIT or changed:
        raise RunError(
            f"the export is not published: compared {measured}; expected at most {LIMIT:g} and "
            "equal texts. Report this with the model's configuration"
        )
    lines = [f"compared with fairseq2 {measured}"]
    if (folder / INT8).is_file():
        int8 = _in_onnxruntime(folder, INT8)
        differ = sum(int8(x).text != text for x, text in zip(prepared, texts, strict=True))
        lines.append(f"int8: the texts of {differ} of these utterances differ")
    return lines


def _in_transformers(folder: Path) -> _Runner:
    """Run the directory in transformers; waveforms are normalised as in training."""
    from transformers import AutoModelForCTC, AutoTokenizer  # noqa: PLC0415 - an extra

    module = AutoModelForCTC.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)  # type: ignore[no-untyped-call]

    @torch.inference_mode()
    def run(waveform: _Waveform) -> Output:
        logits = module(torch.from_numpy(waveform)[None]).logits[0]
        best = logits.argmax(-1)
        return Output(logits.numpy(), tokenizer.decode(best.where(best > SILENT, 0)))

    return run


def _in_onnxruntime(folder: Path, file: str) -> _Runner:
    from onnxruntime import InferenceSession  # noqa: PLC0415 - an extra

    session = InferenceSession(folder / file, providers=["CPUExecutionProvider"])
    lines = (folder / TOKENS).read_text(encoding="utf-8").splitlines()
    names = [line.rsplit(" ", 1)[0] for line in lines]

    def run(waveform: _Waveform) -> Output:
        logits = session.run(None, {"x": waveform[None]})[0][0]
        best = [symbol for symbol, _ in groupby(logits.argmax(-1).tolist()) if symbol > SILENT]
        return Output(logits, "".join(names[symbol] for symbol in best).replace("▁", " ").strip())

    return run
