"""Writes what the model heard, for every utterance once, whatever the number of processes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any, Final, cast, final

from fairseq2.datasets import Seq2SeqBatch
from fairseq2.gang import Gangs
from fairseq2.logging import log
from fairseq2.metrics import MetricBag
from fairseq2.recipe.evaluator import EvalUnit
from fairseq2.recipe.model import RecipeModel
from torch import Tensor
from typing_extensions import override

from danish_asr.decoding.greedy import GreedyDecoder
from danish_asr.errors import RunFailedError
from danish_asr.recipe.criterion import CtcCriterion
from danish_asr.recipe.error_rates import ALL, ErrorRates, publish
from danish_asr.schema import SAMPLE_RATE
from danish_asr.scoring.predictions import Prediction, read_predictions, write_predictions

PREDICTIONS: Final = "predictions.jsonl"
EVALUATION: Final = "evaluation.json"


@final
class PredictionUnit(EvalUnit[Seq2SeqBatch]):
    """Decodes batches, gathers the predictions of all ranks and writes them as one file.

    Args:
        criterion: Gives logits, and the loss beside them.
        decoder: Turns logits into text.
        gangs: The processes that share the work.
        output_dir: Takes ``predictions.jsonl`` and ``evaluation.json``.
        rows_in_split: The rows that must be scored, per split.
        profile: The text normalisation of the rates that are shown; the file holds raw text.
        about: What was scored; stands in ``evaluation.json``.
    """

    def __init__(
        self,
        criterion: CtcCriterion,
        decoder: GreedyDecoder,
        gangs: Gangs,
        output_dir: Path,
        *,
        rows_in_split: Mapping[str, int],
        profile: str,
        about: Mapping[str, object],
    ) -> None:
        self._criterion = criterion
        self._decoder = decoder
        self._gangs = gangs
        self._output_dir = output_dir
        self._rows_in_split = dict(rows_in_split)
        self._profile = profile
        self._about = dict(about)
        self._predictions: list[Prediction] = []

    @override
    def prepare_metric_bag(self, metric_bag: MetricBag) -> None:
        self._criterion.prepare_metric_bag(metric_bag)
        metric_bag.add("errors", ErrorRates([], self._profile))

    @override
    def process_batch(self, batch: Seq2SeqBatch, metric_bag: MetricBag) -> None:
        logits, layout = self._criterion.with_logits(batch, metric_bag)
        hypotheses = self._decoder(logits, layout)
        example = cast(dict[str, list[Any]], batch.example)
        errors = metric_bag.get("errors", ErrorRates)
        errors.update(example["text"], hypotheses, [()] * len(hypotheses))
        self._predictions.extend(_predictions(example, hypotheses))

    @override
    def finalize(self, metric_bag: MetricBag) -> None:
        # Ranks may be on several hosts; what they share is the output directory.
        rank, size = self._gangs.dp.rank, self._gangs.dp.size
        write_predictions(self._part(rank), self._predictions)
        self._gangs.root.barrier()
        if self._gangs.root.rank == 0:
            parts = [self._part(other) for other in range(size)]
            self._publish([p for part in parts for p in _rows_of(part)])
            for part in parts:
                part.unlink()
        self._gangs.root.barrier()

    def _part(self, rank: int) -> Path:
        return self._output_dir / f"{PREDICTIONS}.rank_{rank}"

    def _publish(self, predictions: list[Prediction]) -> None:
        expected = sum(self._rows_in_split.values())
        if len({p.id for p in predictions}) != expected or len(predictions) != expected:
            raise RunFailedError(
                f"{len(predictions)} predictions were made for {expected} rows; every row must be "
                "scored once. `danish-asr verify` finds ids that occur twice."
            )
        file = self._output_dir / PREDICTIONS
        write_predictions(file, sorted(predictions, key=lambda p: (p.split, p.id)))
        about = {**self._about, "rows_in_split": self._rows_in_split}
        text = json.dumps(about, ensure_ascii=False, indent=2) + "\n"
        (self._output_dir / EVALUATION).write_text(text, encoding="utf-8")
        log.info("{} predictions written to {}.", expected, file)

    @override
    def process_metric_values(self, values: MutableMapping[str, object]) -> None:
        publish(cast(Tensor, values.pop("errors")), [ALL], worst_among=[], values=values)

    @property
    @override
    def model(self) -> RecipeModel:
        return self._criterion.model


def _predictions(example: Mapping[str, list[Any]], hypotheses: list[str]) -> Iterator[Prediction]:
    for row, hypothesis in enumerate(hypotheses):
        yield Prediction(
            id=example["id"][row],
            corpus=example["corpus"][row],
            split=example["split"][row],
            reference=example["text"][row],
            hypothesis=hypothesis,
            duration=example["audio_size"][row] / SAMPLE_RATE,
            speaker_id=example["speaker_id"][row],
            dialect=example["dialect"][row],
            age_group=example["age_group"][row],
            gender=example["gender"][row],
        )


def _rows_of(part: Path) -> list[Prediction]:
    # A rank may have had nothing to do; read_predictions refuses an empty file.
    return list(read_predictions(part)) if part.stat().st_size else []
