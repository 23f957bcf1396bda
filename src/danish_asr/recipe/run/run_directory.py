"""A run's output directory: the names of its files, its checkpoints, scores and metrics."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple
from zipfile import BadZipFile, ZipFile

from danish_asr.base.errors import PredictionsError, RunError
from danish_asr.base.files import sha256_of
from danish_asr.recipe.run.advice import LOSS

CONFIG_FILE: Final = "config.yaml"
CHECKPOINTS: Final = "checkpoints"
METRICS: Final = "metrics"
TENSORBOARD: Final = "tb"
ENVIRONMENT: Final = "environment.json"
MODEL_CARD: Final = "model.yaml"
PREDICTIONS: Final = "predictions.jsonl"
EVALUATION: Final = "evaluation.json"
"""What was evaluated, with the name and the SHA-256 of the predictions file beside it."""

PREDICTIONS_SHA256: Final = "predictions_sha256"
"""The key of that hash in ``evaluation.json``."""

TOKENIZER: Final = "tokenizer.model"
FAILED: Final = "failed.txt"
"""Why a run has ended before its time."""

SCORE_TITLES: Final = {
    "wer": "Word Error Rate (WER)",
    "cer": "Character Error Rate (CER)",
    "worst_group_wer": "WER of the worst dialect",
    "loss": LOSS,
}
"""The names, in fairseq2's metrics files, of what can be ``regime.score_metric``."""


def checkpoint_steps(output_dir: Path) -> list[int]:
    """Return the steps whose checkpoints are complete, ascending."""
    folders = [path for path in (output_dir / CHECKPOINTS).glob("step_*") if path.is_dir()]
    numbers = [folder.name.removeprefix("step_") for folder in folders]
    return sorted(int(number) for number in numbers if number.isdigit())


def resumable_steps(output_dir: Path) -> list[int]:
    """Return the steps that a run can continue from: their checkpoints hold more than a model."""
    return [
        step
        for step in checkpoint_steps(output_dir)
        if (output_dir / CHECKPOINTS / f"step_{step}" / "trainer").is_dir()
    ]


def checkpoint_scores(output_dir: Path) -> dict[int, float]:
    """Return the validation score of each complete checkpoint that has one; higher is better."""
    folder = output_dir / CHECKPOINTS / "scores"
    scores = {}
    for step in checkpoint_steps(output_dir):
        score = read_score(folder / f"step_{step}.txt")
        if score is not None:
            scores[step] = score
    return scores


def read_score(file: Path) -> float | None:
    """Return the score in a file; None if there is no file, or a kill has left it damaged."""
    try:
        return float(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None


def best_step(output_dir: Path) -> int | None:
    """Return the step with the best score, or the last one if none was validated."""
    scores = checkpoint_scores(output_dir)
    if scores:
        return max(scores, key=lambda step: (scores[step], step))
    return max(checkpoint_steps(output_dir), default=None)


def weights_digest(run: Path, step: int) -> str | None:
    """Return a digest of a checkpoint's weights; None: there are none.

    Of the checksums that the files have for each tensor, so that it takes no time.
    """
    files = sorted((run / CHECKPOINTS / f"step_{step}" / "model").rglob("*.pt"))
    content = sha256()
    for file in files:
        with suppress(OSError, BadZipFile), ZipFile(file) as archive:
            for entry in archive.infolist():
                _, _, name = entry.filename.partition("/")  # below the name of the file
                content.update(f"{name} {entry.file_size} {entry.CRC}\n".encode())
    return content.hexdigest()[:16] if files else None


def read_evaluation(path: Path) -> dict[str, Any]:
    """Return an ``evaluation.json``; PredictionsError if it is broken."""
    advice = "evaluate again, or remove the file to score without it"
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise PredictionsError(f"{path}: cannot be read as JSON ({error}); {advice}") from None
    if not isinstance(about, dict):
        found = type(about).__name__
        raise PredictionsError(f"{path}: expected a JSON object, found {found}; {advice}")
    return about


def evaluation_of(predictions: Path) -> dict[str, Any]:
    """Return the ``evaluation.json`` beside a file; empty if there is none or it names another.

    Raises:
        PredictionsError: It is broken, or the file is not the one that was evaluated.
    """
    file = predictions.parent / EVALUATION
    if not file.is_file():
        return {}
    about = read_evaluation(file)
    if predictions.name != about.get("predictions", PREDICTIONS):
        return {}
    if about.get(PREDICTIONS_SHA256) != sha256_of(predictions):
        raise PredictionsError(
            f"{file}: {PREDICTIONS_SHA256} is not that of {predictions.name}: the file is not the "
            f"one that was evaluated; evaluate again, restore the file, or remove {EVALUATION} to "
            "score without it"
        )
    return about


class Evaluation(NamedTuple):
    """A finished evaluation of a run; ``about`` is its ``evaluation.json``."""

    predictions: Path
    about: Mapping[str, Any]

    @property
    def is_of_own_test(self) -> bool:
        """Whether it is of the whole test split of the run's own dataset, decoded greedily."""
        return (
            [*(self.about.get("rows_in_split") or ())] == ["test"]
            and not {"where", "decoder"} & {*self.about}
            and not any("@" in part for part in self.predictions.parts[-4:])
        )


def evaluations(run: Path) -> list[Evaluation]:
    """Return the finished evaluations of a run: those of its own test split come first.

    Of several, the best checkpoint's come first; those with a decoder or a condition last.
    """
    files = [file.with_name(PREDICTIONS) for file in (run / "eval").rglob(EVALUATION)]
    made = [
        Evaluation(file, read_evaluation(file.with_name(EVALUATION)))
        for file in sorted(files)
        if file.is_file()
    ]
    special = ("where", "decoder")
    return sorted(
        made,
        key=lambda one: (
            not one.is_of_own_test,
            *(key in one.about for key in special),
            one.about.get("checkpoint") != "best",
        ),
    )


def predictions_of(path: Path) -> Path:
    """Return the predictions file that a path means: the first evaluation of a run's directory.

    Raises:
        PredictionsError: It is a directory without an evaluation.
    """
    if not path.is_dir():
        return path
    if (path / PREDICTIONS).is_file():
        return path / PREDICTIONS
    made = evaluations(path)
    if not made:
        fix = f"`danish-asr evaluate {path}` makes one of a run"
        raise PredictionsError(f"{path}: no evaluation in this directory; {fix}")
    return made[0].predictions


def meant_checkpoint(path: Path) -> tuple[Path, int] | None:
    """Return the run and the step that a directory means: a checkpoint, or the best of a run."""
    checkpoint = (path.parent if path.name == "model" else path).resolve()
    number = checkpoint.name.removeprefix("step_")
    if checkpoint.parent.name == CHECKPOINTS and number.isdigit():
        return checkpoint.parents[1], int(number)
    step = best_step(path)
    return None if step is None else (path, step)


def check_model(model: str | Path) -> Path:
    """Return the path or the name of a model; RunError for a path that is no directory."""
    path = Path(model).expanduser()
    if not path.is_dir() and (path.exists() or len(path.parts) > 1):
        fault = "a file" if path.exists() else "missing"
        raise RunError(f"model {model}: {fault}; expected a run, a checkpoint or a model's name")
    return path


def own_tokenizer(run: Path) -> Path | None:
    """Return the file of the run's own tokenizer (`train.own_tokenizer`), if any."""
    file = run / CHECKPOINTS / TOKENIZER
    return file if file.is_file() else None


def recorded(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the lines of a metrics file, and what they hold, without those that a kill has cut."""
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    for line in text.splitlines(keepends=True):
        try:
            values = json.loads(line)
            complete = line.endswith("\n") and isinstance(values["Step"], int)
        except (ValueError, TypeError, KeyError):
            continue
        if complete:
            yield line, values


def validations(output_dir: Path) -> list[dict[str, Any]]:
    """Return the metrics of each validation up to the last checkpoint, oldest first."""
    last = max(resumable_steps(output_dir), default=0)
    rows = recorded(output_dir / METRICS / "valid.jsonl")
    return [values for _, values in rows if values["Step"] <= last]


def validation_scores(output_dir: Path, metric: str) -> list[float]:
    """Return the score of each validation so far, oldest first; higher is better."""
    title = SCORE_TITLES.get(metric, metric)
    return [-float(row[title]) for row in validations(output_dir) if title in row]
