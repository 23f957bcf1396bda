"""Run an exported model in its own library, and compare it with fairseq2's output."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import layer_norm, log_softmax

from danish_asr.base.audio import AudioError, to_mono
from danish_asr.base.errors import DanishAsrError, RunError
from danish_asr.base.progress import track
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.decoding.greedy import GreedyDecoder
from danish_asr.inference.export.to_hugging_face import SILENT, TOKENS
from danish_asr.inference.export.to_onnx import INT8, MODEL
from danish_asr.inference.model import Model
from danish_asr.inference.recordings import find_recordings
from danish_asr.metrics import compute_wer
from danish_asr.text.profiles import normalize

LIMIT: Final = 1e-3
"""The largest difference of log-probabilities of an export in float32. Measured: 0 in transformers,
below 6e-5 in ONNX, with digital silence as with speech; fairseq2 itself differs as much from
float64."""

_LONGEST: Final = 30 * SAMPLE_RATE
"""Samples of an utterance; the memory of a pass grows with their square."""

AWKWARD: Final = "0.2 s of a sound, silence, noise and 60 s of a sound"
"""What every export is also compared on."""

Array = NDArray[np.float32]


class Output(NamedTuple):
    """What a program makes of a waveform."""

    logits: Array
    """(frames, symbols)"""
    text: str


Runner = Callable[[Array], Output]
"""Takes a waveform, (samples,)."""


class Utterance(NamedTuple):
    """Audio to compare on; the reference is only for the word error rate of int8."""

    name: str
    waveform: Array
    reference: str | None = None
    awkward: bool = False
    """Of `AWKWARD`, which says nothing about usual audio."""


def read_utterances(files: Sequence[Path]) -> list[Utterance]:
    """Read audio files and folders of them, each with its text in a ``.txt`` file if there is one.

    A recording of more than 30 s gives several utterances, without a text. Without files: five
    sounds with the rhythm of syllables, one of them quiet.

    Raises:
        DanishAsrError: A file cannot be decoded, or a folder has none.
    """
    if not files:
        return [Utterance("a synthetic sound", sound) for sound in _sounds()]
    utterances = []
    for file in (recording.path for recording in find_recordings(files).recordings):
        text = file.with_suffix(".txt")
        reference = text.read_text(encoding="utf-8") if text.is_file() else None
        try:
            waveform = to_mono(file)
        except (AudioError, OSError) as error:
            raise DanishAsrError(f"--audio {file}: {error}") from None
        parts = np.array_split(waveform, -(-len(waveform) // _LONGEST))
        if len(parts) > 1:
            reference = None
        utterances += [Utterance(str(file), part, reference) for part in parts]
    return utterances


def _sounds() -> Iterator[Array]:
    for seconds, level in ((0.6, 0.1), (1.3, 0.1), (2.9, 0.003), (4.0, 0.2), (20.0, 0.05)):
        yield _sound(seconds, level)


def _sound(seconds: float, level: float) -> Array:
    times = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    pitch = 2 * np.pi * np.cumsum(120 + 30 * np.sin(3 * times)) / SAMPLE_RATE
    voice = sum(np.sin(pitch * k) / k for k in range(1, 20))
    loudness = np.clip(np.sin(2 * np.pi * 4 * times), 0, None)
    sound = voice * loudness + _noise(seconds, 0.05)
    scaled: Array = (level * sound / sound.std()).astype(np.float32)
    return scaled


def _noise(seconds: float, level: float) -> Array:
    draw = np.random.default_rng(0)
    return level * draw.standard_normal(round(seconds * SAMPLE_RATE), np.float32)


def awkward_utterances() -> list[Utterance]:
    """Return what `AWKWARD` names."""
    waveforms = [_sound(0.2, 0.1), np.zeros_like(_noise(2, 0)), _noise(2, 0.1), _sound(60, 0.1)]
    return [Utterance(f"one of: {AWKWARD}", each, awkward=True) for each in waveforms]


@dataclass
class _Comparison:
    """The differences of one program's outputs from another's, over all utterances."""

    largest: float = 0.0
    """Difference of a log-probability."""
    utterance: str = ""
    """The one with the largest difference."""
    frames: int = 0
    flipped: int = 0
    """Frames whose best symbol is another one."""
    texts: list[str] = field(default_factory=list)
    expected_texts: list[str] = field(default_factory=list)

    def add(self, name: str, output: Output, expected: Output) -> None:
        self.texts.append(output.text)
        self.expected_texts.append(expected.text)
        difference = float("inf")
        if output.logits.shape == expected.logits.shape:
            logits = torch.from_numpy(output.logits)
            right = torch.from_numpy(expected.logits)
            difference = float((log_softmax(logits, -1) - log_softmax(right, -1)).abs().max())
            self.frames += len(logits)
            self.flipped += int((logits.argmax(-1) != right.argmax(-1)).sum())
        if difference > self.largest:
            self.largest, self.utterance = difference, name

    def changed(self) -> list[tuple[str, str]]:
        """Return the texts that differ, each with the expected one."""
        pairs = zip(self.texts, self.expected_texts, strict=True)
        return [(text, expected) for text, expected in pairs if text != expected]


def verify(model: Model, folder: Path, to: str, utterances: Sequence[Utterance]) -> list[str]:
    """Compare what is in ``folder`` with fairseq2's model; return lines to print.

    What is `AWKWARD` is compared as well; it counts in the first line only. A text is compared as
    the examples in README.md make it, without spaces around it.

    Raises:
        RunError: A log-probability differs by more than `LIMIT`, or a text differs.
    """
    decode, shortest = GreedyDecoder(model.tokenizer), model.frames.shortest_input()
    run, run_other = _runner(model, folder, to), None
    if to == "hf" and model.normalizes:
        run_other = _hugging_face(folder, exact=False)
    elif (folder / INT8).is_file():
        run_other = _runner(model, folder, to, INT8)
    exported, other = _Comparison(), _Comparison()
    everything = [*utterances, *awkward_utterances()]
    for utterance in track(everything, "comparing with fairseq2", len(everything)):
        missing = max(0, shortest - len(utterance.waveform))
        waveform = np.pad(utterance.waveform, (0, missing))
        row = model.log_probs([waveform])[0]
        expected = Output(row.numpy(), decode(row[None], [len(row)])[0].strip())
        output = run(waveform)
        exported.add(utterance.name, output, expected)
        if run_other and not utterance.awkward:
            text_of_fairseq2 = Output(output.logits, expected.text)
            other.add(utterance.name, run_other(waveform), text_of_fairseq2)
    count, changed = len(utterances), exported.changed()
    program = "transformers" if to == "hf" else "onnxruntime"
    measured = (
        f"largest difference of a log-probability {exported.largest:.1e}, "
        f"{len(changed)} texts differ"
    )
    if exported.largest > LIMIT or changed:
        raise RunError(
            f"the export is not published: over {count} utterances, {measured} {changed[:1]}; "
            f"expected at most {LIMIT:g} and equal texts. The largest is in {exported.utterance}. "
            "Report this with the model's configuration"
        )
    where = f"compared in {program} {version(program)} with fairseq2"
    lines = [f"{where} on {count} utterances, {AWKWARD}: {measured}"]
    if run_other and to == "hf":
        lines.append(
            "with the feature extractor of transformers itself: largest difference "
            f"{other.largest:.1e}, {len(other.changed())} of {count} texts differ (it "
            "makes quiet audio louder; see README.md)"
        )
    elif run_other:
        lines.append(_int8_line(other, utterances))
    return lines


def _runner(model: Model, folder: Path, to: str, file: str = MODEL) -> Runner:
    if to == "hf":
        return _hugging_face(folder, exact=model.normalizes)
    from onnxruntime import InferenceSession  # noqa: PLC0415 - an extra

    session = InferenceSession(folder / file, providers=["CPUExecutionProvider"])
    tokens = (folder / TOKENS).read_text(encoding="utf-8").splitlines()
    names = [line.rsplit(" ", 1)[0] for line in tokens]

    def run(waveform: Array) -> Output:
        if to == "onnx":
            # A second row that is longer: padding changes nothing. 60 s would take much memory.
            rows = 2 if len(waveform) <= _LONGEST else 1
            batch = np.full((rows, len(waveform) + SAMPLE_RATE), 0.1, np.float32)
            batch[0, : len(waveform)] = waveform
            lengths = np.array([len(waveform), batch.shape[1]][:rows])
            logits, frames = session.run(None, {"waveforms": batch, "lengths": lengths})
            logits = logits[0, : frames[0]]
        else:
            centred = waveform - waveform.mean()
            x = centred / np.sqrt(centred.var() + np.float32(1e-5))
            logits = session.run(None, {"x": x[None]})[0][0]
        best = [symbol for symbol, _ in groupby(logits.argmax(-1).tolist()) if symbol > SILENT]
        text = "".join(names[symbol] for symbol in best).replace("▁", " ").strip()
        return Output(logits, text)

    return run


def _hugging_face(folder: Path, *, exact: bool) -> Runner:
    """Run the directory in transformers; ``exact``: normalise the audio as fairseq2 does."""
    from transformers import (  # noqa: PLC0415 - an extra
        AutoFeatureExtractor,
        AutoModelForCTC,
        AutoTokenizer,
    )

    module = AutoModelForCTC.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)  # type: ignore[no-untyped-call]
    extractor = AutoFeatureExtractor.from_pretrained(folder)  # type: ignore[no-untyped-call]

    @torch.inference_mode()
    def run(waveform: Array) -> Output:
        if exact:
            samples = torch.from_numpy(waveform)
            inputs = layer_norm(samples, samples.shape)[None]
        else:
            batch = extractor(waveform, sampling_rate=SAMPLE_RATE, return_tensors="pt")
            inputs = batch.input_values
        logits = module(inputs).logits[0]
        best = logits.argmax(-1)
        return Output(logits.numpy(), tokenizer.decode(best.where(best > SILENT, 0)))

    return run


def _int8_line(int8: _Comparison, utterances: Sequence[Utterance]) -> str:
    """Return how int8 differs from float32, with word error rates where there are references."""
    line = (
        f"int8: the best symbol of {100 * int8.flipped / max(int8.frames, 1):.2f} % of "
        f"{int8.frames} frames changed, and the text of {len(int8.changed())} of "
        f"{len(utterances)} utterances"
    )
    references, in_int8, in_float32 = [], [], []
    texts = zip(utterances, int8.texts, int8.expected_texts, strict=True)
    for utterance, text, expected in texts:
        if utterance.reference is not None:
            references.append(normalize(utterance.reference, "coral"))
            in_int8.append(normalize(text, "coral"))
            in_float32.append(normalize(expected, "coral"))
    if references:
        wer, wer_int8 = compute_wer(in_float32, references), compute_wer(in_int8, references)
        line += f"; WER {100 * wer:.2f} % in float32, {100 * wer_int8:.2f} % in int8"
    return line
