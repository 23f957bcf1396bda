"""What a run prints: a line per report, a table per validation, warnings.

``log`` is for the lines of this project. Of fairseq2's own records the terminal or the job's log
gets warnings and a few lines (``_SHOWN``); ``OUTDIR/logs`` has all.
"""

# ruff: noqa: PLE1205 - fairseq2's log formats with str.format

import math
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from logging import INFO, WARNING, Formatter, LogRecord, StreamHandler
from pathlib import Path
from typing import Any, Final, TextIO, final

import torch
from fairseq2.logging import get_log_writer
from fairseq2.logging import log as fairseq2_log  # noqa: TID251 - its handlers are set here
from fairseq2.metrics.recorders import MetricRecorder
from fairseq2.utils.rich import get_error_console, set_error_console
from rich.console import Console
from rich.logging import RichHandler
from typing_extensions import override

from danish_asr.base.cluster import usable_cpus
from danish_asr.base.config_tree import flatten
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.recipe.config.load import unstructure
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.run import advice
from danish_asr.recipe.run.run_directory import METRICS, SCORE_TITLES, recorded, resumable_steps

log: Final = get_log_writer("fairseq2.danish_asr")
"""A child of fairseq2's logger: its records reach the same files."""

_SHOWN: Final = re.compile(
    r"Downloading|Download complete|Loading .*model|Starting validation|Training restored|"
    r"Checkpoint at step|End of (training|data) |Early stop|Task finished"
)
_IGNORED: Final = re.compile(
    r"`\w+\.family` will be ignored|.*only FSDP supports static mixed precision|.*run on CPU"
)
"""Warnings about defaults and what the first line of a run says."""

_COLUMNS: Final = {"loss": "dev loss", "wer": "WER %", "cer": "CER %", "worst_group_wer": "worst %"}

_ROWS: Final = 8
"""How many validations the table has, beside the best one."""

_GIB: Final = 2**30

_FULL: Final = 0.95
"""The part of a GPU's memory above which a longer batch may not fit."""


def hide_progress_bar() -> None:
    """Before a recipe starts: fairseq2's progress bar prints nothing where there is no terminal."""
    if not sys.stderr.isatty():
        set_error_console(Console(stderr=True, quiet=True))


def configure_console() -> None:
    """Replace the console's handler after fairseq2 has configured its log.

    In a terminal, rich prints the lines above the progress bar; elsewhere they are never wrapped.
    """
    logger, console = fairseq2_log.logger, get_error_console()
    handler: StreamHandler[TextIO] | RichHandler = _PlainHandler()
    if not console.quiet:
        handler = RichHandler(
            console=console, log_time_format="%X", show_path=False, show_level=False, keywords=[]
        )
    handler.setFormatter(_Lines("%Y-%m-%d %H:%M:%S " * console.quiet))
    handler.addFilter(_is_for_users)
    if any(isinstance(old, RichHandler) for old in logger.handlers):
        for old in [*logger.handlers]:
            logger.removeHandler(old)
            old.close()
        logger.addHandler(handler)


def _is_for_users(record: LogRecord) -> bool:
    message = record.getMessage()
    if record.name == log.logger.name or fairseq2_log.is_enabled_for_debug():
        return True
    if record.levelno >= WARNING:
        return not _IGNORED.match(message)
    return _SHOWN.match(message) is not None


class _PlainHandler(StreamHandler[TextIO]):
    @override
    def emit(self, record: LogRecord) -> None:
        self.stream = sys.stderr  # which may have been redirected since
        super().emit(record)


class _Lines(Formatter):
    """The message after the time; the level only of warnings and errors."""

    def __init__(self, time_format: str) -> None:
        super().__init__("%(message)s")
        self._time_format = time_format

    @override
    def format(self, record: LogRecord) -> str:
        level = f"{record.levelname}: " * (record.levelno > INFO)
        lines = super().format(record).replace("\n", "\n  ")
        stamp = self._time_format and self.formatTime(record, self._time_format)
        return f"{stamp}{level}{lines}"


def step_line(step: int, seconds: float, device: torch.device) -> str:
    """Say how long a step took, and what a GPU's memory was at its fullest, in GiB."""
    line = f"step {step:,}: {seconds:.2f} s/step"
    if device.type != "cuda":
        return line
    used, reserved = torch.cuda.max_memory_allocated(device), torch.cuda.max_memory_reserved(device)
    free, _ = torch.cuda.mem_get_info(device)
    return (
        f"{line} | GPU memory: {used / _GIB:.1f} GiB used, {reserved / _GIB:.1f} reserved, "
        f"{free / _GIB:.1f} free; the largest batches came first"
    )


@final
class RunReport(MetricRecorder):
    """Prints fairseq2's training and validation metrics, on the first rank, and judges them.

    The files of metrics, which must be written first, hold what was before, also in earlier starts.
    """

    def __init__(self, output_dir: Path, config: AsrConfig) -> None:
        self._values, self._metrics = dict(flatten(unstructure(config))), output_dir / METRICS
        self._end = config.regime.num_steps
        self._score = SCORE_TITLES[config.regime.score_metric]
        self._step = max(resumable_steps(output_dir), default=0)
        if warmup := advice.long_warmup(self._values):
            log.warning("{}", warmup)
        self._first_step, self._began = self._step, 0.0  # set by the first report
        self._lowest_loss = min((row[advice.LOSS] for row in self._rows("train")), default=math.inf)

    @override
    def record_metric_values(
        self, category: str, values: Mapping[str, Any], step_nr: int | None = None
    ) -> None:
        if category == "train":
            step = step_nr or 0
            log.info("{}", " | ".join(self._parts(values, step)))
            for warning in self._warnings(values, step):
                log.warning("{}", warning)
            self._step = step
        elif category == "valid":
            self._show_validations()

    @override
    def close(self) -> None:
        pass

    def _parts(self, values: Mapping[str, Any], step: int) -> Iterator[str]:
        """Yield the parts of a line; times and audio are those of a step since the last line."""
        steps, seconds = max(step - self._step, 1), values["lapse_time"]
        self._began = self._began or time.monotonic() - seconds
        minutes = float(values["num_source_elements"]) / SAMPLE_RATE / 60
        rates = values["lr"]
        rate = max(rates) if isinstance(rates, Sequence) else rates
        end = f"{self._end:,}" if self._end else ""
        yield f"step {step:>{len(end)},}/{end}" if end else f"step {step:,}"
        yield f"epoch {values['data_epoch']}"
        yield f"loss {float(values['loss']):.3f} (chance {float(values['chance']):.1f})"
        yield f"lr {rate:.1e}"
        yield f"audio {minutes / steps:.2f} min"
        yield f"{seconds / steps:.2f} s/step"
        if memory := float(values.get("peak_reserved_mem_bytes", 0)):
            yield f"GPU {memory / _GIB:.1f} GiB"
        if self._end and self._first_step < step < self._end:
            # Of the whole time, which includes validations.
            per_step = (time.monotonic() - self._began) / (step - self._first_step)
            yield f"ETA {timedelta(seconds=round(per_step * (self._end - step)))}"

    def _warnings(self, values: Mapping[str, Any], step: int) -> Iterator[str]:
        """Judge the loss, the part of the time that waits for data, and the GPU's memory."""
        loss, chance = float(values["loss"]), float(values["chance"])
        warning = advice.loss_warning(loss, chance, self._lowest_loss)
        if warning and step > 1:  # the first batch has been judged
            yield warning
        self._lowest_loss = min(self._lowest_loss, loss)
        waited, computed = float(values["data_time"]), float(values["compute_time"])
        if waited and waited / (waited + computed) >= advice.DATA_BOUND:
            yield (
                f"{waited / (waited + computed):.0%} of the time waits for data, which "
                f"{usable_cpus()} threads decode: raise the job's number of cores, and put the "
                "dataset on a local disk or on scratch"
            )
        memory = float(values.get("peak_reserved_mem_ratio", 0))
        if memory >= _FULL:
            yield (
                f"{memory:.0%} of the GPU's memory was in use: a longer batch may not fit; lower "
                "dataset.asr_task_config.max_num_elements"
            )

    def _rows(self, category: str) -> list[dict[str, Any]]:
        return [row for _, row in recorded(self._metrics / f"{category}.jsonl")]

    def _show_validations(self) -> None:
        rows, reports = self._rows("valid"), self._rows("train")
        best, _ = advice.best_validation(rows, self._score)
        names = [name for name in _COLUMNS if SCORE_TITLES[name] in rows[-1]]
        header = "".join(f"{_COLUMNS[name]:>10}" for name in names)
        lines = [f"{'step':>8}{'train loss':>12}{header}"]
        for number, row in enumerate(rows):
            line = f"{row['Step']:>8,}{advice.train_loss(reports, row['Step']):>12.3f}"
            for name in names:
                digits = 3 if name == "loss" else 2
                line += f"{row[SCORE_TITLES[name]]:>10.{digits}f}"
            if number == best or number >= len(rows) - _ROWS:
                lines.append(f"{line}  best" if number == best else line)
        log.info("Validations so far, best by {}\n{}", self._score, "\n".join(lines))
        if (len(rows) - 1 - best) % advice.OVERFITTING == 0:
            overfitting = advice.overfitting(reports, rows, self._score, self._values)
            if overfitting:
                log.warning("{}", overfitting)
