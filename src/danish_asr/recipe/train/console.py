"""What a run prints: a line per report and per validation, warnings.

``log`` is for the lines of this project. Of fairseq2's own records the terminal or the job's log
gets warnings and a few lines (``_SHOWN``); ``OUTDIR/logs`` has all.
"""

# ruff: noqa: PLE1205 - fairseq2's log formats with str.format

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from logging import INFO, WARNING, Handler, LogRecord
from pathlib import Path
from typing import Any, Final, final

import torch
from fairseq2.logging import get_log_writer
from fairseq2.logging import log as fairseq2_log  # noqa: TID251 - its handlers are set here
from fairseq2.metrics.recorders import MetricRecorder
from fairseq2.utils.rich import configure_rich_logging, get_error_console
from rich.logging import RichHandler
from typing_extensions import override

from danish_asr.base.cluster import usable_cpus
from danish_asr.base.config_tree import flatten
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.recipe.config.load import unstructure
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.run import advice
from danish_asr.recipe.run.run import Run, score_title

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

_WAITING: Final = 0.2
"""The part of a run's time that waits for data, from which on it is too much."""

_FULL: Final = 0.95
"""The part of a GPU's memory above which a longer batch may not fit."""

_GIB: Final = 2**30


def configure_console() -> None:
    """Replace the console's handler, which the first process has, after fairseq2 has set it."""
    configure_rich_logging()
    logger = fairseq2_log.logger
    for handler in [*logger.handlers]:
        if isinstance(handler, RichHandler):
            logger.removeHandler(handler)
            logger.addHandler(_Console())


@final
class _Console(Handler):
    """Prints lines that are not wrapped; in a terminal they come above the progress bar."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(_is_for_users)

    @override
    def emit(self, record: LogRecord) -> None:
        level = f"{record.levelname}: " if record.levelno > INFO else ""
        line = f"{time.strftime('%Y-%m-%d %H:%M:%S')} {level}{self.format(record)}"
        try:
            get_error_console().print(line, soft_wrap=True, markup=False, emoji=False)
        except OSError:  # the terminal was closed
            self.handleError(record)


def _is_for_users(record: LogRecord) -> bool:
    if record.name == log.logger.name:
        return True
    message = record.getMessage()
    if record.levelno >= WARNING:
        return not _IGNORED.match(message)
    return _SHOWN.match(message) is not None


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
        self._run, self._end = Run(output_dir), config.regime.num_steps
        self._score = score_title(config.regime.score_metric)
        self._step = max(self._run.resumable_steps, default=0)
        for warning in advice.of_values(dict(flatten(unstructure(config)))):
            log.warning("{}", warning)

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
            self._report_validation()

    @override
    def close(self) -> None:
        pass

    def _parts(self, values: Mapping[str, Any], step: int) -> Iterator[str]:
        """Yield the parts of a line; times and audio are those of a step since the last line."""
        steps = max(step - self._step, 1)
        seconds = values["lapse_time"] / steps
        minutes = float(values["num_source_elements"]) / SAMPLE_RATE / 60 / steps
        rates = values["lr"]
        rate = max(rates) if isinstance(rates, Sequence) else rates
        yield f"step {step:,}/{self._end:,}" if self._end else f"step {step:,}"
        yield f"epoch {values['data_epoch']}"
        yield f"loss {float(values['loss']):.3f} (chance {float(values['chance']):.1f})"
        yield f"lr {rate:.1e}"
        yield f"audio {minutes:.2f} min"
        yield f"{seconds:.2f} s/step"
        if self._end:
            yield f"ETA {timedelta(seconds=round(seconds * (self._end - step)))}"

    def _warnings(self, values: Mapping[str, Any], step: int) -> Iterator[str]:
        """Judge the loss, the part of the time that waits for data, and the GPU's memory."""
        warning = advice.loss_warning(float(values["loss"]), float(values["chance"]))
        if warning and step > 1:  # the first batch has been judged
            yield warning
        waited, computed = float(values["data_time"]), float(values["compute_time"])
        if waited > _WAITING * (waited + computed):
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

    def _report_validation(self) -> None:
        rows, score = self._run.metrics("valid"), self._score
        last, best = rows[-1], advice.best_validation(rows, score)
        loss = f"{last[advice.LOSS]:.3f}" if advice.LOSS in last else "none"
        log.info(
            "validation after step {:,} | dev loss {} | {} {:.2f} | best {:.2f}, of step {:,}",
            *(last["Step"], loss, score, last[score], best[score], best["Step"]),
        )
        overfitting = advice.overfitting(self._run.metrics("train"), rows, score)
        for warning in (overfitting, advice.no_word_right(rows, score_title("wer"))):
            if warning:
                log.warning("{}", warning)
