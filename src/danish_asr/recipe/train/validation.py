"""What validation measures, and when it ends training: WER and CER, of all rows and of groups."""

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Final, Self, cast, final

import torch
from fairseq2.datasets import Seq2SeqBatch
from fairseq2.early_stopper import EarlyStopper
from fairseq2.metrics import MetricBag
from fairseq2.recipe.evaluator import EvalUnit
from fairseq2.recipe.model import RecipeModel
from torch import Tensor
from torcheval.metrics import Metric
from typing_extensions import override

from danish_asr.decoding.decoders import Decoder, decode, make_decoder
from danish_asr.metrics import ErrorCounts, count_errors
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.config.training_sections import RegimeSection
from danish_asr.recipe.data.index import UNKNOWN_DIALECT, Index
from danish_asr.recipe.data.reader import ReaderSetup, SplitsReader
from danish_asr.recipe.run.advice import Rows, early_stop
from danish_asr.recipe.run.run import Run, score_title
from danish_asr.recipe.train.console import log
from danish_asr.recipe.train.criterion import CtcCriterion
from danish_asr.recipe.train.readers import any_row_has_loss, splits_reader
from danish_asr.text.profiles import normalize

ALL: Final = "all"
"""The group of every utterance."""

_DIALECT: Final = "dialect/"
_NO_DIALECT: Final = f"{_DIALECT}{UNKNOWN_DIALECT}"

_WIDTH: Final = len(ErrorCounts().to_tuple())


@final
class AsrValidationUnit(EvalUnit[Seq2SeqBatch]):
    """Measures loss, WER and CER of all rows, and WER and CER of groups, under a text ``profile``.

    A group is a split by its name, or ``dialect/<name>``. Without ``has_loss`` no row has a loss.
    """

    def __init__(
        self,
        criterion: CtcCriterion,
        decoder: Decoder,
        profile: str,
        groups: Sequence[str] = (),
        *,
        has_loss: bool,
    ) -> None:
        self._has_loss = has_loss
        self._criterion, self._decoder = criterion, decoder
        self._profile, self._groups = profile, groups

    @property
    @override
    def name(self) -> str | None:
        return None

    @override
    def prepare_metric_bag(self, metric_bag: MetricBag) -> None:
        self._criterion.prepare_metric_bag(metric_bag, has_loss=self._has_loss)
        metric_bag.add("errors", ErrorRates(self._groups, self._profile))

    @override
    def process_batch(self, batch: Seq2SeqBatch, metric_bag: MetricBag) -> None:
        example = cast(dict[str, list[str]], batch.example)
        groups = [
            {split, f"{_DIALECT}{dialect}" if dialect else _NO_DIALECT} & {*self._groups}
            for split, dialect in zip(example["split"], example["dialect"], strict=True)
        ]
        hypotheses = decode(self._decoder, self._criterion.log_probs(batch, metric_bag))
        metric_bag.get("errors", ErrorRates).update(example["text"], hypotheses, groups)

    @override
    def process_metric_values(self, values: MutableMapping[str, object]) -> None:
        by_group = cast(dict[str, ErrorCounts], values.pop("errors"))
        log.info("Validation, text profile {}\n{}", self._profile, _table(by_group))
        values.update(rates_of(by_group))

    @property
    @override
    def model(self) -> RecipeModel:
        return self._criterion.model


def open_validation(
    setup: ReaderSetup, config: AsrConfig, indices: Mapping[str, Index], criterion: CtcCriterion
) -> tuple[AsrValidationUnit, SplitsReader]:
    """Return what measures a model on the rows of splits, and the reader of these rows."""
    decoder = make_decoder(config.decoder.name, config.decoder.config, setup.tokenizer)
    dialects = {name or UNKNOWN_DIALECT for i in indices.values() for name in i.rows["dialect"]}
    groups = [*indices] if len(indices) > 1 else []
    groups += [f"{_DIALECT}{name}" for name in sorted(dialects)]
    has_loss, profile = any_row_has_loss(setup, config, indices), config.regime.score_profile
    unit = AsrValidationUnit(criterion, decoder, profile, groups, has_loss=has_loss)
    return unit, splits_reader(setup, config, indices)


@final
class ErrorRates(Metric[dict[str, ErrorCounts]]):
    """Integer error counts of :data:`ALL` and of ``groups``, added up over batches and ranks."""

    def __init__(
        self, groups: Sequence[str], profile: str, *, device: torch.device | None = None
    ) -> None:
        super().__init__(device=device)
        self.groups, self._profile = (ALL, *groups), profile
        self.counts: Tensor
        self._add_state("counts", torch.zeros((len(self.groups), _WIDTH), dtype=torch.int64))

    @override
    @torch.inference_mode()
    def update(
        self, references: Sequence[str], hypotheses: Sequence[str], groups: Sequence[Iterable[str]]
    ) -> Self:
        """Count one batch; ``groups`` names the groups of each utterance."""
        batch = torch.zeros(self.counts.shape, dtype=torch.int64)
        for reference, hypothesis, names in zip(references, hypotheses, groups, strict=True):
            errors = count_errors(
                normalize(reference, self._profile), normalize(hypothesis, self._profile)
            )
            for name in {ALL, *names}:
                batch[self.groups.index(name)] += torch.tensor(errors.to_tuple())
        self.counts += batch.to(self.counts.device)
        return self

    @override
    def compute(self) -> dict[str, ErrorCounts]:
        """Return the counts of the groups that have rows."""
        pairs = zip(self.groups, map(ErrorCounts.from_tuple, self.counts.tolist()), strict=True)
        return {group: errors for group, errors in pairs if errors.rows}

    @override
    @torch.inference_mode()
    def merge_state(self, metrics: Iterable[Self]) -> Self:
        for metric in metrics:
            self.counts += metric.counts.to(self.counts.device)
        return self


def rates_of(by_group: Mapping[str, ErrorCounts]) -> dict[str, float]:
    """Rates in percent: ``wer``, ``cer``, those of groups, and that of the worst dialect."""
    rates, dialects = {}, []
    for group, errors in by_group.items():
        suffix = "" if group == ALL else f"/{group}"
        rates[f"wer{suffix}"] = 100 * errors.wer()
        rates[f"cer{suffix}"] = 100 * errors.cer()
        is_dialect = group.startswith(_DIALECT) and group != _NO_DIALECT
        if is_dialect and errors.words.reference_length:
            dialects.append(100 * errors.wer())
    if dialects:
        rates["worst_group_wer"] = max(dialects)
    return rates


def _table(by_group: Mapping[str, ErrorCounts]) -> str:
    """The rates as a plain table: all rows first, then the groups, the worst WER on top."""
    lines = [f"{'group':28} {'WER %':>7} {'CER %':>7} {'rows':>8} {'words':>9}"]
    for group in sorted(by_group, key=lambda group: (group != ALL, -by_group[group].wer())):
        errors = by_group[group]
        rates = f"{100 * errors.wer():>7.2f} {100 * errors.cer():>7.2f}"
        lines.append(f"{group:28} {rates} {errors.rows:>8,} {errors.words.reference_length:>9,}")
    return "\n".join(lines)


@final
class PatienceStopper(EarlyStopper):
    """Ends training when `advice.early_stop` says so of the validations in OUTDIR.

    The files of metrics have those of earlier starts too.

    Attributes:
        reason: Why training ends, also if it did before this start; None: it goes on.
    """

    def __init__(self, output_dir: Path, regime: RegimeSection) -> None:
        self._run, self._regime = Run(output_dir), regime
        self.reason = self._decide(self._run.validations())

    @property
    def exhausted(self) -> bool:
        """Whether training ends."""
        return self.reason is not None

    def _decide(self, rows: Rows) -> str | None:
        regime = self._regime
        if rows and regime.num_steps and rows[-1]["Step"] >= regime.num_steps:
            return None  # it ends there anyway
        title = score_title(regime.score_metric)
        return early_stop(rows, title, regime.early_stopping_patience)

    @override
    def should_stop(self, step_nr: int, score: float) -> bool:
        self.reason = self._decide(self._run.metrics("valid"))
        if self.reason:
            log.info("Stopping early: {}.", self.reason)
        return self.exhausted
