"""The tokenizer of a run that no card names: of a sliced head, or given as a file.

It is ``OUTDIR/checkpoints/tokenizer.model``, beside fairseq2's card of the run's checkpoints, which
refers to it. Whatever takes the run takes it, also where a configuration names another one.
"""

from dataclasses import replace
from pathlib import Path

from fairseq2.data.tokenizers import Tokenizer
from fairseq2.data.tokenizers.char import CHAR_TOKENIZER_FAMILY, load_char_tokenizer
from fairseq2.nn import Linear
from fairseq2.recipe.base import RecipeContext

from danish_asr.base.files import publish
from danish_asr.recipe.config.config import AsrConfig
from danish_asr.recipe.config.sections import FULL
from danish_asr.recipe.data.index import Index
from danish_asr.recipe.models.assets import Assets, configured_dataset
from danish_asr.recipe.models.head import keep_rows, sliced_tokenizer
from danish_asr.recipe.run.run_directory import (
    CHECKPOINTS,
    TOKENIZER,
    own_tokenizer,
    resumable_steps,
)
from danish_asr.recipe.train.console import log
from danish_asr.recipe.train.subsets import training_rows
from danish_asr.text.profiles import normalizer


def write_own_tokenizer(run: Path, config: AsrConfig) -> None:
    """Write the tokenizer of a run that begins, on the first rank and before the others need it.

    A run that continues keeps the one that it has: its reader refuses other training data.
    """
    file, section = run / CHECKPOINTS / TOKENIZER, config.tokenizer
    if file.is_file() and resumable_steps(run):
        return
    if config.model.head != FULL:
        data = config.dataset
        index = training_rows(configured_dataset(config), data)
        full = Assets(config).tokenizer_file(section).read_bytes()
        content = sliced_tokenizer(full, _words(index, data.text_profile))
    elif section.path is not None and section.family == CHAR_TOKENIZER_FAMILY:
        content = section.path.read_bytes()
    else:
        file.unlink(missing_ok=True)  # of a start that was refused later
        return
    with publish(file) as stream:
        stream.write(content)


def _words(index: Index, profile: str) -> set[str]:
    """The different words of the normalised texts."""
    normalize, words = normalizer(profile), set[str]()
    for chunk in index.table.column("text").chunks:
        for text in chunk.to_pylist():
            words.update(normalize(text).split(" "))
    return words


def run_tokenizer(context: RecipeContext) -> Tokenizer:
    """The run's own tokenizer, or the one that the configuration names."""
    file = own_tokenizer(context.output_dir)
    return load_char_tokenizer(file, None) if file else context.default_tokenizer


def slice_head(head: Linear, run: Path, config: AsrConfig) -> None:
    """Reduce a model's head to the run's own tokenizer; before DDP or FSDP wraps it."""
    before, own = head.output_dim, own_tokenizer(run)
    assert own is not None
    keep_rows(head, Assets(config).tokenizer_file(config.tokenizer), own)
    log.info("The head keeps {:,} of {:,} symbols; its tokenizer: {}", head.output_dim, before, own)


def with_own_tokenizer(config: AsrConfig, checkpoints: Path | None) -> AsrConfig:
    """Return a configuration with the own tokenizer of the run of these checkpoints, if any."""
    file = own_tokenizer(checkpoints.parent) if checkpoints else None
    if file is None:
        return config
    section = type(config.tokenizer)(path=file, family=CHAR_TOKENIZER_FAMILY)
    return replace(config, tokenizer=section)
