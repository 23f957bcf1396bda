"""What this package adds to fairseq2: cards, any local path, the model ``tiny``, runs on a CPU."""

import hashlib
import json
from pathlib import Path

import pytest
from fairseq2.assets import AssetDownloadManager, AssetStore
from fairseq2.models import ModelFamily
from fairseq2.models.wav2vec2.asr import WAV2VEC2_ASR_FAMILY
from fairseq2.utils.device_stat import DeviceStatTracker
from fairseq2.utils.structured import StandardValueConverter
from fairseq2.utils.uri import Uri

from danish_asr.base.fairseq2_private import library_container
from danish_asr.recipe.extension import tiny


def test_every_program_has_our_cards_and_model_and_runs_on_a_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.yaml").write_text("{name: mine, model_family: wav2vec2_asr}")
    monkeypatch.setenv("DANISH_ASR_ASSETS", f"{tmp_path}:{tmp_path}/none")
    container = library_container()
    assert container.resolve(AssetStore).maybe_retrieve_card("mine")
    family = container.resolve(ModelFamily, key=WAV2VEC2_ASR_FAMILY)
    assert family.maybe_get_arch_config("tiny") == tiny()
    assert container.resolve_optional(DeviceStatTracker, key="cpu")
    file = tmp_path / "søren" / "tokenizer.model"
    downloads = container.resolve(AssetDownloadManager)
    assert downloads.download_tokenizer(Uri.from_path(file), "a tokenizer") == file


def test_the_architecture_of_the_demos_checkpoints_is_fixed() -> None:
    values = StandardValueConverter().unstructure(tiny())
    text = json.dumps(values, sort_keys=True, default=str)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "f1e9d006f16a18dc"
