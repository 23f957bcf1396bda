"""Word and character error rates as a metric that fairseq2 adds up over batches and processes."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping, Sequence
from typing import Final, Self, final

import torch
from torch import Tensor
from torcheval.metrics import Metric
from typing_extensions import override

from danish_asr.scoring.counts import ErrorCounts, count_errors
from danish_asr.text.profiles import normalize

ALL: Final = "all"
"""The group that every utterance belongs to."""

_WIDTH: Final = len(ErrorCounts().to_tuple())


@final
class ErrorRates(Metric[Tensor]):
    """Integer error counts per group of utterances; rates are made once, at the end.

    Args:
        groups: The names of the groups that are counted beside :data:`ALL`; the same on every rank.
        profile: The text normalisation of references and hypotheses.
        device: Where the counts are kept.
    """

    def __init__(
        self, groups: Sequence[str], profile: str, *, device: torch.device | None = None
    ) -> None:
        super().__init__(device=device)
        self.groups: Final = (ALL, *groups)
        self._row_of = {name: row for row, name in enumerate(self.groups)}
        self._profile = profile
        self.counts: Tensor
        self._add_state("counts", torch.zeros((len(self.groups), _WIDTH), dtype=torch.int64))

    @override
    @torch.inference_mode()
    def update(
        self, references: Sequence[str], hypotheses: Sequence[str], groups: Sequence[Iterable[str]]
    ) -> Self:
        """Count one batch; ``groups`` names for each utterance the groups it belongs to."""
        update = torch.zeros(self.counts.shape, dtype=torch.int64)
        for reference, hypothesis, names in zip(references, hypotheses, groups, strict=True):
            errors = count_errors(
                normalize(reference, self._profile), normalize(hypothesis, self._profile)
            )
            row = torch.tensor(errors.to_tuple(), dtype=torch.int64)
            for name in {ALL, *names}:
                update[self._row_of[name]] += row
        self.counts += update.to(self.counts.device)
        return self

    @override
    def compute(self) -> Tensor:
        """Return the counts: one row per group, columns as ``ErrorCounts.to_tuple``."""
        return self.counts

    @override
    @torch.inference_mode()
    def merge_state(self, metrics: Iterable[Self]) -> Self:
        for metric in metrics:
            self.counts += metric.counts.to(self.counts.device)
        return self


def publish(
    counts: Tensor,
    groups: Sequence[str],
    worst_among: Iterable[str],
    values: MutableMapping[str, object],
) -> None:
    """Write rates in per cent into ``values``: ``wer``, ``cer``, and those of each group.

    A rate of zero is published like any other. ``worst_group_wer`` is the highest WER among
    ``worst_among``; groups without a single reference word have no rate.
    """
    scored = _scored(counts, groups)
    for group, errors in scored.items():
        suffix = "" if group == ALL else f"/{group}"
        values[f"wer{suffix}"] = 100 * errors.wer()
        values[f"cer{suffix}"] = 100 * errors.cer()
    rates = [
        100 * scored[group].wer()
        for group in worst_among
        if group in scored and scored[group].words.reference_length
    ]
    if rates:
        values["worst_group_wer"] = max(rates)


def table(counts: Tensor, groups: Sequence[str]) -> list[str]:
    """The rates as a plain table: all rows first, then the groups, the worst WER on top."""
    scored = _scored(counts, groups)
    order = sorted(scored, key=lambda group: (group != ALL, -scored[group].wer()))
    head = f"{'group':28} {'WER %':>7} {'CER %':>7} {'rows':>8} {'words':>9}"
    return [head, *(_line(group, scored[group]) for group in order)]


def _line(group: str, errors: ErrorCounts) -> str:
    return (
        f"{group:28} {100 * errors.wer():>7.2f} {100 * errors.cer():>7.2f} "
        f"{errors.rows:>8,} {errors.words.reference_length:>9,}"
    )


def _scored(counts: Tensor, groups: Sequence[str]) -> dict[str, ErrorCounts]:
    """The counts of each group that has rows."""
    pairs = zip(groups, map(ErrorCounts.from_tuple, counts.tolist()), strict=True)
    return {group: errors for group, errors in pairs if errors.rows}
