"""A directory of Hugging Face as ``model.path``: checked, and put under a card for fairseq2.

The weights are read in place. Card and tokenizer are small files in
``$XDG_CACHE_HOME/danish-asr/hugging-face``. The symbols get fairseq2's order, with the blank first,
and the rows of the head follow them.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import sentencepiece

from danish_asr.base.errors import ConfigError
from danish_asr.base.files import publish, publish_text, to_yaml
from danish_asr.corpus.cards import build_char_tokenizer
from danish_asr.recipe.models.hugging_face import (
    DEFAULTS,
    FIXED,
    HUGGING_FACE_FAMILY,
    from_hugging_face_config,
)

_HAS_HEAD: Final = {
    "Wav2Vec2ForCTC": True,
    "Wav2Vec2ForPreTraining": False,
    "Wav2Vec2Model": False,
}


def is_hugging_face(path: Path) -> bool:
    """Whether a directory may be a model of transformers."""
    return (path / "config.json").is_file()


def import_model(path: Path) -> tuple[Path, str]:
    """Write the card of a directory of Hugging Face; return its directory and its name.

    A ``Wav2Vec2ForCTC`` keeps its head and symbols; an encoder (``Wav2Vec2Model``,
    ``Wav2Vec2ForPreTraining``) gets a new head.

    Raises:
        ConfigError: The architecture, the symbols or the files cannot be used, with the reasons.
    """
    path = path.resolve()
    config = {**DEFAULTS, **_read(path, "config.json")}
    kind = (config.get("architectures") or ["Wav2Vec2Model"])[0]
    weights = path if [*path.glob("*.safetensors")] else path / "pytorch_model.bin"
    faults = _import_faults(path, config)
    if kind not in _HAS_HEAD:
        faults.append(f"architectures must be one of {', '.join(_HAS_HEAD)}, but is {kind}")
    if not weights.exists():
        faults.append("there is neither model.safetensors nor pytorch_model.bin")
    if faults:
        raise ConfigError([f"model.path {path}: {fault}" for fault in faults])
    card: dict[str, Any] = {
        "name": f"{path.name}-hf",
        "model_family": HUGGING_FACE_FAMILY,
        "model_config": {"use_masking": False, "encoder_config": from_hugging_face_config(config)},
        "checkpoint": str(weights),
    }
    tokenizer = b""
    if _HAS_HEAD[kind]:
        tokenizer, rows = _symbols(path, config)
        card["model_config"] |= {"head_rows": rows, "target_vocab_size": len(rows)}
        card |= {"tokenizer_family": "char_tokenizer", "tokenizer": "tokenizer.model"}
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.sha256(to_yaml(card).encode() + tokenizer).hexdigest()[:16]
    folder = cache / "danish-asr" / "hugging-face" / digest
    if tokenizer:
        with publish(folder / "tokenizer.model") as stream:
            stream.write(tokenizer)
    publish_text(folder / f"{card['name']}.yaml", to_yaml(card))
    return folder, str(card["name"])


def _import_faults(path: Path, config: Mapping[str, Any]) -> list[str]:
    """Why a model of transformers has no counterpart in fairseq2, or is damaged."""
    rules = {"model_type": "wav2vec2", **FIXED, "adapter_attn_dim": None}
    faults = [
        f"{key} must be {value}, but is {config.get(key)}"
        for key, value in rules.items()
        if config.get(key) != value
    ]
    processor = _read(path, "processor_config.json").get("feature_extractor", {})  # transformers 5
    if not {**processor, **_read(path, "preprocessor_config.json")}.get("do_normalize", True):
        faults.append("do_normalize of the feature extractor must be true, but is false")
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - only here

    for file in sorted(path.glob("*.safetensors")):
        try:
            with safe_open(file, framework="pt"):  # it compares the header with the file's size
                pass
        except (SafetensorError, OSError) as error:
            faults.append(f"{file.name} is damaged ({error}); download or copy it again")
    return faults


def _symbols(path: Path, config: Mapping[str, Any]) -> tuple[bytes, list[int]]:
    """Return a tokenizer of the characters in ``vocab.json``, and the row of each symbol."""
    vocab = _read(path, "vocab.json")
    settings = {**_read(path, "special_tokens_map.json"), **_read(path, "tokenizer_config.json")}
    if not vocab or not all(isinstance(row, int) for row in vocab.values()):
        raise ConfigError([f"model.path {path}: expected vocab.json with the row of each symbol"])
    special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    for key, default in special.items():
        token = settings.get(key, default)
        special[key] = str(token["content"] if isinstance(token, dict) else token)
    space = settings.get("word_delimiter_token", "|")
    lower = bool(settings.get("do_lower_case"))
    characters = {
        token.lower() if lower else token: row
        for token, row in vocab.items()
        if token not in {*special.values(), space, " "}
    }
    if longer := [token for token in characters if len(token) > 1]:
        shown = ", ".join(longer[:5])
        rule = "vocab.json must have characters only"
        raise ConfigError([f"model.path {path}: {rule}, but has {shown}"])
    tokenizer = build_char_tokenizer(characters)
    rows = {"<s>": config["pad_token_id"], "</s>": vocab.get(special["eos_token"], -1)}
    rows |= {"<unk>": vocab.get(special["unk_token"], -1), "<pad>": -1}
    rows |= {"▁": vocab.get(space, vocab.get(" ", -1)), **characters}
    pieces = sentencepiece.SentencePieceProcessor(model_proto=tokenizer)
    names = [pieces.id_to_piece(number) for number in range(pieces.get_piece_size())]
    return tokenizer, [rows[name] for name in names]


def _read(path: Path, name: str) -> dict[str, Any]:
    file = path / name
    try:
        content = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    except ValueError as error:
        raise ConfigError([f"model.path: {file} is not JSON: {error}"]) from error
    return content if isinstance(content, dict) else {}
