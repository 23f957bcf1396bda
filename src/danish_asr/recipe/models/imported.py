"""A directory of Hugging Face as ``model.path``: read in place, under a card made for fairseq2.

The card and the tokenizer are small files in ``$XDG_CACHE_HOME/danish-asr/hugging-face``. The
symbols get fairseq2's order, with the blank first, and the rows of the head follow them.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import sentencepiece
import torch
from fairseq2.composition import register_model_family
from fairseq2.models.wav2vec2.asr import (
    Wav2Vec2AsrConfig,
    Wav2Vec2AsrModel,
    apply_ac_to_wav2vec2_asr,
    apply_fsdp_to_wav2vec2_asr,
    convert_wav2vec2_asr_state_dict,
    create_wav2vec2_asr_model,
)
from fairseq2.runtime.dependency import DependencyContainer
from torch import Tensor

from danish_asr.base.errors import ConfigError
from danish_asr.base.files import publish, publish_text, to_yaml
from danish_asr.recipe.models.hugging_face import (
    HUGGING_FACE_FAMILY,
    from_hugging_face,
    from_hugging_face_config,
    import_faults,
)

CACHE: Final = "hugging-face"
"""The directory of the cards."""

_NEVER: Final = -100.0
"""The bias of symbols that the file's head does not have: they are never the best."""

_HEADS: Final = {"Wav2Vec2ForCTC": True, "Wav2Vec2ForPreTraining": False, "Wav2Vec2Model": False}


@dataclass(kw_only=True)
class ImportedAsrConfig(Wav2Vec2AsrConfig):
    """A model whose weights have the names of transformers."""

    head_rows: list[int] = field(default_factory=list)
    """For each symbol its row in the head of the file, or -1. Empty: the head is new."""


def register_imported(container: DependencyContainer) -> None:
    """Register the family of models that are read from a directory of Hugging Face."""
    register_model_family(
        container,
        HUGGING_FACE_FAMILY,
        Wav2Vec2AsrModel,
        ImportedAsrConfig,
        factory=create_wav2vec2_asr_model,
        state_dict_converter=_convert,
        fsdp_applier=apply_fsdp_to_wav2vec2_asr,
        layerwise_ac_applier=apply_ac_to_wav2vec2_asr,
    )


def _convert(state_dict: dict[str, object], config: ImportedAsrConfig) -> dict[str, object]:
    state = cast(dict[str, Tensor], state_dict)
    if "encoder.layer_norm.weight" in state and "final_proj.weight" in state:  # of a run
        return convert_wav2vec2_asr_state_dict(state_dict, config)
    state = from_hugging_face(state)
    size, width = config.target_vocab_size, config.encoder_config.model_dim
    weight, bias = torch.zeros(size, width), torch.zeros(size)
    if config.head_rows:
        rows = torch.tensor(config.head_rows)
        known = rows >= 0
        weight[known] = state["final_proj.weight"][rows[known]].float()
        bias[known] = state["final_proj.bias"][rows[known]].float()
        bias[~known] = _NEVER
    else:
        torch.nn.init.xavier_uniform_(weight)
    return {**state, "final_proj.weight": weight, "final_proj.bias": bias}


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
    path, where = path.resolve(), f"model.path {path}"
    config = _read(path, "config.json")
    kind = (config.get("architectures") or ["Wav2Vec2Model"])[0]
    faults = import_faults(config)
    if kind not in _HEADS:
        faults.append(f"architectures must be one of {', '.join(_HEADS)}, but is {kind}")
    extractor = _read(path, "preprocessor_config.json")
    if not extractor.get("do_normalize", True):
        faults.append("do_normalize in preprocessor_config.json must be true, but is false")
    weights = path if [*path.glob("*.safetensors")] else path / "pytorch_model.bin"
    if not weights.exists():
        faults.append("there is neither model.safetensors nor pytorch_model.bin")
    faults += _damaged(path)
    if faults:
        raise ConfigError([f"{where}: {fault}" for fault in faults])
    card: dict[str, Any] = {
        "name": f"{path.name}-hf",
        "model_family": HUGGING_FACE_FAMILY,
        "model_config": {"use_masking": False, "encoder_config": from_hugging_face_config(config)},
        "checkpoint": str(weights),
    }
    tokenizer = b""
    if _HEADS[kind]:
        tokenizer, rows = _symbols(path, config, where)
        card["model_config"] |= {"head_rows": rows, "target_vocab_size": len(rows)}
        card |= {"tokenizer_family": "char_tokenizer", "tokenizer": "tokenizer.model"}
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.sha256(to_yaml(card).encode() + tokenizer).hexdigest()[:16]
    folder = cache / "danish-asr" / CACHE / digest
    if tokenizer:
        with publish(folder / "tokenizer.model") as stream:
            stream.write(tokenizer)
    publish_text(folder / f"{card['name']}.yaml", to_yaml(card))
    return folder, str(card["name"])


def _damaged(path: Path) -> Iterator[str]:
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - only here

    for file in sorted(path.glob("*.safetensors")):
        try:
            with safe_open(file, framework="pt"):  # it compares the header with the file's size
                pass
        except (SafetensorError, OSError) as error:
            yield f"{file.name} is damaged ({error}); download or copy it again"


def _symbols(path: Path, config: Mapping[str, Any], where: str) -> tuple[bytes, list[int]]:
    """Return a tokenizer of the characters in ``vocab.json``, and the row of each symbol."""
    # The extension imports this file into every program that uses fairseq2.
    from danish_asr.corpus.cards import build_char_tokenizer  # noqa: PLC0415

    vocab, about = _read(path, "vocab.json"), _read(path, "tokenizer_config.json")
    about = {**_read(path, "special_tokens_map.json"), **about}
    if not vocab or not all(isinstance(row, int) for row in vocab.values()):
        raise ConfigError([f"{where}: expected vocab.json with the row of each symbol"])
    usual = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    special = {key: _content(about.get(key, usual[key])) for key in usual}
    space = about.get("word_delimiter_token", "|")
    lower = bool(about.get("do_lower_case"))
    characters = {
        token.lower() if lower else token: row
        for token, row in vocab.items()
        if token not in {*special.values(), space, " "}
    }
    if longer := [token for token in characters if len(token) > 1]:
        shown = ", ".join(longer[:5])
        raise ConfigError([f"{where}: vocab.json must have characters only, but has {shown}"])
    model = build_char_tokenizer(characters)
    rows = {"<s>": config["pad_token_id"], "</s>": vocab.get(special["eos_token"], -1)}
    rows |= {"<unk>": vocab.get(special["unk_token"], -1), "<pad>": -1}
    rows |= {"▁": vocab.get(space, vocab.get(" ", -1)), **characters}
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
    names = [pieces.id_to_piece(number) for number in range(pieces.get_piece_size())]
    return model, [rows[name] for name in names]


def _content(token: Any) -> str:
    return str(token["content"] if isinstance(token, dict) else token)


def _read(path: Path, name: str) -> dict[str, Any]:
    file = path / name
    try:
        found = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    except ValueError as error:
        raise ConfigError([f"model.path: {file} is not JSON: {error}"]) from error
    return found if isinstance(found, dict) else {}
