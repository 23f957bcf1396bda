"""The sections of evaluation: what is scored, and how logits become text."""

import re
from dataclasses import dataclass, field

from fairseq2.recipe import config as base
from fairseq2.utils.validation import ValidationResult

from danish_asr.base.errors import ConfigError, LanguageModelError
from danish_asr.decoding import GREEDY, find_decoder
from danish_asr.recipe.config.sections import with_broken


@dataclass(kw_only=True)
class DecoderSection:
    """How logits become text, in validation and in evaluation (docs/extending.md)."""

    name: str = GREEDY
    """``greedy``, or ``package.module:name`` of another decoder."""

    config: dict[str, object] = field(default_factory=dict)
    """Its keyword arguments."""

    def validate(self) -> ValidationResult:
        """Check that the decoder can be imported and takes its configuration."""
        try:
            find_decoder(self.name, self.config)
        except ConfigError as error:
            return with_broken(dict.fromkeys(error.faults, False), ValidationResult())
        except LanguageModelError as error:
            return with_broken({f"decoder.config.lm: {error}": False}, ValidationResult())
        return ValidationResult()


@dataclass(kw_only=True)
class AsrEvaluatorSection(base.EvaluatorSection):
    """What the evaluation recipe scores."""

    checkpoint: str | None = None
    """``best``, ``last`` or ``step_<n>`` of the run in OUTDIR, or ``none`` for ``model.name``
    itself. Null: ``none`` if a model is named and there is no training section, else ``best``."""

    split: str | None = None
    """The splits to score, separated by commas. Null: ``test`` with a training configuration,
    otherwise ``dataset.valid_split``."""

    where: str | None = None
    """Score the rows that fulfil this SQL condition, in the directory of ``label``. Null: all."""

    label: str | None = None
    """The directory of the results, beside those of greedy. Null: the decoder's name; needed for
    the second of two configurations of a decoder, and for a part of the rows."""

    keep_log_probs: bool = False
    """Keep the log-probabilities of the symbols, with the results of greedy: evaluations with other
    decoders then read them and do not run the model."""

    def validate(self) -> ValidationResult:
        """Check that the label names a directory."""
        label = self.label is None or re.fullmatch(r"\w[\w.+-]*", self.label)
        rules = {"`label` must be letters, digits, `_`, `-`, `+` and `.`": bool(label)}
        rules["`label` must name a directory for the rows of evaluator.where"] = bool(
            self.label or not self.where
        )
        return with_broken(rules, ValidationResult())
