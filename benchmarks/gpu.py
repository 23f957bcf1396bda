"""Speed and memory of a training step on a GPU, beside upstream's step in the same run.

    python -m benchmarks.gpu [--arch 300m] [--upstream CHECKOUT] [--output gpu.json]

Each row of the table is a training step of the recipe with one change: optimizer, activation
checkpointing, ``model.head: danish``, or a batch without padding. Given a checkout of
omnilingual-asr, its own train unit and criterion take the step in the same way, on the same batch:
the waveforms in bfloat16, no clipping, the whole head, AdamW as PyTorch chooses it. Compare rows of
one run only. ``--arch tiny`` is for a trial on a CPU.

The model, its loss, the train unit, the optimizers and fairseq2's trainer are those of a run. What
a run reads from files is made here: random weights, and batches of random waveforms and targets.
Layer drop is off, so that each step computes every layer.

Audio hours per hour count the utterances without their padding. MFU is model FLOP/s, which
`model_flops` counts, over the peak of the device in bfloat16 without sparsity (data sheets of
NVIDIA), as in Chowdhery et al. (2022), PaLM, appendix B.

Where PyTorch 2.11 is installed and not this project's versions, fetch wheels here (Python 3.12),

    pip download --no-deps --only-binary=:all: --ignore-requires-python -d .whl \
        fairseq2==0.6 fairseq2n==0.6 omnilingual-asr==0.2.0 tbb torcheval==0.0.7 ruamel.yaml \
        soundfile cffi pycparser importlib-metadata==7.2.1 importlib-resources retrying \
        nvidia-cuda-runtime-cu12==12.8.90 bitsandbytes

and install them there, from the repository's root:

    python3 -m pip install -q --no-index --no-deps --ignore-installed --ignore-requires-python \
        --prefix /tmp/site .whl/*.whl
    export PYTHONPATH=/tmp/site/lib/python3.12/site-packages:src:.
"""

import argparse
import gc
import json
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from ctypes import CDLL, RTLD_GLOBAL
from dataclasses import asdict, dataclass, replace
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any, Final, Self, cast

import torch
from torch.cuda import OutOfMemoryError
from torch.optim import AdamW, Optimizer
from typing_extensions import override

LIBRARIES: Final = ("nvidia/cuda_runtime/lib/libcudart.so.12", "../../libtbb.so.12")
"""Below a directory of ``sys.path``."""

EMPTY: Final = (
    *("polars", "pyarrow", "pandas", "editdistance", "blobfile", "jiwer", "rapidfuzz", "miniaudio"),
    *("num2words", "text_to_num", "soxr", "dill", "tiktoken", "sacrebleu", "numba"),
)
"""Packages that a training step does not use; those that are installed stay."""


class _Empty(ModuleType):
    """A module in which every name exists, as a class."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        found = type(name, (), {})
        setattr(self, name, found)
        return found


class _Finder(MetaPathFinder, Loader):
    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    @override
    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        known = fullname.split(".", maxsplit=1)[0] in self._names
        return ModuleSpec(fullname, self, is_package=True) if known else None

    @override
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Empty(spec.name)

    @override
    def exec_module(self, module: ModuleType) -> None: ...


def prepare() -> None:
    """Make fairseq2 importable beside a later PyTorch.

    For fairseq2n 0.6, which is built for PyTorch 2.8 with CUDA 12.8, this loads the libraries that
    the wheels brought, and shows it the version that it wants while it is imported. Its own tensor
    functions (audio decoder, collater, tokenizer) crash there. Packages that only other parts of
    the project use are replaced by empty ones.
    """
    for library in LIBRARIES:
        files = [Path(folder, library) for folder in sys.path]
        if found := next((file for file in files if file.is_file()), None):
            CDLL(str(found), mode=RTLD_GLOBAL)
    sys.meta_path.append(_Finder([name for name in EMPTY if find_spec(name) is None]))
    import danish_asr  # noqa: F401 - brings libsndfile

    versions = torch.__version__, torch.version.cuda
    torch.__version__, torch.version.cuda = "2.8.0", "12.8"
    try:
        import fairseq2n  # noqa: F401
    finally:
        torch.__version__, torch.version.cuda = versions


if not torch.__version__.startswith("2.8."):
    prepare()

from fairseq2.checkpoint import NOOP_CHECKPOINT_HG_EXPORTER, CheckpointManager
from fairseq2.datasets import DataReader, Seq2SeqBatch
from fairseq2.device import Device
from fairseq2.gang import create_fake_gangs
from fairseq2.metrics.recorders import NOOP_METRIC_RECORDER
from fairseq2.models import ModelFamily
from fairseq2.models.wav2vec2.asr import (
    WAV2VEC2_ASR_FAMILY,
    Wav2Vec2AsrConfig,
    create_wav2vec2_asr_model,
)
from fairseq2.models.wav2vec2.asr.ac import apply_ac_to_wav2vec2_asr
from fairseq2.nn.utils.module import freeze_parameters
from fairseq2.optim.fp16_loss_scaler import NOOP_FP16_LOSS_SCALER
from fairseq2.optim.lr_schedulers import PassthroughLR
from fairseq2.profilers import NOOP_PROFILER
from fairseq2.recipe.model import RecipeModel, _StandardRecipeModel
from fairseq2.recipe.trainer import Trainer, TrainUnit
from fairseq2.recipe.validator import NOOP_VALIDATOR
from fairseq2.runtime.config_registry import get_config
from fairseq2.utils.device_stat import NOOP_DEVICE_STAT_TRACKER
from fairseq2.utils.gc import NOOP_GARBAGE_COLLECTOR
from fairseq2.utils.progress import NOOP_PROGRESS_REPORTER
from fairseq2.utils.stopwatch import Stopwatch

from benchmarks.quality import upstream_recipe
from danish_asr.base.fairseq2_private import library_container
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.planning.memory import Batch, step_memory
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.config.training_sections import OptimizerSection
from danish_asr.recipe.data.targets import FrameCount
from danish_asr.recipe.extension import tiny
from danish_asr.recipe.models.cards import ModelDescription
from danish_asr.recipe.train.criterion import AsrTrainUnit, CtcCriterion
from danish_asr.recipe.train.learning import Freezing, OffloadedAdamW
from danish_asr.recipe.train.masking import install_masker

DANISH: Final = 80
"""Symbols that ``model.head: danish`` keeps of a Danish text, about."""

CHARACTERS: Final = 14
"""Characters in a second of speech, about."""


@dataclass(frozen=True)
class Row:
    """What a row of the table trains, and how."""

    name: str
    optimizer: str = "adamw"
    checkpointing: bool = False
    danish_head: bool = False
    padding: bool = True
    upstream: bool = False


@dataclass(frozen=True)
class Settings:
    """What all rows share; the batch has ``batch_seconds`` of audio, padding included."""

    arch: str
    device: Device
    batch_seconds: float
    longest_seconds: float
    batches: int
    warm_up: int
    steps: int
    amp: bool
    profile: int
    upstream: Path | None


def model_config(arch: str, row: Row) -> Wav2Vec2AsrConfig:
    """The configuration of the row's model."""
    if arch == "tiny":
        config, vocabulary = tiny(), 1_000
    else:
        config = get_config(library_container(), Wav2Vec2AsrConfig, arch)
        vocabulary = config.target_vocab_size
    config.encoder_config = replace(config.encoder_config, layer_drop_p=0.0)
    return replace(config, target_vocab_size=DANISH if row.danish_head else vocabulary)


def frames_of(config: Wav2Vec2AsrConfig) -> FrameCount:
    """Frames that the model makes of a number of samples."""
    layers = config.encoder_config.feature_extractor_layer_descs
    return FrameCount([(kernel, stride) for _, kernel, stride in layers])


def lengths_of(settings: Settings, row: Row) -> list[int]:
    """Samples of each utterance: all as long as the longest, or from 0.8 to 1 of it."""
    longest = round(settings.longest_seconds * SAMPLE_RATE)
    count = max(round(settings.batch_seconds / settings.longest_seconds), 1)
    least = 0.8 if row.padding else 1.0
    return [round(longest * (1 - (1 - least) * n / max(count - 1, 1))) for n in range(count)]


def make_batch(
    lengths: Sequence[int], vocabulary: int, device: Device, dtype: torch.dtype
) -> tuple[Any, ...]:
    """The arguments of a batch on the host, pinned for a GPU, as the recipe's reader makes it."""
    torch.manual_seed(1)
    waveforms = torch.randn(len(lengths), max(lengths))
    for row, length in enumerate(lengths):
        waveforms[row, length:] = 0
    sizes = [max(round(length / SAMPLE_RATE * CHARACTERS), 1) for length in lengths]
    targets = torch.randint(4, vocabulary, (len(lengths), max(sizes)))
    tensors = [waveforms.to(dtype), targets]
    if device.type == "cuda":
        tensors = [tensor.pin_memory() for tensor in tensors]
    return tensors[0], list(lengths), tensors[1], sizes


def recipe_config(settings: Settings, row: Row) -> AsrConfig:
    """What of a run's configuration differs from the defaults."""
    config = AsrConfig()
    config.model = replace(config.model, name="omniASR_CTC_300M")  # so that it is pretrained
    config.optimizer = OptimizerSection(name=row.optimizer)  # type: ignore[arg-type]
    section = config.trainer
    section.mixed_precision.mode = "auto" if settings.amp else "off"
    section.activation_checkpointing.mode = "layerwise" if row.checkpointing else "off"
    return config


def planned_memory(
    settings: Settings, row: Row, config: Wav2Vec2AsrConfig
) -> dict[str, int] | None:
    """The bytes of each component that `danish-asr plan` calculates; None for upstream's step."""
    if row.upstream:
        return None
    family = library_container().resolve(ModelFamily, key=WAV2VEC2_ASR_FAMILY)
    lengths = lengths_of(settings, row)
    batch = Batch(len(lengths), max(lengths))
    model = ModelDescription(family, config, has_new_head=False)
    return step_memory(recipe_config(settings, row), model, batch)


PEAKS: Final = {
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "L40": 181e12,
    "A40": 150e12,
    "A10": 125e12,
}
"""Peak FLOP/s in bfloat16, dense, by what the device's name contains; the first that matches."""

LEAN: Final = "layerwise, adamw_8bit, danish head"
ROWS: Final = (
    Row("upstream", upstream=True),
    Row("adamw"),
    Row("danish head", danish_head=True),
    Row("upstream, no padding", padding=False, upstream=True),
    Row("no padding", padding=False),
    Row("danish head, no padding", danish_head=True, padding=False),
    Row("adamw_8bit", optimizer="adamw_8bit"),
    Row("adamw_offload", optimizer="adamw_offload"),
    Row("layerwise", checkpointing=True),
    Row(LEAN, optimizer="adamw_8bit", checkpointing=True, danish_head=True),
)

MEMORY: Final = ("planned_bytes", "peak_bytes", "reserved_bytes")


def model_flops(config: Wav2Vec2AsrConfig, samples: Sequence[int]) -> dict[str, float]:
    """Floating-point operations of a training step on utterances of these lengths, by part.

    A multiplication and an addition are 2. With S frames of width E, F inner and V symbols:
    convolutions of the front end 2 k C_in C_out for each frame that they make; projection 2 D E S;
    positions 2 k E² S / groups; a layer (8 E² + 4 E F) S for its matrices and 4 E S² for attention;
    head 2 E V S. The backward pass takes twice that (Kaplan et al., 2020, arXiv:2001.08361, 2.1);
    the front end is frozen and has none. Norms, activations, softmax and CTC are left out.
    """
    encoder = config.encoder_config
    width, layers = encoder.model_dim, encoder.num_encoder_layers
    parts = dict.fromkeys(("front end", "positions", "matrices", "attention", "head"), 0.0)
    for length in samples:
        frames, channels = length, 1
        for out, kernel, stride in encoder.feature_extractor_layer_descs:
            frames = (frames - kernel) // stride + 1
            parts["front end"] += 2 * kernel * channels * out * frames
            channels = out
        matrices = layers * (8 * width**2 + 4 * width * encoder.ffn_inner_dim)
        if encoder.feature_dim != width:
            matrices += 2 * encoder.feature_dim * width
        position = 2 * encoder.pos_conv_kernel_size * width**2 / encoder.num_pos_conv_groups
        parts["positions"] += 3 * position * frames
        parts["matrices"] += 3 * matrices * frames
        parts["attention"] += 3 * layers * 4 * width * frames**2
        parts["head"] += 3 * 2 * width * config.target_vocab_size * frames
    return parts


def peak_flops(device: str) -> float | None:
    """Peak FLOP/s of a device; None if it is not in the table."""
    return next((peak for name, peak in PEAKS.items() if name in device), None)


def measure(settings: Settings, row: Row, name: str) -> dict[str, Any]:
    """The numbers of a row."""
    config = model_config(settings.arch, row)
    lengths = lengths_of(settings, row)
    planned = planned_memory(settings, row, config)
    try:
        found = train_steps(settings, row, config)
    except (OutOfMemoryError, ImportError) as error:
        return {"row": asdict(row), "failed": str(error).splitlines()[0]}
    finally:
        gc.collect()
        torch.cuda.empty_cache()
    seconds = median(found["seconds"])
    parts = model_flops(config, lengths)
    flops, peak = settings.batches * sum(parts.values()), peak_flops(name)
    return {
        "row": asdict(row),
        "seconds_per_step": seconds,
        "hours_per_hour": settings.batches * sum(lengths) / SAMPLE_RATE / seconds,
        "padding": 1 - sum(lengths) / (len(lengths) * max(lengths)),
        "flops_per_step": flops,
        "flops_share": {part: each / sum(parts.values()) for part, each in parts.items()},
        "mfu": flops / seconds / peak if peak else None,
        "planned": planned,
        # Of tensors alone, as `peak_bytes`.
        "planned_bytes": sum(
            size for part, size in (planned or {}).items() if "assumed" not in part
        ),
        **found,
    }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows in Markdown; the ratio is to upstream's step on a batch with the same padding."""
    reference = {
        each["row"]["padding"]: each["seconds_per_step"]
        for each in rows
        if each["row"]["upstream"] and "failed" not in each
    }
    head = (
        "row",
        "s/step",
        "x upstream",
        "audio h/h",
        "MFU",
        "planned GiB",
        "peak GiB",
        "reserved GiB",
    )
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    for each in rows:
        row = each["row"]
        if "failed" in each:
            lines.append(f"| {row['name']} | {each['failed']} |" + " |" * (len(head) - 2))
            continue
        seconds, usual = each["seconds_per_step"], reference.get(row["padding"])
        cells = [
            row["name"],
            f"{seconds:.3f}",
            f"{usual / seconds:.2f}" if usual else "",
            f"{each['hours_per_hour']:,.0f}",
            f"{each['mfu']:.1%}" if each["mfu"] else "",
            *(f"{each[name] / 2**30:.2f}" if each[name] else "" for name in MEMORY),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


class _Finished(Exception):  # noqa: N818 - it is an event, not an error
    """All steps were taken."""


class _Reader(DataReader[Seq2SeqBatch]):
    """Gives the same batches to each step, and calls ``before`` with the number of steps taken."""

    def __init__(self, batch: tuple[Any, ...], count: int, before: Callable[[int], None]) -> None:
        self._batch, self._count, self._before = batch, count, before
        self._step = 0

    @override
    def __iter__(self) -> Self:
        return self

    @override
    def __next__(self) -> list[Seq2SeqBatch]:
        self._before(self._step)
        self._step += 1
        example = {"id": [str(number) for number in range(len(self._batch[1]))]}
        return [Seq2SeqBatch(*self._batch, example=example) for _ in range(self._count)]

    @override
    def reset(self) -> None: ...

    @override
    def state_dict(self) -> dict[str, object]:
        return {}

    @override
    def load_state_dict(self, state_dict: dict[str, object]) -> None: ...

    @property
    @override
    def num_accumulate(self) -> int:
        return self._count


class _NoCheckpoints:
    """What the trainer asks a checkpoint manager between two steps."""

    def maybe_get_last_step_number(self, **_: object) -> None: ...

    def maybe_complete_save_operation(self, **_: object) -> None: ...


def make_optimizer(row: Row, module: torch.nn.Module) -> Optimizer:
    """The optimizer that ``optimizer.name`` gives a run, over all parameters, with its defaults.

    Upstream's recipe leaves AdamW's implementation to PyTorch.
    """
    settings: dict[str, Any] = {"lr": 5e-5, "betas": (0.9, 0.98), "eps": 1e-8, "weight_decay": 0.0}
    if row.optimizer == "adamw":
        return AdamW(module.parameters(), fused=None if row.upstream else True, **settings)
    if row.optimizer == "adamw_offload":
        return OffloadedAdamW(module.parameters(), **settings)
    from bitsandbytes.optim.adamw import AdamW8bit

    return AdamW8bit(module.parameters(), **settings)  # type: ignore[no-untyped-call]


def _unit(settings: Settings, row: Row, config: Wav2Vec2AsrConfig) -> TrainUnit[Seq2SeqBatch]:
    with torch.device(settings.device):
        module = create_wav2vec2_asr_model(config)
    model: RecipeModel = _StandardRecipeModel(module, config, cast(Any, None))
    if row.checkpointing:
        apply_ac_to_wav2vec2_asr(module, 1)
    if row.upstream:
        assert settings.upstream is not None
        recipe = upstream_recipe(settings.upstream)
        freeze_parameters(module.encoder_frontend.feature_extractor)
        unit = recipe.Wav2Vec2AsrTrainUnit(recipe.Wav2Vec2AsrCriterion(model), 0)
        return cast(TrainUnit[Seq2SeqBatch], unit)
    described = recipe_config(settings, row)
    install_masker(module, described.masking, config, seed=1)
    freezing = Freezing(described)
    freezing.freeze_permanently(module)
    return AsrTrainUnit(CtcCriterion(model), freezing, frames_of(config), config.target_vocab_size)


def train_steps(settings: Settings, row: Row, config: Wav2Vec2AsrConfig) -> dict[str, Any]:
    """Take the steps; returns the seconds of each, the peak of memory in bytes and the profile.

    Seconds are those of a clock on a GPU, where fairseq2's trainer waits for the end of each step,
    and of the processor on a CPU.
    """
    cuda = settings.device.type == "cuda"
    unit = _unit(settings, row, config)
    dtype = torch.bfloat16 if row.upstream and settings.amp else torch.float32
    batch = make_batch(lengths_of(settings, row), config.target_vocab_size, settings.device, dtype)
    optimizer = make_optimizer(row, unit.model.module)
    times, end = [], settings.warm_up + settings.steps
    kinds = torch.profiler.ProfilerActivity
    profiler: Any = torch.profiler.profile(activities=[kinds.CPU] + [kinds.CUDA] * cuda)

    def before(step: int) -> None:
        times.append(time.perf_counter() if cuda else time.process_time())
        if step == end and settings.profile:
            profiler.start()
            if cuda:
                torch.cuda.set_sync_debug_mode("warn")
        elif step >= end:
            if step > end:
                profiler.stop()
                if cuda:
                    torch.cuda.set_sync_debug_mode("default")
            raise _Finished

    trainer = Trainer(
        unit=unit,
        data_reader=_Reader(batch, settings.batches, before),
        gangs=create_fake_gangs(settings.device),
        amp=settings.amp,
        amp_dtype=torch.bfloat16,
        optimizer=optimizer,
        lr_scheduler=PassthroughLR(optimizer),
        fp16_loss_scaler=NOOP_FP16_LOSS_SCALER,
        validator=NOOP_VALIDATOR,
        checkpoint_manager=cast(CheckpointManager, _NoCheckpoints()),
        checkpoint_hg_exporter=NOOP_CHECKPOINT_HG_EXPORTER,
        metric_recorder=NOOP_METRIC_RECORDER,
        garbage_collector=NOOP_GARBAGE_COLLECTOR,
        profiler=NOOP_PROFILER,
        device_stat_tracker=NOOP_DEVICE_STAT_TRACKER,
        wall_watch=Stopwatch(),
        progress_reporter=NOOP_PROGRESS_REPORTER,
        seed=1,
        max_grad_norm=None if row.upstream else AsrConfig().trainer.max_grad_norm,
    )
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    with warnings.catch_warnings(record=True) as seen, suppress(_Finished):
        warnings.simplefilter("always")
        trainer.run()
    measured = [later - earlier for earlier, later in pairwise(times[: end + 1])]
    return {
        "seconds": measured[settings.warm_up :],
        "peak_bytes": torch.cuda.max_memory_allocated() if cuda else None,
        "reserved_bytes": torch.cuda.max_memory_reserved() if cuda else None,
        # In the profiled step, beside the trainer's own at its end.
        "synchronisations": sum("synchroniz" in str(each.message) for each in seen),
        "profile": _dearest(profiler, settings.profile, cuda=cuda) if settings.profile else None,
    }


def _dearest(profiler: Any, count: int, *, cuda: bool) -> list[dict[str, Any]]:
    """The operators with the most time of their own in a step, in milliseconds."""
    key = "self_device_time_total" if cuda else "self_cpu_time_total"
    events = sorted(profiler.key_averages(), key=lambda event: -getattr(event, key))
    return [
        {"operator": each.key, "calls": each.count, "ms": round(getattr(each, key) / 1e3, 3)}
        for each in events[:count]
    ]


def main() -> None:
    """Measure the rows, print the table and write the numbers after each."""
    names = [row.name for row in ROWS]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--arch", default="300m", help="tiny, 300m, 1b, ...")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch-seconds", type=float, default=240, help="with padding")
    parser.add_argument("--longest-seconds", type=float, default=15, help="of an utterance")
    parser.add_argument("--batches", type=int, default=1, help="accumulated in a step")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--precision", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--row", action="append", choices=names, help="only these")
    parser.add_argument("--profile", type=int, default=0, help="dearest operators of one more step")
    parser.add_argument("--upstream", type=Path, help="a checkout of omnilingual-asr")
    parser.add_argument("--output", type=Path, default=Path("gpu.json"))
    args = parser.parse_args()
    device = torch.device(args.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    settings = Settings(
        *(args.arch, device, args.batch_seconds, args.longest_seconds, args.batches),
        *(args.warm_up, args.steps, args.precision == "bf16", args.profile, args.upstream),
    )
    rows: list[dict[str, Any]] = []
    for row in ROWS:
        if row.name in (args.row or names) and (args.upstream or not row.upstream):
            print(row.name, flush=True)
            rows.append(measure(settings, row, name))
            result = {
                "device": name,
                "torch": torch.__version__,
                "settings": {key: str(value) for key, value in asdict(settings).items()},
                "rows": rows,
            }
            args.output.write_text(json.dumps(result, indent=1), encoding="utf-8")
    print(f"\n{name}, torch {torch.__version__}, {args.arch}, {args.precision}\n\n{table(rows)}")


if __name__ == "__main__":
    main()
