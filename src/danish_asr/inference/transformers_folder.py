"""A directory that ``transformers`` loads with ``AutoModelForCTC`` and ``AutoProcessor``."""

import shutil
from pathlib import Path
from typing import Any, Final

import torch
from fairseq2.data.tokenizers import Tokenizer

from danish_asr.base.errors import RunError
from danish_asr.base.files import publish_json
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.decoding.beam import symbols
from danish_asr.inference.model import UNKNOWN, Model
from danish_asr.recipe.models.hugging_face import (
    export_faults,
    to_hugging_face,
    to_hugging_face_config,
)

_BLANK: Final = "<pad>"
"""In transformers, the padding symbol is CTC's blank."""

_CONTROL: Final = (_BLANK, "<s>", "</s>")

SILENT: Final = 2
"""The last of them: symbols up to it write nothing."""


def write_hugging_face(model: Model, folder: Path) -> None:
    """Write weights, configuration, tokenizer and feature extractor.

    Raises RunError if the architecture has no counterpart in transformers.
    """
    hugging_face_model(model).save_pretrained(folder)
    # safetensors makes it readable for its owner alone.
    shutil.copymode(folder / "config.json", folder / "model.safetensors")
    delimiter = "▁" if "|" in symbols(model.tokenizer) else "|"
    names = symbol_names(model.tokenizer, delimiter)
    publish_json(folder / "vocab.json", {name: number for number, name in enumerate(names)})
    special = {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "pad_token": _BLANK,
        "unk_token": UNKNOWN,
        "word_delimiter_token": delimiter,  # transformers 5 reads it in this file only
    }
    publish_json(folder / "special_tokens_map.json", special)
    processor = {"processor_class": "Wav2Vec2Processor"}
    tokenizer = {
        "tokenizer_class": "Wav2Vec2CTCTokenizer",
        "replace_word_delimiter_char": " ",
        "do_lower_case": False,
        # Else transformers takes out spaces before punctuation.
        "clean_up_tokenization_spaces": False,
    }
    publish_json(folder / "tokenizer_config.json", processor | special | tokenizer)
    extractor = {
        "feature_extractor_type": "Wav2Vec2FeatureExtractor",
        "feature_size": 1,
        "sampling_rate": SAMPLE_RATE,
        "padding_value": 0.0,
        "padding_side": "right",
        "do_normalize": model.normalizes,
        "return_attention_mask": True,
    }
    publish_json(folder / "preprocessor_config.json", processor | extractor)


def hugging_face_model(model: Model) -> Any:
    """Return the model as ``transformers.Wav2Vec2ForCTC``, which shares its memory."""
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


def symbol_names(tokenizer: Tokenizer, space: str) -> list[str]:
    """Return a unique name for each symbol, ``space`` for the space."""
    names: dict[str, None] = {}
    for number, text in enumerate(symbols(tokenizer)):
        name = space if text == " " else text
        if number == tokenizer.vocab_info.unk_idx:
            name = UNKNOWN
        elif not name:  # it adds nothing to a text
            name = _CONTROL[number] if number < len(_CONTROL) else f"<{number}>"
        names[f"<{number}>" if name in names else name] = None
    return list(names)
