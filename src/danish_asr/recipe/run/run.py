"""What an output directory says of its run, as its files are now: the one answer to that question.

In: a directory. Out: a `Run`, with its checkpoints, configuration, metrics and evaluations. How a
run continues, its lock and its processes are in the files beside this one.
"""

import json
import os
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple
from zipfile import ZipFile

from danish_asr.base.config_tree import Tree, read_yaml
from danish_asr.base.errors import PredictionsError, RunError
from danish_asr.base.schema import CARDS_DIR
from danish_asr.recipe.run.advice import LOSS, early_stop
from danish_asr.recipe.run.evaluations import (
    BEST,
    EVALUATION,
    LAST,
    PREDICTIONS,
    Choice,
    Evaluation,
    read_evaluations,
)

CONFIG_FILE: Final = "config.yaml"
CHECKPOINTS: Final = "checkpoints"
METRICS: Final = "metrics"
TENSORBOARD: Final = "tb"
ENVIRONMENT: Final = "environment.json"
MODEL_CARD: Final = "model.yaml"
TOKENIZER: Final = "tokenizer.model"
START: Final = "start"
"""The folder with what a run began with: its `MODEL_CARD`, without weights, and its `TOKENIZER`."""

DATA_EPOCHS: Final = "data_epochs"
"""In a run's card: after how many epochs it was written, if it is these that ended the run."""

MODELS: Final = f"a run, OUTDIR/{CHECKPOINTS}/step_<n> or a directory of Hugging Face"
"""The directories with a model."""

FAILED: Final = "failed.txt"
"""Why a run has ended before its time."""

_HUGGING_FACE: Final = ("*config.json", "vocab.json", "special_tokens_map.json")
"""What is read of a model of Hugging Face, beside its weights."""

SCORE_TITLES: Final = {
    "wer": "Word Error Rate (WER)",
    "cer": "Character Error Rate (CER)",
    "worst_group_wer": "WER of the worst dialect",
    "loss": LOSS,
}
"""The names, in fairseq2's metrics files, of what can be ``regime.score_metric``."""


def score_title(metric: str | None) -> str:
    """Return the name of a ``regime.score_metric`` in metrics files; None: that of the default."""
    return SCORE_TITLES[metric or "wer"]


class Checkpoint(NamedTuple):
    """A complete checkpoint of a run."""

    run: "Run"
    step: int

    @property
    def folder(self) -> Path:
        """Its directory."""
        return self.run.checkpoints / f"step_{self.step}"

    @property
    def weights(self) -> Path:
        """The directory of its model."""
        return self.folder / "model"

    def digest(self) -> str | None:
        """Return a digest of its weights, from the checksums in their files; None: no file."""
        files = sorted(self.weights.rglob("*.pt"))
        content = sha256()
        for file in files:
            with ZipFile(file) as archive:
                for entry in archive.infolist():
                    _, _, name = entry.filename.partition("/")  # below the name of the file
                    content.update(f"{name} {entry.file_size} {entry.CRC}\n".encode())
        return content.hexdigest()[:16] if files else None


class Run:
    """The run in a directory, which may not have begun.

    Attributes:
        folder: The directory.
        checkpoints: That of its checkpoints.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checkpoints = folder / CHECKPOINTS

    @property
    def is_trained(self) -> bool:
        """Whether a training has written its configuration here."""
        return (self.folder / CONFIG_FILE).is_file()

    @property
    def config(self) -> Tree:
        """Its configuration, empty before it has one; raises ConfigError if it is not readable."""
        return read_yaml(self.folder / CONFIG_FILE) if self.is_trained else {}

    @property
    def steps(self) -> list[int]:
        """The steps whose checkpoints are complete, ascending."""
        folders = [path for path in self.checkpoints.glob("step_*") if path.is_dir()]
        numbers = [folder.name.removeprefix("step_") for folder in folders]
        return sorted(int(number) for number in numbers if number.isdigit())

    @property
    def resumable_steps(self) -> list[int]:
        """The steps that it can continue from: their checkpoints hold more than a model."""
        return [step for step in self.steps if (self.at(step).folder / "trainer").is_dir()]

    @property
    def can_continue(self) -> bool:
        """Whether it can begin or go on: the last checkpoint, if any, is not only a model."""
        return self.last == max(self.resumable_steps, default=0)

    @property
    def last(self) -> int:
        """The step of the last checkpoint; 0: there is none."""
        return max(self.steps, default=0)

    @property
    def scores(self) -> dict[int, float]:
        """The validation score of each complete checkpoint that has one; higher is better."""
        scores = {step: read_score(self.score_file(step)) for step in self.steps}
        return {step: score for step, score in scores.items() if score is not None}

    @property
    def best(self) -> int | None:
        """The step with the best score, or the last one if none was validated."""
        scores = self.scores
        if scores:
            return max(scores, key=lambda step: (scores[step], step))
        return self.last or None

    @property
    def best_in_words(self) -> str:
        """Which step is the best, and which later ones have no score."""
        scores, best = self.scores, self.best or 0
        if not scores:
            return f"step {best}, the last; none has a score"
        unscored = [f"step {step}" for step in self.steps if step > best and step not in scores]
        later = f"; later, without a score: {', '.join(unscored)}" if unscored else ""
        return f"step {best}, the best{later}"

    def score_file(self, step: int) -> Path:
        """Return where fairseq2 keeps the score of a checkpoint."""
        return self.checkpoints / "scores" / f"step_{step}.txt"

    def at(self, step: int) -> Checkpoint:
        """Return the checkpoint of a step."""
        return Checkpoint(self, step)

    def named(self) -> dict[str, Checkpoint]:
        """Return the checkpoints by ``best``, ``last`` and ``step_<n>``."""
        names = {f"step_{step}": self.at(step) for step in self.steps}
        if self.best is not None:
            names |= {LAST: self.at(self.last), BEST: self.at(self.best)}
        return names

    def began_with(self) -> Tree | None:
        """Return the card of the model that it began with, without weights; None if it has none.

        ``asked`` has the sections of the configuration that named the model.
        """
        file = self.folder / START / MODEL_CARD
        return read_yaml(file) if self.resumable_steps and file.is_file() else None

    def metrics(self, category: str) -> list[dict[str, Any]]:
        """Return the metrics of ``train`` or ``valid``, oldest first."""
        return [values for _, values in recorded(self.folder / METRICS / f"{category}.jsonl")]

    def validations(self) -> list[dict[str, Any]]:
        """Return the metrics of each validation up to the last checkpoint, oldest first."""
        return [values for values in self.metrics("valid") if values["Step"] <= self.last]

    def completion(self, values: Mapping[str, Any]) -> str | None:
        """Say why a run with these values, by dotted key, is complete; None: it goes on."""
        steps, epochs = values.get("regime.num_steps"), values.get("regime.num_data_epochs")
        score = score_title(values.get("regime.score_metric"))
        patience = values.get("regime.early_stopping_patience")
        if steps and self.last >= steps:
            reason, longer = f"{self.last:,} steps", "regime.num_steps"
        elif stop := early_stop(self.validations(), score, patience):
            reason, longer = stop, "patience"
        elif epochs and self._has_read(epochs):
            reason, longer = f"{epochs} epochs", "regime.num_data_epochs"
        else:
            return None
        fix = f"a larger {longer} trains it longer"
        if not self.can_continue:
            fix = f"model.path={self.folder} with another OUTDIR starts a new run from it"
        return f"the run in {self.folder} is complete: {reason}; {fix}"

    def _has_read(self, epochs: int) -> bool:
        """Whether it has a card that was written after so many epochs."""
        cards = map(read_yaml, (self.folder / CARDS_DIR).glob("*.yaml"))
        return any(card.get(DATA_EPOCHS, 0) >= epochs for card in cards)

    def evaluations(self) -> list[Evaluation]:
        """Return what `read_evaluations` does; ConfigError if its configuration is not readable."""
        return read_evaluations(self.folder, self.config)

    def test(self) -> Choice:
        """Choose the evaluation of its test split.

        Raises:
            PredictionsError: There is none; the message names those of other rows.
            ConfigError: Its configuration cannot be read.
        """
        made = self.evaluations()
        fitting = [one for one in made if one.is_of_test(is_trained=self.is_trained)]
        if fitting:
            taken, *others = fitting
            is_old = taken.about.get("checkpoint") == BEST and self.best != taken.about.get("step")
            broken = [one for one in made if one.fault]
            return Choice(self.folder, taken, others, broken, self.best if is_old else None)
        fix = f"`danish-asr evaluate {self.folder}` makes one of a run"
        if not made:
            raise PredictionsError(f"{self.folder}: no evaluation in this directory; {fix}")
        lines = [one.with_path() for one in made]
        fault = f"{self.folder}: no evaluation of the full test split by the run's model; {fix}"
        raise PredictionsError("\n  ".join([f"{fault}. To score other rows, name a path:", *lines]))

    def files(self) -> list[Path]:
        """Return its files and folders that commands read; pages about it are none of them."""
        names = (CONFIG_FILE, ENVIRONMENT, FAILED, START, CHECKPOINTS, METRICS, TENSORBOARD)
        own = [self.folder / name for name in (*names, CARDS_DIR)]
        for name in (PREDICTIONS, EVALUATION):
            own += (self.folder / "eval").rglob(name)
        return own


def checkpoint_of(path: Path) -> Checkpoint | None:
    """Return what a directory means: a checkpoint, or the best of a run; None: neither."""
    checkpoint = (path.parent if path.name == "model" else path).resolve()
    number = checkpoint.name.removeprefix("step_")
    if checkpoint.parent.name == CHECKPOINTS and number.isdigit():
        return Run(checkpoint.parents[1]).at(int(number))
    run = Run(path)
    return None if run.best is None else run.at(run.best)


def files_of_model(model: str | Path) -> list[Path]:
    """Return the files and folders of the model in a directory; none for a model's name."""
    path = Path(model).expanduser()
    if not path.is_dir():
        return []
    meant = checkpoint_of(path)
    of_hugging_face = [file for ending in _HUGGING_FACE for file in path.glob(ending)]
    return (meant.run if meant else Run(path)).files() + of_hugging_face


def check_model(model: str | Path) -> Path:
    """Return the path or the name of a model; RunError for a path without one."""
    path, name = Path(model).expanduser(), str(model)
    if name and path.is_dir():
        fault = "" if _holds_model(path) else "no model is in it"
    elif name and path.exists():
        fault = "a file"
    else:
        fault = "" if name and os.sep not in name else "missing"
    if fault:
        raise RunError(f"model {name or repr(name)}: {fault}; expected {MODELS}, or a model's name")
    return path


def _holds_model(path: Path) -> bool:
    has_card = any((path / CARDS_DIR).glob("*.yaml"))
    return has_card or (path / "config.json").is_file() or checkpoint_of(path) is not None


def choice_of(path: Path) -> Choice | None:
    """Return what a run's directory stands for; None for a file, or the directory of one.

    Raises what `Run.test` does.
    """
    if not path.is_dir() or (path / PREDICTIONS).is_file():
        return None
    return Run(path).test()


def predictions_of(path: Path) -> Path:
    """Return the predictions file that a path means; raises what `Run.test` does."""
    choice = choice_of(path)
    if choice:
        return choice.taken.predictions
    return path / PREDICTIONS if path.is_dir() else path


def read_score(file: Path) -> float | None:
    """Return the score in a file; None if there is no file, or a kill has left it damaged."""
    try:
        return float(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None


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
