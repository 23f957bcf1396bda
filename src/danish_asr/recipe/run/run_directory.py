"""A run's output directory: what it holds, and how a run continues in it."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Final

from danish_asr.base.config_tree import flatten, read_yaml
from danish_asr.base.errors import RunError
from danish_asr.base.files import publish_text
from danish_asr.recipe.run.advice import LOSS

CONFIG_FILE: Final = "config.yaml"
CHECKPOINTS: Final = "checkpoints"
AVERAGES: Final = "averages"
EMA: Final = "ema"
"""The average over steps: in the optimizer's state, in metrics and below ``averages``."""

METRICS: Final = "metrics"
TENSORBOARD: Final = "tb"
ENVIRONMENT: Final = "environment.json"
MODEL_CARD: Final = "model.yaml"
PROBE: Final = "probe.json"
TOKENIZER: Final = "tokenizer.model"
SWEEP: Final = "sweep.json"
"""What a sweep is, beside the directories of its runs."""

SCORE_TITLES: Final = {
    "wer": "Word Error Rate (WER)",
    "cer": "Character Error Rate (CER)",
    "worst_group_wer": "WER of the worst dialect",
    "loss": LOSS,
}
"""The names, in fairseq2's metrics files, of what can be ``regime.score_metric``."""

_DATA: Final = {".flac", ".mp3", ".ogg", ".opus", ".parquet", ".wav"}

MAY_CHANGE: Final = (
    *("regime.", "gang.", "evaluator.", "common."),
    *("dataset.valid_split", "dataset.valid_subset", "dataset.valid_where"),
    *("dataset.valid_max_num_elements", "dataset.max_unknown_share"),
    # The shares that follow from it must stay: they are in the data reader's state.
    "dataset.mixture_parquet_storage_config.dataset_summary_path",
    # A step of two processes takes what one takes in two batches.
    *("trainer.grad_accumulation.", "trainer.activation_checkpointing."),
    *("trainer.max_wall_minutes", "trainer.gc_every_n_steps"),
    *("trainer.anomaly_detection", "trainer.grad_check"),
)
"""Keys, or their beginnings, that a run may change when it continues. All others shape the weights,
the data or the saved state."""

MUST_STAY: Final = ("common.seed", "regime.score_metric", "regime.score_profile")
"""Exceptions to :data:`MAY_CHANGE`."""


def checkpoint_steps(output_dir: Path) -> list[int]:
    """Return the steps whose checkpoints are complete, ascending."""
    names = (path.name for path in (output_dir / CHECKPOINTS).glob("step_*") if path.is_dir())
    return sorted(int(name[5:]) for name in names if name[5:].isdigit())


def resumable_steps(output_dir: Path) -> list[int]:
    """Return the steps that a run can continue from: their checkpoints hold more than a model."""
    steps = checkpoint_steps(output_dir)
    return [s for s in steps if (output_dir / CHECKPOINTS / f"step_{s}" / "trainer").is_dir()]


def checkpoint_scores(output_dir: Path) -> dict[int, float]:
    """Return the validation score of each complete checkpoint that has one; higher is better."""
    folder = output_dir / CHECKPOINTS / "scores"
    files = {step: folder / f"step_{step}.txt" for step in checkpoint_steps(output_dir)}
    return {s: float(f.read_text(encoding="utf-8")) for s, f in files.items() if f.is_file()}


def best_step(output_dir: Path) -> int | None:
    """Return the step with the best score, or the last one if none was validated."""
    scores = checkpoint_scores(output_dir)
    if scores:
        return max(scores, key=lambda step: (scores[step], step))
    return max(checkpoint_steps(output_dir), default=None)


def best_model(output_dir: Path) -> tuple[Path, int] | None:
    """Return the run, or one of its averages, with the best score, and the step; None: no model."""
    step = best_step(output_dir)
    if step is None:
        return None
    found = [(score, 0, step, output_dir) for score in [checkpoint_scores(output_dir).get(step)]]
    for folder in sorted((output_dir / AVERAGES).glob("*")):
        found += [(score, 1, step, folder) for step, score in checkpoint_scores(folder).items()]
    scored = [each for each in found if each[0] is not None]
    _, _, step, folder = max(scored, default=found[0], key=lambda each: (each[0] or 0, -each[1]))
    return folder, step


def average_name(run: Path) -> str | None:
    """Return the name of an average by its directory, ``OUTDIR/averages/<name>``."""
    return run.name if run.parent.name == AVERAGES else None


def evaluated_model(about: Mapping[str, Any]) -> str:
    """Return the model of an ``evaluation.json`` in words, wherever its run is now."""
    if (step := about.get("step")) is None:
        return str(about.get("model"))
    average = average_name(Path(about.get("run", "")).parent)
    return f"{AVERAGES}/{average}, step {step}" if average else f"step {step}"


def meant_checkpoint(path: Path) -> tuple[Path, int] | None:
    """Return the run and the step that a directory means: a checkpoint, or the best of a run."""
    checkpoint = (path.parent if path.name == "model" else path).resolve()
    if checkpoint.parent.name == CHECKPOINTS and checkpoint.name[5:].isdigit():
        return checkpoint.parents[1], int(checkpoint.name[5:])
    return best_model(path)


def check_model(model: str | Path) -> Path:
    """Return the path or the name of a model; RunError for a path that is no directory."""
    path = Path(model).expanduser()
    if not path.is_dir() and (path.exists() or len(path.parts) > 1):
        found = "a file" if path.exists() else "missing"
        raise RunError(f"model {model}: {found}; expected a run, a checkpoint or a model's name")
    return path


def own_tokenizer(run: Path) -> Path | None:
    """Return the file of the run's own tokenizer (`train.own_tokenizer`), if any."""
    file = run / CHECKPOINTS / TOKENIZER
    return file if file.is_file() else None


def check_output_dir(output_dir: Path, *, dataset: str | None = None) -> None:
    """Refuse, with RunError, a file, a place within another run, and what cannot be written.

    A new run may not begin among audio or tables of data, which a job or an earlier start does not
    leave there. It may not have the name of its dataset either: two cards would have one name.
    """
    path = output_dir.resolve()
    if path.name == dataset and not (path / CONFIG_FILE).is_file():
        raise RunError(
            f"OUTDIR {output_dir}: the dataset is '{dataset}', and the model would get the same "
            "name; name another directory"
        )
    files = [] if (path / CONFIG_FILE).is_file() else chain(path.glob("*"), path.glob("*/*"))
    if data := next((file for file in files if file.suffix.lower() in _DATA), None):
        held = data.relative_to(path)
        raise RunError(f"OUTDIR {output_dir}: it is no run and holds data ({held}); name another")
    there = next(path for path in [path, *path.parents] if path.exists())
    if not there.is_dir():
        raise RunError(f"OUTDIR {output_dir}: {there} is a file; name a directory, new or of a run")
    if not os.access(there, os.W_OK | os.X_OK):
        raise RunError(f"OUTDIR {output_dir}: no permission to write in {there}; name another")
    for above in path.parents:
        if (above / ENVIRONMENT).is_file() and (above / CONFIG_FILE).is_file():
            raise RunError(f"OUTDIR {output_dir}: {above} is a run; name a directory outside it")


@contextmanager
def configuration_of_steps(output_dir: Path) -> Iterator[None]:
    """Keep the ``config.yaml`` of the steps so far if no other is taken and saved.

    fairseq2 writes it at each start, also of a run that is complete.
    """
    file, steps = output_dir / CONFIG_FILE, resumable_steps(output_dir)
    before = file.read_text(encoding="utf-8") if steps and file.is_file() else None
    try:
        yield
    finally:
        if before is not None and resumable_steps(output_dir)[-1:] == steps[-1:]:
            publish_text(file, before)


def tidy(output_dir: Path) -> None:
    """Delete what a run that continues writes again: unfinished checkpoints and later metrics.

    Its metrics files then hold each step once, in complete lines.
    """
    for unfinished in (output_dir / CHECKPOINTS).glob("step_*.tmp"):
        shutil.rmtree(unfinished, ignore_errors=True)
    last = max(resumable_steps(output_dir), default=0)
    for file in (output_dir / METRICS).rglob("*.jsonl"):
        kept = "".join(line for line, values in recorded(file) if values["Step"] <= last)
        if kept != file.read_text(encoding="utf-8", errors="replace"):
            publish_text(file, kept)
    for folder in (output_dir / TENSORBOARD).glob("*/"):
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - only here, and slow

        # TensorBoard then ignores what earlier files hold from this step on.
        SummaryWriter(folder, purge_step=last + 1).close()  # type: ignore[no-untyped-call]


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


def check_continuation(
    output_dir: Path, config: Mapping[str, Any], usual: Mapping[str, Any]
) -> None:
    """Refuse, with RunError, to continue a run with another configuration.

    Before the first checkpoint anything may change. ``usual`` are the defaults, for keys that the
    version which began the run did not have.
    """
    file, steps = output_dir / CONFIG_FILE, resumable_steps(output_dir)
    if not file.is_file() or not steps:
        return
    now = dict(flatten(config))
    if (end := now.get("regime.num_steps")) is not None and int(str(end)) < steps[-1]:
        raise RunError(
            f"{output_dir} holds a run at step {steps[-1]}, but regime.num_steps is {end}; raise "
            "it, or evaluate the run"
        )
    then = {key: value for key, value in flatten(usual) if key in now}
    then |= dict(flatten(read_yaml(file)))
    changed = [
        f"  - {key} was {then.get(key)!r} and is now {now.get(key)!r}"
        for key in sorted(then.keys() | now.keys())
        if then.get(key) != now.get(key) and (key in MUST_STAY or not key.startswith(MAY_CHANGE))
    ]
    if changed:
        raise RunError(
            f"{output_dir} holds a run at step {steps[-1]} with another configuration:\n"
            + "\n".join(changed)
            + "\nStart the new run in another OUTDIR, or restore these values to continue."
        )


def _saved_ranks(output_dir: Path) -> tuple[Path, int]:
    """Return the checkpoint that a run continues from and the processes that saved it, 0: none."""
    step = max(resumable_steps(output_dir), default=0)
    folder = output_dir / CHECKPOINTS / f"step_{step}"
    return folder, len(list((folder / "trainer").glob("rank_*.pt")))


def check_processes(output_dir: Path, processes: int, num_batches: int) -> str | None:
    """Compare the number of processes, and of batches in a step, with the run's so far.

    ``num_batches`` is what each process accumulates. Returns a note if the number of processes
    changes, with a warning if a step then takes another number of batches; raises RunError if the
    model was sharded over another number of processes.
    """
    folder, saved = _saved_ranks(output_dir)
    if not saved:
        return None
    notes, shards = [], len(list(folder.glob("model/pp_00/tp_00/sdp_*.pt")))
    if saved != processes:
        if shards > 1:
            raise RunError(
                f"{output_dir} was saved by {saved} processes with the model sharded over {shards};"
                f" it cannot continue with {processes}. Continue with {saved}, or start a new run."
            )
        notes = [f"the run was saved by {saved} processes and continues with {processes}"]
    key, file = "trainer.grad_accumulation.num_batches", output_dir / CONFIG_FILE
    before = dict(flatten(read_yaml(file))).get(key) if file.is_file() else None
    then, now = saved * int(str(before or num_batches)), processes * num_batches
    if then != now:
        keep, rest = divmod(then, processes)
        advice = f"no {key} keeps it" if rest else f"{key}={keep} keeps it"
        notes.append(f"WARNING: a step took {then} batches and now takes {now}; {advice}")
    return ". ".join(notes) or None


def fit_to_processes(output_dir: Path, processes: int) -> None:
    """Let a run continue with more processes than it was saved with.

    fairseq2 saves and loads the state of the trainer and of the data reader once per process. The
    reader's position counts the batches of all processes, and only the random state of the trainer
    differs between them: new processes take the first one's.
    """
    folder, saved = _saved_ranks(output_dir)
    for rank in range(saved, processes if saved else 0):
        for kind, name in (("trainer", "rank"), ("data_reader", "dp")):
            first = folder / kind / f"{name}_00.pt"
            shutil.copyfile(first, folder / kind / f"{name}_{rank:02d}.pt")
