"""Finds the log-probabilities that an evaluation kept of the dev split, to tune a decoder on."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fairseq2.data.tokenizers import Tokenizer

from danish_asr.base.config_tree import read_yaml
from danish_asr.base.errors import LogProbsError
from danish_asr.base.schema import CARDS_DIR
from danish_asr.decoding.log_probs import LogProbsFile, keep_command
from danish_asr.decoding.ngram_tuning import DevLogProbs
from danish_asr.recipe.config.sections import names_of_splits
from danish_asr.recipe.evaluate.kept import LOG_PROBS
from danish_asr.recipe.models.assets import open_tokenizer
from danish_asr.recipe.run.run_directory import CHECKPOINTS, CONFIG_FILE, best_step

_DEV_ONLY: Final = (
    "tune on dev only: scores on test would then describe the tuning, and the model knows train, "
    "so a language model seems of no use there"
)


def find_dev_log_probs(directory: Path) -> DevLogProbs:
    """Find them in a run, or in the directory of an evaluation.

    Raises:
        LogProbsError: There are none of dev, or several, or they are of another checkpoint.
    """
    directory = directory.expanduser()
    kept_here = (directory / LOG_PROBS).is_file()
    evaluation = directory if kept_here else _evaluation_of_run(directory)
    file = LogProbsFile(evaluation / LOG_PROBS)
    split = str(file.about["evaluator"]["split"])
    if not _is_dev(split):
        raise LogProbsError(f"{evaluation}: is of the split '{split}'; {_DEV_ONLY}")
    run = evaluation.resolve().parents[2]
    model = str(file.about["model"]["name"])
    if file.about["evaluator"]["checkpoint"] == "best" and (run / CHECKPOINTS).is_dir():
        step = best_step(run)
        if step is not None and model != f"checkpoint_step_{step}":
            raise LogProbsError(
                f"{evaluation}: the log-probabilities are of {model}, but the best checkpoint is "
                f"now step {step}; run: {keep_command(run)}"
            )
    return DevLogProbs(file, run, model, split, _tokenizer(evaluation, run, file.about))


def _evaluation_of_run(run: Path) -> Path:
    """The only evaluation of a run that kept the log-probabilities of dev."""
    evaluations = [file.parent for file in sorted(run.glob(f"eval/*/*/{LOG_PROBS}"))]
    of_dev = [folder for folder in evaluations if _is_dev(folder.name)]
    if len(of_dev) == 1:
        return of_dev[0]
    if of_dev:
        names = ", ".join(map(str, of_dev))
        raise LogProbsError(f"{run}: several evaluations kept log-probabilities; name one: {names}")
    if not (run / CONFIG_FILE).is_file():
        raise LogProbsError(
            f"{run}: no run and no results of an evaluation; expected OUTDIR, or "
            "OUTDIR/eval/<checkpoint>/<split>"
        )
    others = ", ".join(folder.name for folder in evaluations)
    hint = f" (only of {others}; {_DEV_ONLY})" if others else ""
    raise LogProbsError(
        f"{run}: no evaluation kept the log-probabilities of dev{hint}; run: {keep_command(run)}"
    )


def _is_dev(split: str) -> bool:
    beginnings = {name.partition("_")[0] for name in names_of_splits(split)}
    return beginnings.isdisjoint({"test", "train"})


def _tokenizer(evaluation: Path, run: Path, about: Mapping[str, Any]) -> Tokenizer:
    # The run's own card has a copy of the tokenizer beside it, also where the run was moved.
    for card in sorted((run / CARDS_DIR).glob("*.yaml")):
        if "tokenizer_family" in read_yaml(card):
            return open_tokenizer(card.stem, [card.parent])
    section, config = about["tokenizer"], read_yaml(evaluation / CONFIG_FILE)
    folders = config.get("common", {}).get("assets", {}).get("extra_paths", [])
    return open_tokenizer(str(section["path"] or section["name"]), [Path(path) for path in folders])
