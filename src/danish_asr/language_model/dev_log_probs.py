"""Finds the log-probabilities that an evaluation kept of the dev split, to tune a decoder on."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from fairseq2.data.tokenizers import Tokenizer

from danish_asr.config_tree import read_yaml
from danish_asr.configuration.sections import names_of_splits
from danish_asr.decoding.log_probs import LogProbsFile
from danish_asr.errors import LogProbsError
from danish_asr.evaluation.kept import LOG_PROBS
from danish_asr.models.assets import open_tokenizer
from danish_asr.runs.run_directory import CHECKPOINTS, CONFIG_FILE, best_step
from danish_asr.schema import CARDS_DIR


class DevLogProbs(NamedTuple):
    """The kept log-probabilities of a split for tuning."""

    file: LogProbsFile
    run: Path
    model: str
    split: str
    tokenizer: Tokenizer


def find_dev_log_probs(where: Path) -> DevLogProbs:
    """Find them in a run, which has one split with them besides test, or an evaluation's directory.

    Raises:
        LogProbsError: There are none, or several, or they are of test or of another checkpoint.
    """
    where = where.expanduser()
    if where.name == LOG_PROBS:
        where = where.parent
    folder = where if (where / LOG_PROBS).is_file() else _in_run(where)
    file = LogProbsFile(folder / LOG_PROBS)
    split = str(file.about["evaluator"]["split"])
    for name in names_of_splits(split):
        if name.partition("_")[0] in {"test", "train"}:
            raise LogProbsError(_refusal(folder, name))
    run = folder.resolve().parents[2]
    model = str(file.about["model"]["name"])
    _check_checkpoint(folder, run, str(file.about["evaluator"]["checkpoint"]), model)
    return DevLogProbs(file, run, model, split, _tokenizer(folder, run, file.about))


def _in_run(run: Path) -> Path:
    every = [file.parent for file in sorted(run.glob(f"eval/*/*/{LOG_PROBS}"))]
    found = [each for each in every if not each.name.startswith("test")]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(map(str, found))
        raise LogProbsError(f"{run}: several evaluations kept log-probabilities; name one: {names}")
    if every:
        raise LogProbsError(_refusal(every[0], every[0].name) + _how(run))
    if not (run / CONFIG_FILE).is_file():
        raise LogProbsError(
            f"{run}: no run and no results of an evaluation; expected OUTDIR, or "
            "OUTDIR/eval/<checkpoint>/<split>"
        )
    raise LogProbsError(f"{run}: no evaluation kept its log-probabilities." + _how(run))


def _how(run: Path) -> str:
    return (
        "\nKeep those of dev: python -m workflows.recipes.wav2vec2.asr.eval.recipe "
        f"{run} --config-file {run / CONFIG_FILE} --config evaluator.split=dev "
        "evaluator.keep_log_probs=true"
    )


def _refusal(folder: Path, split: str) -> str:
    why = "scores on test would then describe the tuning, and no longer unseen speech"
    if split.startswith("train"):
        why = "the model knows these utterances, so a language model seems of no use"
    return f"{folder}: is of the split '{split}'; tune on dev only: {why}."


def _check_checkpoint(folder: Path, run: Path, checkpoint: str, model: str) -> None:
    """Refuse what was kept of another checkpoint than the one that ``best`` now is."""
    step = best_step(run) if checkpoint == "best" and (run / CHECKPOINTS).is_dir() else None
    if step is not None and model != f"checkpoint_step_{step}":
        raise LogProbsError(
            f"{folder}: the log-probabilities are of {model}, but the best checkpoint is now step "
            f"{step}; evaluate it on dev again with --config evaluator.keep_log_probs=true"
        )


def _tokenizer(folder: Path, run: Path, about: Any) -> Tokenizer:
    # The run's own card has a copy of the tokenizer beside it, also where the run was moved.
    for card in sorted((run / CARDS_DIR).glob("*.yaml")):
        if "tokenizer_family" in read_yaml(card):
            return open_tokenizer(card.stem, [card.parent])
    section, config = about["tokenizer"], read_yaml(folder / CONFIG_FILE)
    extra = config.get("common", {}).get("assets", {}).get("extra_paths", [])
    return open_tokenizer(str(section["path"] or section["name"]), [Path(each) for each in extra])


def rows_of(file: LogProbsFile, number: int) -> list[dict[str, Any]]:
    """Return the predictions of a record batch, as JSON has them."""
    return [json.loads(row) for row in file.rows(number)]
