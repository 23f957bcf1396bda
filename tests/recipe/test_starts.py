"""Training starts from a pretrained encoder below a new head."""

from pathlib import Path

import torch
from fairseq2.models.wav2vec2 import Wav2Vec2Config
from fairseq2.models.wav2vec2.factory import create_wav2vec2_model
from fairseq2.utils.structured import StandardValueConverter

from danish_asr.base.files import to_yaml
from danish_asr.recipe.extension import tiny
from tests.recipe.running import train, weights


def write_encoder(folder: Path) -> dict[str, torch.Tensor]:
    """Save a wav2vec2 model with the encoder of ``tiny``, and its card ``pretrained``."""
    config = Wav2Vec2Config(
        encoder_config=tiny().encoder_config, final_dim=32, quantized_dim=32, num_codebook_entries=8
    )
    torch.manual_seed(3)
    state = create_wav2vec2_model(config).state_dict()
    file = folder / "model" / "pp_00" / "tp_00" / "sdp_00.pt"
    file.parent.mkdir(parents=True)
    torch.save(state, file, pickle_protocol=2)
    card = {
        "name": "pretrained",
        "model_family": "wav2vec2",
        "model_config": StandardValueConverter().unstructure(config),
        "checkpoint": str(folder / "model"),
    }
    (folder / "pretrained.yaml").write_text(to_yaml(card))
    return dict(state)


def test_a_pretrained_encoder_gives_its_weights_below_a_new_head(
    tmp_path: Path, dataset: Path
) -> None:
    encoder = write_encoder(tmp_path / "encoder")
    run = tmp_path / "run"
    status = train(
        run,
        dataset,
        f"common.assets.extra_paths=[{dataset}/cards, {tmp_path}/encoder]",
        "pretrained_encoder.name=pretrained",
        "model.config_overrides=null",
        "trainer.freeze_encoder_for_n_steps=2",
        "masking.time=0.5",
        "regime.num_steps=4",
    )
    assert status == 0
    at_2, at_4 = weights(run, 2), weights(run, 4)
    inner = "encoder.layers.0.ffn.inner_proj.weight"
    first_convolution = "encoder_frontend.feature_extractor.layers.0.conv.weight"
    assert torch.equal(at_2[inner], encoder[inner])
    mask = "masker.temporal_mask_embed"
    assert torch.equal(at_2[mask], encoder[mask])
    assert not torch.equal(at_4[inner], encoder[inner])
    # Pretrained convolutions stay frozen when the encoder is freed.
    assert torch.equal(at_4[first_convolution], encoder[first_convolution])
    assert not torch.equal(at_2["final_proj.weight"], at_4["final_proj.weight"])
