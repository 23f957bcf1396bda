"""``danish-asr export``: write a model for another program, compare it, give it its name.

A model comes in. A directory with weights, symbols and a README.md comes out, which needs neither
fairseq2 nor this package; transformers_folder.py and onnx_file.py write the files.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Final, Literal

import numpy as np
import torch
from jinja2 import Environment, StrictUndefined
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import layer_norm, log_softmax

from danish_asr import __version__
from danish_asr.base.errors import DanishAsrError, MissingExtraError, RunError
from danish_asr.base.files import check_writable, publish_text, refuse_overwriting
from danish_asr.base.progress import plain_console
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.base.sound import open_sound
from danish_asr.decoding.ctc import GreedyDecoder
from danish_asr.inference.model import Model, load_model
from danish_asr.inference.onnx_file import MODEL, TOKENS, write_onnx
from danish_asr.inference.recordings import find_recordings
from danish_asr.inference.run_facts import dataset_of, facts_of, read_rows, run_of
from danish_asr.inference.transformers_folder import SILENT, write_hugging_face
from danish_asr.recipe.run.run import check_model, files_of_model
from danish_asr.text.profiles import PROFILES

Format = Literal["hf", "onnx"]

LIMIT: Final = 1e-3
"""The largest difference of log-probabilities of an export in float32. Measured: 0 in transformers,
below 6e-5 in ONNX, with digital silence as with speech; fairseq2 itself differs as much from
float64."""

_ROWS: Final = 20
"""Rows of the test split to compare on."""

_LONGEST: Final = 30 * SAMPLE_RATE
"""Samples of an utterance; the memory of a pass grows with their square."""

_Waveform = NDArray[np.float32]


def export_model(
    model: str,
    to: Format,
    dest: Path,
    *,
    int8: bool = False,
    audio: Sequence[Path] = (),
) -> None:
    """Export a model to a new directory, which appears when it is compared; print what was.

    Args:
        model: As for `load_model`.
        to: ``hf`` for transformers, ``onnx`` for onnxruntime and sherpa-onnx.
        dest: The directory, which must not exist.
        int8: Also write ``model.int8.onnx``; of ``onnx`` only.
        audio: Files to compare on, and folders of them; else the test rows of the run's dataset.

    Raises:
        DanishAsrError: The directory cannot be written.
        RunError: The directory exists, its disk has too little room, the model cannot be exported,
            or the export differs from it.
        MissingExtraError: The extra ``export`` is not installed.
        ConfigError: The model or the audio is in ``.DEST.partial``, which an export replaces.
    """
    check_model(model)
    if dest.exists():
        raise RunError(f"{dest} exists; name a new directory")
    if not all(map(find_spec, ("transformers", "onnx", "onnxruntime"))):
        raise MissingExtraError("export", "export")
    partial = dest.with_name(f".{dest.name}.partial")
    refuse_overwriting([partial], [*audio, *files_of_model(model)], option="DEST")
    shutil.rmtree(partial, ignore_errors=True)  # of an export that was killed
    try:
        check_writable([partial], "choose another DEST")
        waveforms = [*(_read_audio(audio) if audio else _read_test_rows(model))]
        loaded = load_model(model, device="cpu")
        _check_space(loaded, partial, 2 if int8 else 1)
        if to == "hf":
            write_hugging_face(loaded, partial)
        else:
            write_onnx(loaded, partial, int8=int8)
        compared = compare(loaded, partial, to, waveforms)
        publish_text(partial / "README.md", model_card(loaded, model, to, compared))
        partial.rename(dest)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    console = plain_console()
    console.print(f"{compared}\nwrote {dest}")


def _check_space(model: Model, folder: Path, files: int) -> None:
    """Raise RunError if a disk has too little room for so many files of the model's weights."""
    weights = sum(weight.numel() * weight.element_size() for weight in model.module.parameters())
    free = shutil.disk_usage(folder).free
    if free < files * weights:
        raise RunError(
            f"{folder.parent}: the export needs {files * weights / 1e9:.1f} GB, but "
            f"{free / 1e9:.1f} GB are free; delete something or choose another DEST"
        )


def _read_audio(paths: Sequence[Path]) -> Iterator[_Waveform]:
    """Yield the audio of files and folders; a longer recording than 30 s in parts."""
    for recording in find_recordings(paths, once=True):
        with open_sound(recording.path) as sound:
            waveform = np.concatenate([*sound])
        yield from np.array_split(waveform, -(-len(waveform) // _LONGEST))


def _read_test_rows(model: str) -> Iterator[_Waveform]:
    try:
        _, config = run_of(model)
        for row in read_rows(dataset_of(config), ["test"], _ROWS):
            yield row.waveform[:_LONGEST]
    except DanishAsrError as error:
        raise RunError(
            f"the export is compared on speech; name files with --audio, as the model's own test "
            f"rows cannot be read: {error}"
        ) from error


def compare(model: Model, folder: Path, to: Format, waveforms: Sequence[_Waveform]) -> str:
    """Compare what is in ``folder``, in its own library, with the model; return a line to print.

    Raises RunError if a log-probability differs by more than `LIMIT`, or a text.
    """
    run = _in_transformers(folder) if to == "hf" else _in_onnxruntime(folder)
    library = "transformers" if to == "hf" else "onnxruntime"
    decode, shortest = GreedyDecoder(model.tokenizer), model.frames.shortest_input()
    largest, changed = 0.0, 0
    for samples in waveforms:
        waveform = np.pad(samples, (0, max(0, shortest - len(samples))))
        (expected,) = model.log_probs([waveform])
        tensor = torch.from_numpy(waveform)
        if model.normalizes:
            tensor = layer_norm(tensor, tensor.shape)
        logits, text = run(tensor)
        largest = max(largest, float((log_softmax(logits, -1) - expected).abs().max()))
        changed += text.strip() != decode([expected])[0].strip()
    measured = (
        f"on {len(waveforms)} utterances, in {library} {version(library)}: largest difference of a "
        f"log-probability {largest:.1e}, {changed} texts differ"
    )
    if largest > LIMIT or changed:
        raise RunError(
            f"the export is not published: compared {measured}; expected at most {LIMIT:g} and "
            "equal texts. Report this with the model's configuration"
        )
    return f"compared with fairseq2 {measured}"


_Runner = Callable[[Tensor], tuple[Tensor, str]]
"""From a normalised waveform, (samples,), to logits, (S, V), and a text."""


def _in_transformers(folder: Path) -> _Runner:
    from transformers import AutoModelForCTC, AutoTokenizer  # noqa: PLC0415 - an extra

    module = AutoModelForCTC.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)  # type: ignore[no-untyped-call]

    @torch.inference_mode()
    def run(waveform: Tensor) -> tuple[Tensor, str]:
        logits = module(waveform[None]).logits[0]
        best = logits.argmax(-1)
        return logits, tokenizer.decode(best.where(best > SILENT, 0))

    return run


def _in_onnxruntime(folder: Path) -> _Runner:
    from onnxruntime import InferenceSession  # noqa: PLC0415 - an extra

    session = InferenceSession(folder / MODEL, providers=["CPUExecutionProvider"])
    lines = (folder / TOKENS).read_text(encoding="utf-8").splitlines()
    names = [line.rsplit(" ", 1)[0] for line in lines]

    def run(waveform: Tensor) -> tuple[Tensor, str]:
        logits = session.run(None, {"x": waveform[None].numpy()})[0][0]
        best = [symbol for symbol, _ in groupby(logits.argmax(-1).tolist()) if symbol > SILENT]
        text = "".join(names[symbol] for symbol in best).replace("▁", " ")
        return torch.from_numpy(logits), text

    return run


def model_card(model: Model, source: str, to: Format, compared: str) -> str:
    """Return the README.md of the model that ``source`` names, exported to ``to``."""
    template = files("danish_asr.inference").joinpath("card.md.jinja").read_text("utf-8")
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, autoescape=False)  # noqa: S701 - no HTML
    return environment.from_string(template).render(
        facts=facts_of(source),
        model=model,
        to=to,
        parameters=sum(parameter.numel() for parameter in model.module.parameters()),
        profile=PROFILES.get(model.text_profile),
        shortest=model.frames.shortest_input() / 16,
        compared=compared,
        version=__version__,
    )
