"""The sections of trainer and regime: keys, defaults and rules."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from fairseq2.recipe import config as base
from fairseq2.utils.validation import ValidationResult

from danish_asr.recipe.config.sections import positive, profile_rule, with_broken
from danish_asr.recipe.run.run_directory import SCORE_TITLES

HEAD: Final = "head"
ALL_LAYERS: Final = "all"
"""What learns in a stage of ``trainer.unfreeze``, beside ``top <n>``."""


def top_layers(learning: str) -> int | None:
    """The number of encoder layers that learn; None: all, and what is below them.

    Raises:
        ValueError: It is not ``head``, ``top <n>`` or ``all``.
    """
    if learning in {HEAD, ALL_LAYERS}:
        return 0 if learning == HEAD else None
    number = learning.removeprefix("top ")
    if number == learning or not number.isdecimal() or int(number) < 1:
        raise ValueError(learning)
    return int(number)


def in_steps(first: int | str, epoch: float = 1.0) -> float:
    """After how many steps a stage begins: a number of them, or of epochs (``2 epochs``).

    Raises:
        ValueError: It is neither.
    """
    if isinstance(first, int):
        return first
    number = re.fullmatch(r"(\d+(?:\.\d+)?) epochs?", first)
    if not number:
        raise ValueError(first)
    return float(number[1]) * epoch


@dataclass(kw_only=True)
class StageConfig:
    """The rows and the learning rate of a stage; a key that is left out is not as it was before."""

    where: str | None = None
    """Train on the rows of ``dataset.train_split`` that fulfil this SQL condition. Null: all."""

    subset: int | None = None
    """Train on about this many of them, as ``dataset.train_subset``. Null: all."""

    lr: float | None = None
    """The learning rate in place of ``optimizer.config.lr``, to which those of groups are in
    proportion. Null: that one."""


@dataclass(kw_only=True)
class AsrTrainerSection(base.TrainerSection):
    """The trainer, and which parameters are frozen for how long."""

    freeze_encoder_for_n_steps: int = 0
    """The encoder is frozen for the first n steps, while the new head settles."""

    unfreeze: Mapping[int | str, str] = field(default_factory=dict)
    """What learns after so many steps, in stages, instead of ``freeze_encoder_for_n_steps``:
    ``{0: head, 1000: top 8, 3000: all}``; or after so many passes over the training data: ``{0:
    head, 1 epoch: top 8, 2.5 epochs: all}``."""

    stages: Mapping[int, StageConfig] = field(default_factory=dict)
    """Rows and learning rate after so many steps: ``{5000: {subset: 500_000}, 9000: {lr: 1e-5}}``.
    The first stage has ``dataset.train_where`` and ``dataset.train_subset``. A stage begins a new
    epoch; the schedule is one for all stages."""

    effective_audio_minutes: float | None = None
    """Minutes of audio in a step, padding included, on any number of processes: sets
    ``grad_accumulation.num_batches``. Null: as that says."""

    freeze_encoder_layers: int = 0
    """The lowest n encoder layers, and everything below them, stay frozen for the whole run: they
    need neither gradients nor optimizer states."""

    freeze_feature_extractor: bool | None = None
    """Whether the convolutions below the encoder are frozen. Null: if they are pretrained; a model
    from scratch that cannot train them learns little."""

    max_wall_minutes: float | None = None
    """Save and exit with status 75 after this many minutes; the same command continues."""

    def validate(self) -> ValidationResult:
        """Check the numbers and the stages of this section."""
        numbers = ("max_grad_norm", "max_wall_minutes", "effective_audio_minutes")
        rules = positive(self, *numbers)
        rules["`unfreeze` must be empty with freeze_encoder_for_n_steps"] = not (
            self.unfreeze and self.freeze_encoder_for_n_steps
        )
        rules[
            "`unfreeze` must be steps from 0 on, or 0 and epochs (1.5 epochs), each with head, "
            "top <n> or all, in this order"
        ] = _are_stages(self.unfreeze)
        rules["`stages` must be steps above 0, each with subset and lr above 0, or null"] = all(
            first > 0 and all(positive(stage, "subset", "lr").values())
            for first, stage in self.stages.items()
        )
        return with_broken(rules, super().validate())


def _are_stages(unfreeze: Mapping[int | str, str]) -> bool:
    try:
        sizes = [top_layers(unfreeze[first]) for first in sorted(unfreeze, key=in_steps)]
    except ValueError:
        return False
    numbers = [float("inf") if size is None else size for size in sizes]
    ascends = numbers == sorted(set(numbers))
    kinds = {type(first) for first in unfreeze if first != 0}
    return not unfreeze or (min(map(in_steps, unfreeze)) == 0 and ascends and len(kinds) < 2)


@dataclass(kw_only=True)
class AsrRegimeSection(base.RegimeSection):
    """How long to train, and when to validate, to save and to report."""

    validate_every_n_data_epochs: float | None = None  # type: ignore[assignment]
    """Validate after so many passes over the training data. A part of one, such as 0.5, takes the
    place of ``validate_every_n_steps`` and ``checkpoint_every_n_steps``: so many steps, rounded to
    a multiple of ``publish_metrics_every_n_steps``."""

    score_metric: str = "wer"
    """What the best checkpoint is best by: wer, cer, loss or worst_group_wer."""

    score_profile: str = "coral"
    """The text normalisation under which validation computes WER and CER."""

    early_stopping_patience: int | None = None
    """Stop after this many validations in a row without a new best score. Null: never."""

    stop_at_step: int | None = None
    """Save and exit after this step, with status 0; a higher value or null continues. The schedule
    stays that of ``num_steps``. Null: never."""

    def validate(self) -> ValidationResult:
        """Check this section's own keys and fairseq2's rules."""
        intervals = positive(self, *(name for name in vars(self) if "_every_n_" in name))
        # fairseq2 divides by the intervals, and knows no parts of epochs.
        whole = replace(self, validate_every_n_data_epochs=None) if self.part_of_epoch else self
        result = ValidationResult()
        if all(intervals.values()):
            result = base.RegimeSection.validate(whole)
        rules = intervals | positive(self, "early_stopping_patience", "stop_at_step")
        rules |= profile_rule(self, "score_profile")
        rules["`validate_every_n_data_epochs` must be a whole number, or below 1"] = (
            self.part_of_epoch or 0
        ) < 1
        rules[
            "`keep_checkpoint_every_n_steps` must be null with a part of an epoch in "
            "`validate_every_n_data_epochs`, which decides which steps are saved"
        ] = not self.part_of_epoch or self.keep_checkpoint_every_n_steps is None
        metrics = ", ".join(SCORE_TITLES)
        rules[f"`score_metric` must be one of {metrics}"] = self.score_metric in SCORE_TITLES
        return with_broken(rules, result)

    @property
    def part_of_epoch(self) -> float | None:
        """``validate_every_n_data_epochs`` if it is no whole number."""
        every = self.validate_every_n_data_epochs
        return every if every is not None and every != int(every) else None

    def set_steps(self, epoch: int) -> None:
        """Turn a part of an epoch, which has so many steps, into steps."""
        if part := self.part_of_epoch:
            unit = self.publish_metrics_every_n_steps or 1
            steps = max(round(part * epoch / unit), 1) * unit
            self.validate_every_n_data_epochs = None
            self.validate_every_n_steps = self.checkpoint_every_n_steps = steps
