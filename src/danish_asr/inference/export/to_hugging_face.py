"""A directory that ``transformers`` loads with ``AutoModelForCTC`` and ``AutoProcessor``."""

import shutil
from pathlib import Path
from typing import Any, Final

import torch
from fairseq2.data.tokenizers import Tokenizer

from danish_asr.base.errors import RunError
from danish_asr.base.files import publish_json, publish_text
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.decoding.beam import ALPHA, BETA, symbols
from danish_asr.decoding.ngram import find_language_model
from danish_asr.inference.model import Model
from danish_asr.recipe.models.hugging_face import (
    export_faults,
    to_hugging_face,
    to_hugging_face_config,
)

BLANK: Final = "<pad>"
"""In transformers, the padding symbol is CTC's blank."""

UNKNOWN: Final = "⁇"
"""What SentencePiece writes for the unknown symbol."""

_CONTROL: Final = (BLANK, "<s>", "</s>")

SILENT: Final = 2
"""The last of them: symbols up to it write nothing."""

TOKENS: Final = "tokens.txt"


class Vocabulary:
    """What each symbol adds to a text: nothing (control symbols), a space or characters.

    Raises:
        RunError: The tokenizer's model has another size than the head of the network.
    """

    def __init__(self, tokenizer: Tokenizer, size: int) -> None:
        info = tokenizer.vocab_info
        if info.size != size:
            raise RunError(f"the tokenizer has {info.size} symbols, but the model has {size}")
        self.texts = [text or "" for text in symbols(tokenizer)]
        if info.unk_idx is not None:
            self.texts[info.unk_idx] = UNKNOWN
        self.delimiter = "|" if "|" not in self.texts else "▁"

    def names(self, space: str) -> list[str]:
        """Return a unique name for each symbol, ``space`` for the space."""
        names: dict[str, None] = {}
        for number, text in enumerate(self.texts):
            name = space if text == " " else text
            if not name:
                name = _CONTROL[number] if number < len(_CONTROL) else f"<{number}>"
            names[f"<{number}>" if name in names else name] = None
        return list(names)

    def write_tokens(self, folder: Path) -> None:
        """Write ``tokens.txt``, a line per symbol with its index, as sherpa-onnx reads it."""
        # sherpa-onnx leaves SIL and </s> out of texts, but not <s>.
        names = ("SIL" if name == "<s>" else name for name in self.names("▁"))
        lines = (f"{name} {number}\n" for number, name in enumerate(names))
        publish_text(folder / TOKENS, "".join(lines))


def hugging_face_model(model: Model) -> Any:
    """Return the model as ``transformers.Wav2Vec2ForCTC``, which shares its memory.

    Raises:
        RunError: The architecture has no counterpart there.
    """
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC  # noqa: PLC0415 - an extra

    encoder = model.settings.encoder_config
    if faults := export_faults(encoder):
        raise RunError(
            f"model {model.name} has no counterpart in transformers: {', '.join(faults)}. Train it "
            "again with these values, which the architecture `tiny` now has"
        )
    config = to_hugging_face_config(encoder, model.settings.target_vocab_size)
    with torch.device("meta"):
        module = Wav2Vec2ForCTC(Wav2Vec2Config(**config))  # type: ignore[no-untyped-call]
    module.load_state_dict(to_hugging_face(model.module.state_dict()), assign=True)
    return module.eval()  # type: ignore[no-untyped-call]


def write_hugging_face(model: Model, folder: Path, lm: Path | None) -> None:
    """Write weights, configuration, tokenizer and feature extractor, and a language model if given.

    Raises RunError if the architecture has no counterpart in transformers.
    """
    hugging_face_model(model).save_pretrained(folder)
    # safetensors makes it readable for its owner alone.
    shutil.copymode(folder / "config.json", folder / "model.safetensors")
    vocabulary = Vocabulary(model.tokenizer, model.settings.target_vocab_size)
    vocab = {name: number for number, name in enumerate(vocabulary.names(vocabulary.delimiter))}
    publish_json(folder / "vocab.json", vocab)
    processor = "Wav2Vec2Processor" if lm is None else "Wav2Vec2ProcessorWithLM"
    special = {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "pad_token": BLANK,
        "unk_token": UNKNOWN,
        "word_delimiter_token": vocabulary.delimiter,  # transformers 5 reads it in this file only
    }
    publish_json(folder / "special_tokens_map.json", special)
    tokenizer = {
        "tokenizer_class": "Wav2Vec2CTCTokenizer",
        "processor_class": processor,
        **special,
        "replace_word_delimiter_char": " ",
        "do_lower_case": False,
        # Else transformers takes out spaces before punctuation.
        "clean_up_tokenization_spaces": False,
    }
    publish_json(folder / "tokenizer_config.json", tokenizer)
    extractor = {
        "feature_extractor_type": "Wav2Vec2FeatureExtractor",
        "processor_class": processor,
        "feature_size": 1,
        "sampling_rate": SAMPLE_RATE,
        "padding_value": 0.0,
        "padding_side": "right",
        "do_normalize": model.normalizes,
        "return_attention_mask": True,
    }
    publish_json(folder / "preprocessor_config.json", extractor)
    if lm is not None:
        _write_language_model(vocabulary, lm, folder)


def _write_language_model(vocabulary: Vocabulary, lm: Path, folder: Path) -> None:
    """Add a language model as ``Wav2Vec2ProcessorWithLM`` finds it; that needs pyctcdecode."""
    model, target = find_language_model(lm), folder / "language_model"
    target.mkdir()
    suffix = ".arpa" if model.file.suffix == ".arpa" else ".bin"
    shutil.copyfile(model.file, target / f"lm{suffix}")
    publish_text(target / "unigrams.txt", "\n".join(model.words()) + "\n")
    weights = {"alpha": ALPHA, "beta": BETA, **model.settings}
    attributes = {name: weights[name] for name in ("alpha", "beta")}
    attributes |= {"unk_score_offset": -10.0, "score_boundary": True}
    publish_json(target / "attrs.json", attributes)
    # pyctcdecode calls the blank "" and the space " ".
    names = vocabulary.names(" ")
    publish_json(folder / "alphabet.json", {"labels": ["", *names[1:]], "is_bpe": False})
