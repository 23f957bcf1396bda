"""What one reads during a run: a line per report, a table per validation, and warnings."""

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from math import inf
from pathlib import Path
from typing import Any, Final, final

from fairseq2.metrics.recorders import MetricRecorder
from typing_extensions import override

from danish_asr.base.cluster.cpus import usable_cpus
from danish_asr.base.config_tree import flatten
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.recipe.config.config import AsrConfig
from danish_asr.recipe.config.loading import unstructure
from danish_asr.recipe.run import advice
from danish_asr.recipe.run.run_directory import METRICS, SCORE_TITLES, recorded, resumable_steps
from danish_asr.recipe.train import diagnostics
from danish_asr.recipe.train.console import log

_LOSS: Final = SCORE_TITLES["loss"]

_COLUMNS: Final = {"loss": "dev loss", "wer": "WER %", "cer": "CER %", "worst_group_wer": "worst %"}

_ROWS: Final = 8
"""How many validations the table has, beside the best one."""


@final
class RunReport(MetricRecorder):
    """Prints fairseq2's training and validation metrics, on the first rank, and judges them.

    The files of metrics, which must be written first, hold what was before, also in earlier starts.
    """

    def __init__(self, output_dir: Path, config: AsrConfig) -> None:
        self._config, regime = config, config.regime
        self._metrics, self._end = output_dir / METRICS, regime.num_steps
        self._score = SCORE_TITLES[regime.score_metric or "wer"]
        self._step = max(resumable_steps(output_dir), default=0)
        self._began: tuple[int, float] | None = None
        self._best = min((row[_LOSS] for row in self._rows("train")), default=inf)

    @override
    def record_metric_values(
        self, category: str, values: Mapping[str, object], step_nr: int | None = None
    ) -> None:
        if category == "train":
            self._report(values, step_nr or 0)
        elif category.startswith("valid"):
            self._show_validations(category)

    def _report(self, values: Mapping[str, Any], step: int) -> None:
        log.info("{}", " | ".join(self._parts(values, step)))
        self._step = step
        loss, chance = float(values["loss"]), float(values["chance"])
        # That of the first batch is known.
        judged = advice.loss_warning(loss, chance, self._best) if step > 1 else None
        slow = diagnostics.performance_warnings(values, threads=usable_cpus())
        for warning in filter(None, [judged, *slow]):
            log.warning("{}", warning)
        self._best = min(self._best, loss)

    def _parts(self, values: Mapping[str, Any], step: int) -> list[str]:
        """The line of one report; times and audio are those of a step since the last one."""
        steps, now, end = max(step - self._step, 1), time.monotonic(), self._end
        seconds = values["lapse_time"]
        began, since = self._began = self._began or (self._step, now - seconds)
        rates, total = values["lr"], f"{end:,}" if end else ""
        rate = max(rates) if isinstance(rates, Sequence) else rates
        minutes = float(values["num_source_elements"]) / SAMPLE_RATE / 60
        parts = [
            f"step {step:>{len(total)},}{'/' * bool(end)}{total}",
            f"epoch {values['data_epoch']}",
            f"loss {float(values['loss']):.3f} (chance {float(values['chance']):.1f})",
            f"lr {rate:.1e}",
            f"audio {minutes / steps:.2f} min",
            f"{seconds / steps:.2f} s/step",
        ]
        if memory := float(values.get("peak_reserved_mem_bytes", 0)):
            parts.append(f"GPU {memory / 2**30:.1f} GiB")
        if end and began < step < end:
            # Of the whole time, which includes validations.
            left = (now - since) / (step - began) * (end - step)
            parts.append(f"ETA {timedelta(seconds=round(left))}")
        return parts

    def _rows(self, category: str) -> list[dict[str, Any]]:
        rows = [row for _, row in recorded(self._metrics / f"{category}.jsonl")]
        return [row for row in rows if _LOSS in row]  # older versions had none

    def _show_validations(self, category: str) -> None:
        rows, reports, title = self._rows(category), self._rows("train"), self._score
        best, _ = advice.best_validation(rows, title)
        names = {SCORE_TITLES[name]: name for name in _COLUMNS if SCORE_TITLES[name] in rows[-1]}
        header = "".join(f"{_COLUMNS[name]:>10}" for name in names.values())
        lines = [f"{'step':>8}{'train loss':>12}{header}"]
        for place, row in enumerate(rows):
            if place == best or place >= len(rows) - _ROWS:
                cells = "".join(
                    f"{row[key]:>10.{3 if name == 'loss' else 2}f}" for key, name in names.items()
                )
                mark = "  best" * (place == best)
                trained = advice.train_loss(reports, row["Step"])
                lines.append(f"{row['Step']:>8,}{trained:>12.3f}{cells}{mark}")
        of = category.removeprefix("valid").replace("/", " of ")
        log.info("Validations{} so far, best by {}\n{}", of, title, "\n".join(lines))
        waited = len(rows) - 1 - best
        late = category == "valid" and waited % advice.OVERFITTING == 0
        config = dict(flatten(unstructure(self._config)))
        if late and (found := advice.overfitting(reports, rows, title, config)):
            log.warning("{}", found)

    @override
    def close(self) -> None:
        pass
