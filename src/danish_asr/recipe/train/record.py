"""What a run has on the disk: room for its checkpoints, where it ran, and a card of its best model.

fairseq2's own card for a run's checkpoints has neither a tokenizer nor a usable name.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError
from urllib.request import urlopen

import torch
from fairseq2.data.tokenizers.char import CHAR_TOKENIZER_FAMILY
from torch.nn import Module

from danish_asr import __version__
from danish_asr.base.cluster import rank_info
from danish_asr.base.config_tree import Tree, merge, read_yaml
from danish_asr.base.errors import MissingExtraError, RunError
from danish_asr.base.files import publish_json, publish_text, to_yaml
from danish_asr.base.next_step import next_step
from danish_asr.base.schema import CARDS_DIR
from danish_asr.base.stops import ends_in_time
from danish_asr.recipe.config.schema import AsrConfig, WandbConfig
from danish_asr.recipe.config.training_sections import OPTIMIZERS
from danish_asr.recipe.models.cards import SPEECH, speech_of
from danish_asr.recipe.run import run_directory
from danish_asr.recipe.run.run_directory import CHECKPOINTS, MODEL_CARD, TOKENIZER
from danish_asr.recipe.train.console import log

_ANSWER_SECONDS: Final = 5


class CheckpointSpace(NamedTuple):
    """Bytes of one checkpoint, of the model in it, and of the number still to be written."""

    one: int
    model: int
    number: int
    total: int


def checkpoint_space(output_dir: Path | None, module: Module, config: AsrConfig) -> CheckpointSpace:
    """Return what the checkpoints that a run keeps, and the one that is being written, take.

    ``module`` may be on the meta device. ``output_dir``: None for a new run.
    """
    regime = config.regime
    model = 4 * sum(p.numel() for p in module.parameters())
    state_bytes = OPTIMIZERS[config.optimizer.name].state_bytes
    state = sum(state_bytes(p.shape) for p in module.parameters() if p.requires_grad)
    beside_newest = regime.keep_best_n_checkpoints or 0
    if regime.num_steps and regime.keep_checkpoint_every_n_steps:
        beside_newest += regime.num_steps // regime.keep_checkpoint_every_n_steps
    # The newest one is never deleted; without any of the three keys none is.
    kept = beside_newest + (regime.keep_last_n_checkpoints or int(beside_newest > 0))
    if regime.num_steps and regime.checkpoint_every_n_steps:
        made = regime.num_steps // regime.checkpoint_every_n_steps
        kept = min(kept, made) if kept else made
    written = len(run_directory.checkpoint_steps(output_dir)) if output_dir else 0
    count = max(kept + 1 - written, 1)
    complete = {"all_but_last": min(count, 2), "all": 0, True: 0}.get(regime.save_model_only, count)
    total = count * model + complete * state
    return CheckpointSpace(model + state, model, count, total)


def check_free_space(output_dir: Path, module: Module, config: AsrConfig) -> None:
    """Refuse, with RunError, a run whose checkpoints do not all fit on the disk."""
    free, gib = shutil.disk_usage(output_dir).free, 2**30
    space = checkpoint_space(output_dir, module, config)
    if space.total > free:
        raise RunError(
            f"{output_dir} has {free / gib:.3f} GiB free, but {space.number} more checkpoints of "
            f"{space.one / gib:.3f} GiB need {space.total / gib:.3f} GiB; free some, or keep fewer "
            "(regime.keep_last_n_checkpoints)"
        )


def recorder_faults(section: WandbConfig) -> list[str]:
    """Return why Weights & Biases, if enabled, cannot be used here.

    Its library would try to reach its server for ever, before the first step.
    """
    if not section.enabled:
        return []
    key, spec = "common.metric_recorders.wandb.enabled", find_spec("wandb")
    # A directory ``wandb``, as its runs leave one, is a package without an origin.
    if spec is None or not spec.origin:
        return [f"{key}: {MissingExtraError('W&B', 'wandb')}"]
    server = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")
    is_online = os.environ.get("WANDB_MODE", "online") in {"online", "shared", "run"}
    if is_online and rank_info().rank == 0 and not _answers(server):
        fix = "WANDB_MODE=offline records it in OUTDIR/wandb, and `wandb sync` uploads it later"
        return [f"{key}: {server} does not answer within {_ANSWER_SECONDS} s; {fix}"]
    return []


def _answers(url: str) -> bool:
    """Whether a server answers in time, with whatever status; a look-up of its name may hang."""

    def ask() -> None:
        try:
            urlopen(url, timeout=_ANSWER_SECONDS).close()  # noqa: S310
        except HTTPError as error:
            error.close()

    try:
        return ends_in_time(ask, _ANSWER_SECONDS)
    except OSError:
        return False


def write_environment(output_dir: Path) -> None:
    """Add this start of the run to ``OUTDIR/environment.json``."""
    file = output_dir / run_directory.ENVIRONMENT
    starts = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
    start = {
        "danish_asr": __version__,
        "command": sys.argv,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {m["Name"]: m["Version"] for m in (d.metadata for d in distributions())},
        "cuda": torch.version.cuda,
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "git": _git_state(),
    }
    publish_json(file, [*starts, start])


def _git_state() -> str | None:
    """The commit of a checkout, with ``-dirty`` if files were changed; None: an installed wheel."""
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.check_output(git, stderr=subprocess.DEVNULL, text=True).strip()  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return None


def complete_model_card(
    output_dir: Path, config: AsrConfig, model_config: Mapping[str, Any]
) -> None:
    """Add to fairseq2's card of the run's checkpoints: the tokenizer, ``model_config``, speech."""
    file = output_dir / CHECKPOINTS / MODEL_CARD
    added = {
        "model_config": model_config,
        "tokenizer_family": CHAR_TOKENIZER_FAMILY,
        "tokenizer": TOKENIZER,
        SPEECH: speech_of(config),
    }
    publish_text(file, to_yaml(merge(read_yaml(file), added)))


def write_model_card(output_dir: Path) -> None:
    """Write ``OUTDIR/cards/<name of OUTDIR>.yaml`` for the best checkpoint, if there is one.

    The run's tokenizer is copied beside the card.
    """
    run, step = output_dir.resolve(), run_directory.best_step(output_dir)
    if step is None:
        return
    folder = run / CARDS_DIR
    folder.mkdir(exist_ok=True)
    trained = read_yaml(run / CHECKPOINTS / MODEL_CARD)
    copied = ("model_family", "model_config", "tokenizer_family", "tokenizer", SPEECH)
    card: Tree = {"name": run.name, **{key: trained[key] for key in copied}}
    card["checkpoint"] = f"../{CHECKPOINTS}/step_{step}/model"  # also of a run that is moved
    shutil.copyfile(run / CHECKPOINTS / TOKENIZER, folder / TOKENIZER)
    publish_text(folder / f"{run.name}.yaml", to_yaml(card))
    log.info("Model '{}' (best: step {}) is ready; its card is in {}.", run.name, step, folder)
    log.info("{}", next_step("evaluate", output_dir, why="score it on the test split"))
