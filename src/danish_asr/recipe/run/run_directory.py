"""A run's output directory: its files, checkpoints, scores and metrics; how a run continues in it.

The checks of a run that continues raise RunError before anything is written.
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

from danish_asr.base.config_tree import Tree, flatten, read_yaml
from danish_asr.base.errors import RunError
from danish_asr.base.files import publish_text, take
from danish_asr.base.schema import CARDS_DIR
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
SHARE_PEOPLE: Final = "share_people"
"""Of an evaluation, as in the dataset's inventory."""
TOKENIZER: Final = "tokenizer.model"
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


def can_continue(output_dir: Path) -> bool:
    """Return whether a run can begin or go on: the last checkpoint, if any, is not only a model."""
    last = max(checkpoint_steps(output_dir), default=0)
    return last == max(resumable_steps(output_dir), default=0)


def checkpoint_scores(output_dir: Path) -> dict[int, float]:
    """Return the validation score of each complete checkpoint that has one; higher is better."""
    folder = output_dir / CHECKPOINTS / "scores"
    steps = checkpoint_steps(output_dir)
    scores = {step: read_score(folder / f"step_{step}.txt") for step in steps}
    return {step: score for step, score in scores.items() if score is not None}


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
    """Return a digest of a checkpoint's weights, from the checksums in its files; None: no file."""
    files = sorted((run / CHECKPOINTS / f"step_{step}" / "model").rglob("*.pt"))
    content = sha256()
    for file in files:
        with ZipFile(file) as archive:
            for entry in archive.infolist():
                _, _, name = entry.filename.partition("/")  # below the name of the file
                content.update(f"{name} {entry.file_size} {entry.CRC}\n".encode())
    return content.hexdigest()[:16] if files else None


def files_of_run(run: Path) -> list[Path]:
    """Return the files and folders of a run that commands read; pages about it are none of them."""
    names = (CONFIG_FILE, ENVIRONMENT, FAILED, CHECKPOINTS, METRICS, TENSORBOARD, CARDS_DIR)
    own = [run / name for name in names]
    for name in (PREDICTIONS, EVALUATION):
        own += (run / "eval").rglob(name)
    return own


def files_of_model(model: str | Path) -> list[Path]:
    """Return the files and folders of the model in a directory; none for a model's name."""
    path = Path(model).expanduser()
    if not path.is_dir():
        return []
    meant = meant_checkpoint(path)
    of_hugging_face = [file for ending in _HUGGING_FACE for file in path.glob(ending)]
    return files_of_run(meant[0] if meant else path) + of_hugging_face


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
    last = max(checkpoint_steps(output_dir), default=0)
    rows = recorded(output_dir / METRICS / "valid.jsonl")
    return [values for _, values in rows if values["Step"] <= last]


_ADVICE: Final = (
    "Wait for its end, or stop it there with kill and wait until it has saved; the same command "
    "then continues the run. Or name another OUTDIR."
)

_MAY_CHANGE: Final = (
    *("regime.", "gang.", "evaluator.", "common."),
    *("dataset.valid_split", "dataset.valid_subset", "dataset.valid_where"),
    *("dataset.valid_max_num_elements", "dataset.max_unknown_share"),
    "dataset.config_overrides.data",  # where the dataset is; the reader knows its rows
    # A step of two processes takes what one takes in two batches.
    *("trainer.grad_accumulation.", "trainer.activation_checkpointing."),
    "trainer.max_wall_minutes",
)
"""Keys and sections that a run may change when it continues. All others shape the weights, the
data or the saved state."""

_MUST_STAY: Final = ("common.seed", "regime.score_metric", "regime.score_profile")
"""Exceptions to :data:`_MAY_CHANGE`."""


@contextmanager
def locked(directory: Path, rank: int = 0) -> Iterator[None]:
    """Be the only run that writes in ``directory``, which is created, or raise RunError.

    The first rank takes the lock (`base.files.take`). The others `wait_for_first_rank` before they
    read what it prepares there.
    """
    if rank == 0:
        lease = take(directory, error=RunError, advice=_ADVICE, work="run")
    try:
        yield
    finally:
        if rank == 0:
            lease.release()


def check_continuation(
    output_dir: Path, config: Tree, defaults: Tree, *, stopped_early: bool = False
) -> None:
    """Refuse, with RunError, to train over the files of another run or of an average.

    Before the first checkpoint anything may change. A key newer than the run has its default. A
    run whose last checkpoint is only a model may be complete, also where it ``stopped_early``.
    """
    steps = checkpoint_steps(output_dir)
    if not steps:
        if not (output_dir / ENVIRONMENT).exists() and [*output_dir.glob("[!.]*")]:
            fix = f"name a new directory, with model.path={output_dir} if this one has a model"
            raise RunError(f"{output_dir} has files, and is no run; {fix}")
        return
    continues = can_continue(output_dir)
    if not continues and not (output_dir / METRICS).is_dir():
        raise RunError(_only_a_model(output_dir))  # an average: nothing was trained here
    now = dict(flatten(config))
    before = {key: value for key, value in flatten(defaults) if key in now}
    before |= dict(flatten(read_yaml(output_dir / CONFIG_FILE)))
    changed = [
        f"  - {key} was {before.get(key)!r} and is now {now.get(key)!r}"
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key)
        and (key in _MUST_STAY or not key.startswith(_MAY_CHANGE))
    ]
    has_ended = stopped_early or _has_ended(output_dir, before, now)
    if not continues and (changed or not has_ended):
        raise RunError("\n".join([_only_a_model(output_dir), *changed]))
    if (now["regime.num_steps"] or steps[-1]) < steps[-1]:
        raise RunError(f"regime.num_steps must be at least {steps[-1]}, which the run has reached")
    if changed:
        raise RunError(
            f"{output_dir} holds a run at step {steps[-1]} with another configuration:\n"
            + "\n".join(changed)
            + "\nStart the new run in another OUTDIR, or restore these values to continue."
        )


def _has_ended(output_dir: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether a run has reached its last step, or has the card that is written after its epochs."""
    if num_steps := now["regime.num_steps"]:
        return checkpoint_steps(output_dir)[-1] >= int(num_steps)
    epochs = "regime.num_data_epochs"
    has_card = any((output_dir / CARDS_DIR).glob("*.yaml"))
    return has_card and before.get(epochs) == now.get(epochs)


def _only_a_model(output_dir: Path) -> str:
    """The refusal of a directory whose last checkpoint is only a model."""
    text = (
        f"{output_dir}: its last checkpoint, step_{checkpoint_steps(output_dir)[-1]}, is a model "
        "without the state of a training (an average, or regime.save_model_only), so no training "
        f"can continue here. model.path={output_dir} with another OUTDIR starts a new run from it"
    )
    if steps := resumable_steps(output_dir):
        text += f"; without the checkpoints after step_{steps[-1]} the run continues from that one"
    return text


def completion(output_dir: Path, num_steps: int | None) -> str | None:
    """Say that a run, which `check_continuation` has passed, is complete; None: it may go on."""
    last = max(checkpoint_steps(output_dir), default=0)
    if not can_continue(output_dir):
        fix = f"model.path={output_dir} with another OUTDIR starts a new run from it"
    elif num_steps and last >= num_steps:
        fix = "a larger regime.num_steps trains it longer"
    else:
        return None
    return f"the run in {output_dir} is complete, at step {last:,}; {fix}"


def check_processes(output_dir: Path, processes: int) -> str | None:
    """Return a note on another number of processes; RunError if the run cannot have it."""
    folder, saved = _saved_ranks(output_dir)
    if saved in {0, processes}:
        return None
    shards = len(list(folder.glob("model/pp_00/tp_00/sdp_*.pt")))
    if shards > 1:
        raise RunError(
            f"{output_dir} was saved by {saved} processes with the model sharded over {shards}; it "
            f"cannot continue with {processes}. Continue with {saved}, or start a new run."
        )
    return (
        f"the run was saved by {saved} processes and continues with {processes}. A step has as "
        f"much audio as before if trainer.grad_accumulation.num_batches is {saved / processes:g} "
        "times that of before"
    )


def tidy(output_dir: Path) -> None:
    """Delete what a run that continues writes again: unfinished checkpoints and later metrics.

    A damaged score is deleted too: fairseq2 would refuse it. The metrics files then hold each step
    once, in complete lines.
    """
    for unfinished in (output_dir / CHECKPOINTS).glob("step_*.tmp"):
        shutil.rmtree(unfinished, ignore_errors=True)
    for score in (output_dir / CHECKPOINTS / "scores").glob("*.txt"):
        if read_score(score) is None:
            score.unlink()
    last = max(checkpoint_steps(output_dir), default=0)
    for file in (output_dir / METRICS).rglob("*.jsonl"):
        publish_text(file, "".join(line for line, row in recorded(file) if row["Step"] <= last))


def fit_to_processes(output_dir: Path, processes: int) -> None:
    """Let a run continue with more processes than it was saved with.

    fairseq2 saves and loads the state of the trainer and of the data reader once per process. The
    reader's position counts the batches of all processes, and only the random state of the trainer
    differs between them: new processes take the first one's.
    """
    folder, saved = _saved_ranks(output_dir)
    for rank in range(saved, processes if saved else 0):
        for state in ("trainer/rank", "data_reader/dp"):
            shutil.copyfile(folder / f"{state}_00.pt", folder / f"{state}_{rank:02d}.pt")


def _saved_ranks(output_dir: Path) -> tuple[Path, int]:
    """Return the checkpoint that a run continues from and the processes that saved it, 0: none."""
    step = max(checkpoint_steps(output_dir), default=0)
    folder = output_dir / CHECKPOINTS / f"step_{step}"
    return folder, len(list((folder / "trainer").glob("rank_*.pt")))
