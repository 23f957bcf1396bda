"""Finds the log-probabilities that an evaluation kept of the dev split, to tune a decoder on."""

from pathlib import Path
from typing import Any, Final, NamedTuple

from fairseq2.data.tokenizers import Tokenizer

from danish_asr.base.config_tree import read_yaml
from danish_asr.base.errors import LogProbsError
from danish_asr.base.schema import CARDS_DIR
from danish_asr.decoding.log_probs import LogProbsFile, keep_command
from danish_asr.recipe.config.sections import names_of_splits
from danish_asr.recipe.evaluate.kept import LOG_PROBS
from danish_asr.recipe.models.assets import open_tokenizer
from danish_asr.recipe.run.run_directory import CHECKPOINTS, CONFIG_FILE, best_step

_DEV_ONLY: Final = (
    "tune on dev only: scores on test would then describe the tuning, and the model knows train, "
    "so a language model seems of no use there"
)


class DevLogProbs(NamedTuple):
    """The kept log-probabilities of a split for tuning."""

    file: LogProbsFile
    run: Path
    model: str
    split: str
    tokenizer: Tokenizer


def find_dev_log_probs(where: Path) -> DevLogProbs:
    """Find them in a run, or in the directory of an evaluation.

    Raises:
        LogProbsError: There are none of dev, or several, or they are of another checkpoint.
    """
    where = where.expanduser()
    if where.name == LOG_PROBS:
        where = where.parent
    folder = where if (where / LOG_PROBS).is_file() else _in_run(where)
    file = LogProbsFile(folder / LOG_PROBS)
    split = str(file.about["evaluator"]["split"])
    if not _is_dev(split):
        raise LogProbsError(f"{folder}: is of the split '{split}'; {_DEV_ONLY}")
    run = folder.resolve().parents[2]
    model = str(file.about["model"]["name"])
    _check_checkpoint(folder, run, str(file.about["evaluator"]["checkpoint"]), model)
    return DevLogProbs(file, run, model, split, _tokenizer(folder, run, file.about))


def _in_run(run: Path) -> Path:
    every = [file.parent for file in sorted(run.glob(f"eval/*/*/{LOG_PROBS}"))]
    found = [each for each in every if _is_dev(each.name)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(map(str, found))
        raise LogProbsError(f"{run}: several evaluations kept log-probabilities; name one: {names}")
    if not (run / CONFIG_FILE).is_file():
        raise LogProbsError(
            f"{run}: no run and no results of an evaluation; expected OUTDIR, or "
            "OUTDIR/eval/<checkpoint>/<split>"
        )
    others = f" (only of {', '.join(each.name for each in every)}; {_DEV_ONLY})" if every else ""
    raise LogProbsError(
        f"{run}: no evaluation kept the log-probabilities of dev{others}; run: {keep_command(run)}"
    )


def _is_dev(split: str) -> bool:
    return not any(x.partition("_")[0] in {"test", "train"} for x in names_of_splits(split))


def _check_checkpoint(folder: Path, run: Path, checkpoint: str, model: str) -> None:
    """Refuse what was kept of another checkpoint than the one that ``best`` now is."""
    step = best_step(run) if checkpoint == "best" and (run / CHECKPOINTS).is_dir() else None
    if step is not None and model != f"checkpoint_step_{step}":
        raise LogProbsError(
            f"{folder}: the log-probabilities are of {model}, but the best checkpoint is now step "
            f"{step}; run: {keep_command(run)}"
        )


def _tokenizer(folder: Path, run: Path, about: Any) -> Tokenizer:
    # The run's own card has a copy of the tokenizer beside it, also where the run was moved.
    for card in sorted((run / CARDS_DIR).glob("*.yaml")):
        if "tokenizer_family" in read_yaml(card):
            return open_tokenizer(card.stem, [card.parent])
    section, config = about["tokenizer"], read_yaml(folder / CONFIG_FILE)
    extra = config.get("common", {}).get("assets", {}).get("extra_paths", [])
    return open_tokenizer(str(section["path"] or section["name"]), [Path(each) for each in extra])
