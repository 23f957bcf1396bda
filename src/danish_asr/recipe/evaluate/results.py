"""The results of an evaluation: ``predictions.jsonl`` and ``evaluation.json`` beside it."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from fairseq2.gang import Gang

from danish_asr.base.errors import RunFailedError
from danish_asr.base.files import publish_json, sha256_of
from danish_asr.decoding.decoders import GREEDY, Decoder
from danish_asr.decoding.ngram import HELD_OUT, NOTHING_HELD_OUT
from danish_asr.recipe.evaluate.selection import CONFIGURATION, Selection
from danish_asr.recipe.run.run_directory import EVALUATION, PREDICTIONS, PREDICTIONS_SHA256
from danish_asr.recipe.train.console import log
from danish_asr.recipe.train.preflight import Resolved
from danish_asr.scoring.predictions import Prediction, read_predictions, write_predictions


def write_results(
    directory: Path, gang: Gang, predictions: list[Prediction], about: Mapping[str, Any]
) -> None:
    """Write the predictions of all processes as one file, and ``evaluation.json`` beside it.

    ``about`` is the content of that, without the hash of the predictions file.

    Raises:
        RunFailedError: There is not one prediction for each row to score.
    """
    # Ranks may be on several hosts and share only the output directory.
    files = [directory / f"{PREDICTIONS}.{rank}" for rank in range(gang.size)]
    if gang.rank != 0:
        write_predictions(files[gang.rank], predictions)
    gang.barrier()
    if gang.rank == 0:
        for file in files[1:]:
            predictions += read_predictions(file)
        _publish(directory, predictions, about)
        for file in files[1:]:
            file.unlink()
    gang.barrier()


def _publish(
    directory: Path, predictions: Collection[Prediction], about: Mapping[str, Any]
) -> None:
    rows = sum(about["rows"].values())
    if len({p.key for p in predictions}) != rows or len(predictions) != rows:
        raise RunFailedError(
            f"{len(predictions)} predictions were made for {rows} rows; every row must "
            "be scored once. `danish-asr verify` finds ids that occur twice."
        )
    file = directory / PREDICTIONS
    write_predictions(file, sorted(predictions, key=lambda p: (p.split, p.id, p.corpus)))
    of_file = {"predictions": PREDICTIONS, PREDICTIONS_SHA256: sha256_of(file)}
    publish_json(directory / EVALUATION, {**about, **of_file})
    log.info("{} predictions written to {}.", rows, file)
    if about.get("decoder", {}).get("settings", {}).get(HELD_OUT) == 0:
        log.warning("{}", NOTHING_HELD_OUT)


def about_evaluation(selection: Selection, resolved: Resolved, decoder: Decoder) -> dict[str, Any]:
    """Return what is scored, on which rows of which dataset."""
    config, indices = resolved.config, resolved.rows.valid
    about: dict[str, Any] = {
        "dataset": config.dataset.name,
        "dataset_root": str(resolved.dataset),
        "model": config.model.name,
        "checkpoint": config.evaluator.checkpoint,
        "step": selection.step,
        "run": str(config.common.assets.prev_checkpoint_dir or ""),
        "weights": selection.weights,
        "tokenizer": str(config.tokenizer.path or config.tokenizer.name),
        CONFIGURATION: selection.configuration_sha256,
        "score_profile": config.regime.score_profile,
    }
    if config.decoder.name != GREEDY:
        about["decoder"] = dict(vars(config.decoder))
        if settings := getattr(decoder, "settings", None):  # such as tuned values
            about["decoder"]["settings"] = settings
    if config.evaluator.where:
        about["where"] = config.evaluator.where
    return about | {
        "rows": {name: len(index) for name, index in indices.items()},
        "rows_in_split": {name: index.rows_in_split for name, index in indices.items()},
    }
