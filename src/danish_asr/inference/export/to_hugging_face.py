"""A directory that ``transformers`` loads with ``AutoModelForCTC`` and ``AutoProcessor``."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch

from danish_asr.base.errors import RunError
from danish_asr.base.files import publish_text
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.decoding.beam import ALPHA, BETA
from danish_asr.decoding.ngram import find_language_model
from danish_asr.inference.export.vocabulary import BLANK, UNKNOWN, Vocabulary
from danish_asr.inference.model import Model
from danish_asr.recipe.models.hugging_face import (
    export_faults,
    to_hugging_face,
    to_hugging_face_config,
)


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

    Raises:
        RunError: The architecture has no counterpart in transformers.
    """
    hugging_face_model(model).save_pretrained(folder)
    # safetensors makes it readable for its owner alone.
    shutil.copymode(folder / "config.json", folder / "model.safetensors")
    vocabulary = Vocabulary(model.tokenizer, model.settings.target_vocab_size)
    vocabulary.write_vocab(folder)
    processor = "Wav2Vec2Processor" if lm is None else "Wav2Vec2ProcessorWithLM"
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": BLANK, "unk_token": UNKNOWN}
    _write(folder / "special_tokens_map.json", special)
    tokenizer = {
        "tokenizer_class": "Wav2Vec2CTCTokenizer",
        "processor_class": processor,
        **special,
        "word_delimiter_token": vocabulary.delimiter,
        "replace_word_delimiter_char": " ",
        "do_lower_case": False,
        # Else transformers takes out spaces before punctuation.
        "clean_up_tokenization_spaces": False,
    }
    _write(folder / "tokenizer_config.json", tokenizer)
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
    _write(folder / "preprocessor_config.json", extractor)
    if lm is not None:
        _write_language_model(vocabulary, lm, folder)


def _write_language_model(vocabulary: Vocabulary, lm: Path, folder: Path) -> None:
    """Add a language model as ``Wav2Vec2ProcessorWithLM`` finds it; that needs pyctcdecode."""
    found, target = find_language_model(lm), folder / "language_model"
    target.mkdir()
    shutil.copyfile(found.file, target / f"lm{'.arpa' if found.file.suffix == '.arpa' else '.bin'}")
    publish_text(target / "unigrams.txt", "\n".join(found.words()) + "\n")
    weights = {"alpha": ALPHA, "beta": BETA, **found.settings}
    attributes = {name: weights[name] for name in ("alpha", "beta")}
    _write(target / "attrs.json", {**attributes, "unk_score_offset": -10.0, "score_boundary": True})
    # pyctcdecode calls the blank "" and the space " ".
    names = vocabulary.names(" ")
    _write(folder / "alphabet.json", {"labels": ["", *names[1:]], "is_bpe": False})


def _write(path: Path, values: dict[str, Any]) -> None:
    publish_text(path, json.dumps(values, ensure_ascii=False, indent=2) + "\n")
