"""A probe (``trainer.probe_steps``): the first steps of a run, measured, of which a report is left.

The batches with the longest rows come first, because they need the most memory, and all layers that
will ever learn do so from the first step on. There is no validation and no checkpoint.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from statistics import fmean, median
from typing import Any, final

import torch
from fairseq2.metrics.recorders import MetricRecorder
from typing_extensions import override

from danish_asr.base.files import publish_json
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.recipe.config.config import AsrConfig
from danish_asr.recipe.data.reader import BatchReader
from danish_asr.recipe.run.run_directory import PROBE
from danish_asr.recipe.train.console import log, performance_warnings
from danish_asr.recipe.train.learning import Freezing


def probed(config: AsrConfig) -> AsrConfig:
    """Return the configuration of a probe of a run with this one, which must be resolved."""
    steps, stages = config.trainer.probe_steps or 0, Freezing(config).stages
    last: dict[int | str, str] = {0: stages[max(stages)]}
    trainer = replace(config.trainer, freeze_encoder_for_n_steps=0, unfreeze=last, stages={})
    regime: Any = config.regime
    off = {name: None for name in vars(regime) if "_every_n_" in name}
    off |= dict.fromkeys(("num_data_epochs", "early_stopping_patience"))
    # fairseq2 saves a checkpoint at its last step, which is never reached.
    end = max(regime.num_steps, steps + 1) if regime.num_steps else None
    regime = replace(regime, **off | {"num_steps": end, "publish_metrics_every_n_steps": 1})
    recorders = config.common.metric_recorders
    wandb = replace(recorders.wandb, enabled=False)
    tensorboard = replace(recorders.tensorboard, enabled=False)
    recorders = replace(recorders, wandb=wandb, tensorboard=tensorboard)
    common = replace(config.common, metric_recorders=recorders)
    dataset = replace(config.dataset, valid_split=None)
    if config.trainer.stages:  # the rows of all stages, and more
        dataset = replace(dataset, train_where=None, train_subset=None)
    return replace(config, trainer=trainer, regime=regime, common=common, dataset=dataset)


@final
class Probe(MetricRecorder):
    """Collects what fairseq2's trainer measures at each step, on the first rank."""

    def __init__(self, config: AsrConfig, processes: int) -> None:
        self._config, self._processes = config, processes
        self._steps = config.trainer.probe_steps or 0
        self._num_longest = max(3, self._steps // 10)
        self._rows: list[dict[str, float]] = []
        self._reader: dict[str, Any] = {}

    def prepare(self, reader: BatchReader) -> None:
        """Let the reader begin with its longest rows, in steps that are not timed."""
        largest = reader.begin_with_longest(self._num_longest)
        self._reader = {"steps_per_epoch": reader.epoch_size().steps, "largest_batch": largest}

    @override
    def record_metric_values(
        self, category: str, values: Mapping[str, Any], step_nr: int | None = None
    ) -> None:
        names = ("data_time", "compute_time", "num_source_elements", "peak_reserved_mem_bytes")
        row = {name: float(values.get(name, 0)) for name in names}
        row["seconds"] = row["data_time"] + row["compute_time"]
        self._rows.append(row)
        if step_nr in {1, self._num_longest} or (step_nr or 0) % 10 == 0:
            log.info("probe step {}/{} | {:.2f} s", step_nr, self._steps, row["seconds"])

    def report(self) -> dict[str, Any]:
        """Return what was measured; times are of the steps after the longest batches, if any."""
        rows = self._rows[self._num_longest :] or self._rows[1:] or self._rows
        seconds = median(row["seconds"] for row in rows)
        minutes = fmean(row["num_source_elements"] for row in rows) / SAMPLE_RATE / 60
        config, end = self._config, self._config.regime.num_steps
        peak = max(row["peak_reserved_mem_bytes"] for row in self._rows)
        if torch.cuda.is_available() and peak:
            device = torch.cuda.get_device_name()
            total: int | None = torch.cuda.get_device_properties().total_memory
        else:
            device, total = "cpu", None
            peak = getrusage(RUSAGE_SELF).ru_maxrss * 1024.0
        report: dict[str, Any] = {
            "fits": True,
            "device": device,
            "processes": self._processes,
            "steps": len(self._rows),
            "max_num_elements": config.dataset.asr_task_config.max_num_elements,
            "num_batches": config.trainer.grad_accumulation.num_batches,
            **self._reader,
            "peak_bytes": peak,
            "memory_bytes": total,
            "seconds_per_step": seconds,
            "data_share": fmean(row["data_time"] / row["seconds"] for row in rows),
            "audio_minutes_per_step": minutes,
            "num_steps": end,
            "hours": end * seconds / 3600 if end else None,
            "epochs": end / self._reader["steps_per_epoch"] if end else None,
        }
        return report | {"lines": list(_lines(report))}

    def write(self, output_dir: Path, *, out_of_memory: bool = False) -> None:
        """Write ``OUTDIR/probe.json`` and log what it says."""
        if out_of_memory:
            publish_json(output_dir / PROBE, {"fits": False})
        elif self._rows:  # otherwise it was stopped before
            report = self.report()
            publish_json(output_dir / PROBE, report)
            log.info("Probe\n{}", "\n".join(f"  {line}" for line in report["lines"]))

    @override
    def close(self) -> None:
        pass


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Say in words what a report holds."""
    peak, total = report["peak_bytes"] / 2**30, report["memory_bytes"]
    available = f" of {total / 2**30:.1f} GiB on each GPU" if total else " of RAM in this process"
    yield f"device   {report['processes']} x {report['device']}, {report['steps']} steps"
    yield f"memory   {peak:.2f} GiB{available}, at max_num_elements={report['max_num_elements']:,}"
    yield (
        f"time     {report['seconds_per_step']:.2f} s/step (median), of which "
        f"{report['data_share']:.0%} waits for data; {report['audio_minutes_per_step']:.3g} min of "
        "audio in a step"
    )
    if hours := report["hours"]:
        steps, epochs = f"{report['num_steps']:,} steps", f"{report['epochs']:.1f} epochs"
        yield f"run      {steps} take {hours:.1f} h and {epochs}, without validations"
    memory_share = report["peak_bytes"] / total if total else 0.0
    yield from performance_warnings(report["data_share"], memory_share)
