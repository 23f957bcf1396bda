"""The tokenizer of a run that no card names: of a sliced head, or given as a file.

``model.head: danish`` keeps the rows of a trained head whose symbols the training text uses. A row
gives the logit of one symbol, so the kept rows give the same logits, up to rounding; the loss
differs by the normalisation over fewer symbols.

It is ``OUTDIR/checkpoints/tokenizer.model``, beside fairseq2's card of the run's checkpoints, which
refers to it. Whatever takes the run takes it, also where a configuration names another one.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import sentencepiece
from fairseq2.data.tokenizers import Tokenizer
from fairseq2.data.tokenizers.char import CHAR_TOKENIZER_FAMILY, load_char_tokenizer
from fairseq2.nn import Linear
from fairseq2.recipe.base import RecipeContext
from torch.nn import Parameter

from danish_asr.base.files import publish
from danish_asr.recipe.config.schema import FULL, AsrConfig
from danish_asr.recipe.data.index import Index
from danish_asr.recipe.models.assets import Assets, configured_dataset, training_rows
from danish_asr.recipe.run.run_directory import (
    CHECKPOINTS,
    TOKENIZER,
    own_tokenizer,
    resumable_steps,
)
from danish_asr.recipe.train.console import log
from danish_asr.text.profiles import normalizer

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzæøå"
_TOGETHER: Final = (_LETTERS, _LETTERS.upper(), "0123456789")
"""If one of them is used, all are kept: other texts may have what a training text lacks."""


def write_own_tokenizer(run: Path, config: AsrConfig) -> None:
    """Write the tokenizer of a run that begins, on the first rank and before the others need it.

    A run that continues keeps the one that it has: its reader refuses other training data.
    """
    file, section = run / CHECKPOINTS / TOKENIZER, config.tokenizer
    if file.is_file() and resumable_steps(run):
        return
    if config.model.head != FULL:
        dataset, words = configured_dataset(config), set[str]()
        for stage in config.stages().values():
            words |= _words(training_rows(dataset, stage), stage.dataset.text_profile)
        full = Assets(config).tokenizer_file(section).read_bytes()
        content = sliced_tokenizer(full, words)
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
    for text in index.rows["text"]:
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
    full = _pieces(Assets(config).tokenizer_file(config.tokenizer))
    kept = [full.index(piece) for piece in _pieces(own)]
    for name, parameter in list(head.named_parameters()):
        setattr(head, name, Parameter(parameter.detach()[kept]))
    head.output_dim = len(kept)
    log.info("The head keeps {:,} of {:,} symbols; its tokenizer: {}", head.output_dim, before, own)


def sliced_tokenizer(tokenizer: bytes, words: Iterable[str]) -> bytes:
    """Return a SentencePiece model with the pieces that the words need, in the same order.

    Control symbols, the unknown symbol and index 0, the CTC blank, stay; so do whole groups of
    letters and digits of which one is used.
    """
    from sentencepiece import sentencepiece_model_pb2 as proto  # noqa: PLC0415 - slow

    encoder = sentencepiece.SentencePieceProcessor(model_proto=tokenizer)
    texts = list(words)
    characters = set().union(*texts)
    groups = [group for group in _TOGETHER if not characters.isdisjoint(group)]
    texts.append(" ".join(["", *"".join(groups), ""]))  # also the space
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


def _pieces(file: Path) -> list[str]:
    model = sentencepiece.SentencePieceProcessor(model_file=str(file))
    return [model.id_to_piece(number) for number in range(model.get_piece_size())]
