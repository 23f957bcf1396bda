"""What this package adds to every program that uses fairseq2: cards, a small model, CPU runs."""

from fairseq2.composition.assets import register_file_assets
from fairseq2.models.transformer import TransformerNormOrder
from fairseq2.models.wav2vec2 import Wav2Vec2EncoderConfig
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig
from fairseq2.runtime.config_registry import ConfigRegistrar
from fairseq2.runtime.dependency import DependencyContainer
from fairseq2.utils.device_stat import NOOP_DEVICE_STAT_TRACKER, DeviceStatTracker

from danish_asr.base.fairseq2_private import remove_folder_of_torch, support_any_local_path
from danish_asr.base.schema import card_directories


def register(container: DependencyContainer) -> None:
    """Register card directories, ``tiny`` and a tracker for CPUs."""
    for directory in card_directories():
        register_file_assets(container, directory, not_exist_ok=True)

    ConfigRegistrar(container, Wav2Vec2AsrConfig)("tiny")(tiny)
    # fairseq2 has device statistics for GPUs only, and no recipe runs without.
    container.register_instance(DeviceStatTracker, NOOP_DEVICE_STAT_TRACKER, key="cpu")
    support_any_local_path()
    remove_folder_of_torch()


def tiny() -> Wav2Vec2AsrConfig:
    """A wav2vec2 CTC model that learns a small vocabulary on two CPU cores in minutes.

    A frame has 320 samples, as in omniASR's models. The feature extractor has five layers instead
    of seven, which halves the work at the highest rates. Like omniASR's, and other than fairseq2's
    default, it has no layer norm before the encoder, for which ``Wav2Vec2ForCTC`` has no place.
    """
    layers = [(64, 10, 5), (64, 8, 4), (96, 8, 4), (128, 4, 2), (128, 4, 2)]
    return Wav2Vec2AsrConfig(
        encoder_config=Wav2Vec2EncoderConfig(
            model_dim=144,
            feature_dim=128,
            feature_extractor_layer_descs=layers,
            feature_extractor_bias=True,
            feature_extractor_layer_norm_convs=True,
            feature_grad_scale=1.0,
            layer_norm_features=False,
            pos_conv_kernel_size=31,
            num_encoder_layers=3,
            num_encoder_attn_heads=4,
            ffn_inner_dim=576,
            dropout_p=0.05,
            attn_dropout_p=0.0,
            layer_drop_p=0.0,
            norm_order=TransformerNormOrder.PRE,
        ),
        use_masking=False,
    )
