"""Models with random weights, small enough for a test, which write long random texts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig, create_wav2vec2_asr_model
from fairseq2.models.wav2vec2.asr.factory import Wav2Vec2AsrFactory
from fairseq2.utils.structured import StandardValueConverter

from danish_asr.base.files import to_yaml
from danish_asr.corpus.cards import build_char_tokenizer
from danish_asr.recipe.extension import tiny

CHARACTERS = "abcdefghijklmnopqrstuvwxyzæøåé0123456789|'"
LETTERS = "abcdefghijklmnopqrstuvwxyzæøå "


def build_model(folder: Path, *, characters: str = CHARACTERS, **encoder: Any) -> Path:
    """Write a card, a checkpoint and a tokenizer; ``encoder`` changes the sizes of ``tiny``."""
    cards = folder / "cards"
    cards.mkdir(parents=True)
    model_file = build_char_tokenizer(characters)
    (cards / "tokenizer.model").write_bytes(model_file)
    encoder = {"num_encoder_layers": 2, **encoder}
    config = tiny()
    config.target_vocab_size = len(set(characters)) + 5
    config.encoder_config = replace(config.encoder_config, **encoder)
    torch.save(random_weights(config), cards / "model.pt")
    card = {
        "name": folder.name,
        "model_family": "wav2vec2_asr",
        "model_arch": "tiny",
        "model_config": {
            "target_vocab_size": config.target_vocab_size,
            "encoder_config": encoder,
        },
        "checkpoint": "model.pt",
        "tokenizer_family": "char_tokenizer",
        "tokenizer": "tokenizer.model",
    }
    (cards / f"{folder.name}.yaml").write_text(to_yaml(card), encoding="utf-8")
    return folder


def random_weights(config: Wav2Vec2AsrConfig) -> dict[str, torch.Tensor]:
    """The same weights at every call, none of them 0 or 1. <pad> and </s> are never the best."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        state = Wav2Vec2AsrFactory(config).create_model().state_dict()
        state = {name: value + 0.05 * torch.randn_like(value) for name, value in state.items()}
    state["final_proj.weight"] *= 3
    state["final_proj.bias"][1:3] = -100
    return state


def build_tiny_model(folder: Path) -> Path:
    """Write a model of one layer, whose symbols differ from frame to frame."""
    (folder / "cards").mkdir(parents=True)
    (folder / "cards" / "tokenizer.model").write_bytes(build_char_tokenizer(LETTERS))
    config = tiny()
    config.encoder_config.num_encoder_layers = 1
    config.encoder_config.model_dim = config.encoder_config.ffn_inner_dim = 32
    config.target_vocab_size = len(LETTERS) + 4
    with torch.random.fork_rng():
        torch.manual_seed(1)
        module = create_wav2vec2_asr_model(config)
        # So that its symbols differ from frame to frame.
        torch.nn.init.normal_(module.final_proj.get_parameter("weight"))
    torch.save(module.state_dict(), folder / "model.pt")
    card = {
        "name": "tiny_model",
        "model_family": "wav2vec2_asr",
        "model_config": StandardValueConverter().unstructure(config),
        "checkpoint": "../model.pt",
        "tokenizer_family": "char_tokenizer",
        "tokenizer": "tokenizer.model",
    }
    (folder / "cards" / "tiny_model.yaml").write_text(to_yaml(card), encoding="utf-8")
    return folder
