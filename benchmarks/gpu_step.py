"""A training step of the recipe, or of upstream's, without dataset, tokenizer and checkpoint.

The model, its loss, the train unit, the optimizers and fairseq2's trainer are those of a run. What
a run reads from files is made here: random weights, and batches of random waveforms and targets,
which cost a step what others cost. Layer drop is off, so that each step computes every layer; a run
of omniASR's models skips a tenth of them.
"""

import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any, Self, cast

import torch
from fairseq2.checkpoint import NOOP_CHECKPOINT_HG_EXPORTER, CheckpointManager
from fairseq2.datasets import DataReader, Seq2SeqBatch
from fairseq2.gang import create_fake_gangs
from fairseq2.metrics.recorders import NOOP_METRIC_RECORDER
from fairseq2.models.transformer import IdentityBias
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig, create_wav2vec2_asr_model
from fairseq2.models.wav2vec2.asr.ac import apply_ac_to_wav2vec2_asr
from fairseq2.nn.utils.module import freeze_parameters
from fairseq2.optim.fp16_loss_scaler import NOOP_FP16_LOSS_SCALER
from fairseq2.optim.lr_schedulers import PassthroughLR
from fairseq2.profilers import NOOP_PROFILER
from fairseq2.recipe.model import RecipeModel, _StandardRecipeModel
from fairseq2.recipe.trainer import Trainer, TrainUnit
from fairseq2.recipe.validator import NOOP_VALIDATOR
from fairseq2.utils.device_stat import NOOP_DEVICE_STAT_TRACKER
from fairseq2.utils.gc import NOOP_GARBAGE_COLLECTOR
from fairseq2.utils.progress import NOOP_PROGRESS_REPORTER
from fairseq2.utils.stopwatch import Stopwatch
from torch import Tensor
from torch.optim import AdamW, Optimizer
from typing_extensions import override

from benchmarks.gpu_rows import Row, Settings, frames_of, lengths_of, make_batch, recipe_config
from benchmarks.upstream import upstream_recipe
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.train.criterion import AsrTrainUnit, CtcCriterion
from danish_asr.recipe.train.learning import Freezing, OffloadedAdamW
from danish_asr.recipe.train.masking import install_masker


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
    from danish_asr.recipe.train.adamw_8bit import AdamW8bit  # noqa: PLC0415 - an optional dependency

    return AdamW8bit(module.parameters(), **settings)  # type: ignore[no-untyped-call]


def _mask_keys(_: torch.nn.Module, arguments: tuple[Any, ...]) -> None:
    """Give attention a mask of (N, 1, 1, S) before fairseq2 builds one of (N, 1, S, S).

    What attends to padding is never masked, so that only padded frames get other values.
    """
    seqs, layout, cache = arguments
    if layout.padded and cache.maybe_get(IdentityBias(), "tensor", Tensor) is None:
        kind = seqs.device.type
        half = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else seqs.dtype
        mask = torch.zeros(layout.position_indices.shape, dtype=half, device=seqs.device)
        mask.masked_fill_(layout.position_indices < 0, -torch.inf)
        cache.set(IdentityBias(), "tensor", mask[:, None, None])


def _unit(settings: Settings, row: Row, config: Wav2Vec2AsrConfig) -> TrainUnit[Seq2SeqBatch]:
    with torch.device(settings.device):
        module = create_wav2vec2_asr_model(config)
    model: RecipeModel = _StandardRecipeModel(module, config, cast(Any, None))
    if row.checkpointing:
        apply_ac_to_wav2vec2_asr(module, 1)
    for layer in module.encoder.layers:
        if row.key_mask:
            layer.register_forward_pre_hook(_mask_keys)
        if row.compiled:
            layer.compile(dynamic=True)  # type: ignore[no-untyped-call]
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
