"""What a run has on the disk: room for checkpoints, where it ran, tokenizer, cards.

The tokenizer, ``OUTDIR/checkpoints/tokenizer.model``, is a copy, or that of a head that
``model.head: danish`` has reduced to the symbols of the training text. Whatever takes the run takes
it. fairseq2's own card for a run's checkpoints has neither a tokenizer nor a usable name.
"""

import json
import platform
import shutil
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Final, NamedTuple

import sentencepiece
import torch
from fairseq2.data.tokenizers.char import CHAR_TOKENIZER_FAMILY
from torch.nn import Module

from danish_asr import __version__
from danish_asr.base.config_tree import Tree, merge, read_yaml, value_of
from danish_asr.base.errors import RunError
from danish_asr.base.files import publish, publish_json, publish_text, to_yaml
from danish_asr.base.next_step import next_step
from danish_asr.base.schema import CARDS_DIR
from danish_asr.recipe.config.schema import FULL, AsrConfig
from danish_asr.recipe.config.training_sections import OPTIMIZERS
from danish_asr.recipe.data.index import TARGET
from danish_asr.recipe.models.cards import SPEECH, speech_of
from danish_asr.recipe.run.run import (
    CHECKPOINTS,
    DATA_EPOCHS,
    ENVIRONMENT,
    MODEL_CARD,
    TENSORBOARD,
    TOKENIZER,
    Run,
    score_title,
)
from danish_asr.recipe.train.console import log
from danish_asr.recipe.train.preflight import Resolved

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzæøå"
_TOGETHER: Final = (_LETTERS, _LETTERS.upper(), "0123456789")
"""If one of them is used, all are kept: other texts may have what a training text lacks."""


class CheckpointSpace(NamedTuple):
    """Bytes of a checkpoint, of the model in it, and of all that a run has at the same time."""

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
    kept_beside_newest = regime.keep_best_n_checkpoints or 0
    if regime.num_steps and regime.keep_checkpoint_every_n_steps:
        kept_beside_newest += regime.num_steps // regime.keep_checkpoint_every_n_steps
    # The newest one is never deleted; without any of the three keys none is.
    kept = kept_beside_newest + (regime.keep_last_n_checkpoints or int(kept_beside_newest > 0))
    if regime.num_steps and regime.checkpoint_every_n_steps:
        saved = regime.num_steps // regime.checkpoint_every_n_steps
        kept = min(kept, saved) if kept else saved
    already_here = len(Run(output_dir).steps) if output_dir else 0
    more = max(kept + 1 - already_here, 1)  # one is written before another is deleted
    with_state = more
    if regime.save_model_only == "all_but_last":
        with_state = min(more, 2)
    elif regime.save_model_only:
        with_state = 0
    return CheckpointSpace(model + state, model, more, more * model + with_state * state)


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


def write_environment(output_dir: Path) -> None:
    """Add this start of the run to ``OUTDIR/environment.json``."""
    file = output_dir / ENVIRONMENT
    starts: list[Any] = []
    with suppress(FileNotFoundError, ValueError):  # a full disk may have left it empty
        starts = json.loads(file.read_text(encoding="utf-8"))
    start = {
        "danish_asr": __version__,
        "command": sys.argv,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": _packages(),
        "cuda": torch.version.cuda,
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
    }
    publish_json(file, [*starts, start])


@cache
def _packages() -> dict[str, str]:
    """The version of each installed package."""
    return {m["Name"]: m["Version"] for m in (d.metadata for d in distributions())}


def purge_curves(run: Run) -> None:
    """Let TensorBoard forget what a run that continues records again."""
    from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - slow

    for folder in (run.folder / TENSORBOARD).glob("*/"):
        SummaryWriter(folder, purge_step=run.last + 1).close()  # type: ignore[no-untyped-call]


def write_own_tokenizer(run: Run, resolved: Resolved) -> None:
    """Write the tokenizer of a run that begins."""
    content = resolved.tokenizer_file.read_bytes()
    if resolved.config.model.head != FULL:
        indices = resolved.rows.train.values()
        texts = (text for index in indices for text in index.rows[TARGET])
        content = sliced_tokenizer(content, texts)
    with publish(run.checkpoints / TOKENIZER) as stream:
        stream.write(content)


def sliced_tokenizer(tokenizer: bytes, targets: Iterable[str]) -> bytes:
    """Return a SentencePiece model with the pieces that the targets need, in the same order.

    Control symbols, the unknown symbol and index 0, the CTC blank, stay; so do all letters or
    digits if one of them is used.
    """
    from sentencepiece import sentencepiece_model_pb2 as proto  # noqa: PLC0415 - slow

    encoder = sentencepiece.SentencePieceProcessor(model_proto=tokenizer)
    words = {word for text in targets for word in text.split(" ")}
    characters = set().union(*words)
    groups = [group for group in _TOGETHER if not characters.isdisjoint(group)]
    texts = [*words, " ".join(["", *"".join(groups), ""])]  # also the space
    used = {0}.union(*encoder.encode(texts))
    model: Any = proto.ModelProto.FromString(tokenizer)  # type: ignore[attr-defined]
    kept = [
        piece
        for number, piece in enumerate(model.pieces)
        if number in used or encoder.is_control(number) or encoder.is_unknown(number)
    ]
    del model.pieces[:]
    model.pieces.extend(kept)
    model.trainer_spec.vocab_size = len(kept)
    model.DiscardUnknownFields()  # self-tests, which may use other pieces
    return bytes(model.SerializeToString())


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


def write_model_card(run: Run, stopped_early: str | None = None) -> None:
    """Write the card of a run's best checkpoint, if there is one, and say so."""
    run = Run(run.folder.resolve())
    name = run.folder.name
    if run.best is not None:
        folder = model_card(run, name, stopped_early)
        best, title = f"step {run.best}", score_title(value_of(run.config, "regime.score_metric"))
        if (score := run.scores.get(run.best)) is not None:
            best += f", {title} {-score:.2f}"
        log.info("Model '{}' (best: {}) is ready; its card is in {}.", name, best, folder)
        log.info("{}", next_step("evaluate", run.folder, why="score it"))


def model_card(run: Run, name: str, stopped_early: str | None = None) -> Path:
    """Write ``OUTDIR/cards/<name>.yaml`` for the best checkpoint; return its directory.

    ``stopped_early``: why training has ended before its last step; the card has it too.
    """
    folder = run.folder / CARDS_DIR
    folder.mkdir(exist_ok=True)
    trained = read_yaml(run.checkpoints / MODEL_CARD)
    copied = ("model_family", "model_config", "tokenizer_family", "tokenizer", SPEECH)
    card: Tree = {"name": name, **{key: trained[key] for key in copied}}
    card["checkpoint"] = f"../{CHECKPOINTS}/step_{run.best}/model"  # also of a run that is moved
    steps, epochs = (
        value_of(run.config, f"regime.{key}") for key in ("num_steps", "num_data_epochs")
    )
    if stopped_early:
        card["stopped_early"] = stopped_early
    elif epochs and not (steps and run.last >= steps):
        card[DATA_EPOCHS] = epochs
    shutil.copyfile(run.checkpoints / TOKENIZER, folder / TOKENIZER)
    publish_text(folder / f"{name}.yaml", to_yaml(card))
    return folder
