from __future__ import annotations

from pathlib import Path

import pytest
import torch
from fairseq2.models.wav2vec2.asr import create_wav2vec2_asr_model
from fairseq2.utils.structured import StandardValueConverter

from danish_asr.base.files import to_yaml
from danish_asr.corpus.cards import build_char_tokenizer
from danish_asr.inference.model import Model, load_model
from danish_asr.recipe.extension import tiny

ALPHABET = "abcdefghijklmnopqrstuvwxyzæøå "


@pytest.fixture(scope="session")
def model_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the card, the random weights and the tokenizer of a tiny model."""
    folder = tmp_path_factory.mktemp("model") / "tiny_model"
    (folder / "cards").mkdir(parents=True)
    (folder / "cards" / "tokenizer.model").write_bytes(build_char_tokenizer(ALPHABET))
    config = tiny()
    config.encoder_config.num_encoder_layers = 1
    config.encoder_config.model_dim = config.encoder_config.ffn_inner_dim = 32
    config.target_vocab_size = len(ALPHABET) + 4
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


@pytest.fixture(scope="session")
def model(model_directory: Path) -> Model:
    return load_model(model_directory, device="cpu")
