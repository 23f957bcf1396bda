"""Predictions for tests: a small file made by hand, and a large one with random errors."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from danish_asr.base.files import sha256_of, to_yaml
from danish_asr.base.tables import Row
from danish_asr.scoring.compare import Comparison, compare_runs
from danish_asr.scoring.predictions import read_predictions, write_predictions
from danish_asr.scoring.scores import Scores, score_predictions

WORDS = (
    *("jeg", "det", "er", "en", "et", "på", "at", "og", "til", "med", "har", "ikke", "som", "der"),
    *("den", "for", "af", "de", "men", "om", "hun", "han", "var", "skal", "rødgrød", "fløde"),
    *("sommerhus", "togstation", "enogtyve", "21", "1.203", "øh", "hmm", "København", "Aalborg"),
    *("lærer", "børn"),
)
DIALECTS = ("Østjysk", "Sjællandsk", "Nordjysk", "Fynsk", "Bornholmsk")


def prediction(row_id: str, reference: str, hypothesis: str, **changes: object) -> Row:
    """One row with default values for the rest."""
    row = {"id": row_id, "reference": reference, "hypothesis": hypothesis}
    usual = {"corpus": "coral", "split": "test", "duration": 2.0, "speaker_id": "s1"}
    groups = dict.fromkeys(("dialect", "age_group", "gender"))
    return {**row, **usual, **groups, **changes}


def changed(row: Row, **values: object) -> Row:
    """The same row with other values."""
    return {**row, **values}


def scored(rows: Iterable[Row], **options: Any) -> Scores:
    """The scores of rows."""
    return score_predictions(read_predictions(rows), **options)


def compared(runs: Mapping[str, Mapping[str, Iterable[Row]]], **options: Any) -> Comparison:
    """The comparison of runs, each with the rows of its files."""
    tables = {
        run: {name: read_predictions(rows) for name, rows in files.items()}
        for run, files in runs.items()
    }
    return compare_runs(tables, **options)


def write_rows(file: Path, rows: Iterable[Row]) -> None:
    """Write rows as an evaluation does."""
    write_predictions(file, read_predictions(rows))


def four_rows() -> list[Row]:
    """Two of Fynsk, one of Bornholmsk with an empty hypothesis, one of an unknown dialect."""
    return [
        prediction("a", "det er koldt", "det er koldt", dialect="Fynsk"),
        prediction("b", "det er varmt", "det var varmt", dialect="Fynsk"),
        prediction("c", "Øh, det er 21 grader", "", dialect="Bornholmsk"),
        prediction("d", "ja", "ja ja"),
    ]


def random_rows(
    rows: int, *, speakers: int = 60, errors: float = 0.2, seed: int = 0
) -> Iterator[Row]:
    """Random sentences, recognised with an error rate per speaker around ``errors``."""
    random = Random(seed)
    rates = [min(0.9, errors * random.lognormvariate(0, 0.4)) for _ in range(speakers)]
    for number in range(rows):
        speaker = number % speakers
        words = random.choices(WORDS, k=random.randint(1, 12))
        yield prediction(
            f"utt-{number:06d}",
            " ".join(words).capitalize() + ".",
            " ".join(_with_errors(words, rates[speaker], random)),
            duration=round(len(words) / random.uniform(1, 4), 2),
            speaker_id=f"spk-{speaker:03d}",
            dialect=DIALECTS[speaker % len(DIALECTS)],
            age_group=("0-24", "25-49", "50+")[speaker % 3],
            gender=("female", "male", None)[speaker % 7 % 3],
        )


def _with_errors(words: list[str], rate: float, random: Random) -> Iterator[str]:
    for word in words:
        chance = random.random()
        if chance < rate / 3:
            yield random.choice(WORDS)
        elif chance < rate / 2:
            continue
        elif chance < rate * 2 / 3:
            yield from (word, random.choice(WORDS))
        elif chance < rate:
            yield word.replace("e", "æ").replace("d", "t") + "s"
        else:
            yield word


def write_evaluation(predictions: Path, **about: object) -> Path:
    """Write the ``evaluation.json`` of a predictions file, with its hash."""
    document = {"predictions": predictions.name, "predictions_sha256": sha256_of(predictions)}
    file = predictions.with_name("evaluation.json")
    file.write_text(json.dumps(document | about), encoding="utf-8")
    return file


def evaluated(run: Path, place: str, **about: object) -> Path:
    """Write an evaluation of a run at ``eval/<place>``: four rows of its split; returns the file.

    A value of None takes a key out of ``evaluation.json``.
    """
    checkpoint, split, *_ = place.split("/")
    split = split.partition("@")[0]
    file = run / "eval" / place / "predictions.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_rows(file, [changed(row, split=split) for row in four_rows()])
    usual = {"checkpoint": checkpoint, "step": 4, "rows_in_split": {split: 4}} | about
    write_evaluation(file, **{key: value for key, value in usual.items() if value is not None})
    return file


def run_with_decoder(run: Path, **decoder: object) -> Path:
    """Write the ``config.yaml`` of a run that validates with a decoder."""
    run.mkdir(exist_ok=True)
    (run / "config.yaml").write_text(to_yaml({"decoder": decoder}), encoding="utf-8")
    return run
