"""Models of Hugging Face as ``model.path``: the same texts as in transformers, and fine-tuning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig
from fairseq2.runtime.config_registry import get_config
from safetensors import safe_open
from transformers import (
    Wav2Vec2Config,
    Wav2Vec2CTCTokenizer,
    Wav2Vec2ForCTC,
    Wav2Vec2ForPreTraining,
    Wav2Vec2Model,
)

from danish_asr.base.errors import ConfigError
from danish_asr.base.files import from_yaml
from danish_asr.decoding.ctc import GreedyDecoder
from danish_asr.inference.model import load_model
from danish_asr.recipe.extension import tiny
from danish_asr.recipe.models.hugging_face import (
    _encoder_config,
    export_faults,
    import_model,
    to_hugging_face_config,
)
from tests.fairseq2_context import fairseq2_context
from tests.running import evaluate, train, weights

CAPITALS = [*"ABCDEFGHIJKLMNOPQRSTUVWXYZÆØÅ"]

TWO_STEPS = ("regime.num_steps=2", "model.arch=null", "model.config_overrides=null")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def save(folder: Path, kind: Any, symbols: list[str], *, safe: bool = True, **own: object) -> Path:
    """Save a random model as Danish ones are: the blank last, the delimiter first."""
    vocab = {name: row for row, name in enumerate(["|", *symbols, "[UNK]", "[PAD]"])}
    config = to_hugging_face_config(tiny().encoder_config, len(vocab))
    config |= {"num_hidden_layers": 1, "hidden_size": 32, "pad_token_id": len(vocab) - 1, **own}
    torch.manual_seed(3)
    model = kind(Wav2Vec2Config(**config))  # type: ignore[no-untyped-call]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
        if kind is Wav2Vec2ForCTC:
            model.lm_head.weight *= 3
    model.save_pretrained(folder, safe_serialization=safe)
    (folder / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    about = {"unk_token": "[UNK]", "pad_token": "[PAD]", "word_delimiter_token": "|"}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    return folder


@pytest.mark.parametrize("safe", [True, False])
def test_an_imported_model_writes_what_transformers_writes(tmp_path: Path, *, safe: bool) -> None:
    folder = save(tmp_path / "m", Wav2Vec2ForCTC, CAPITALS, safe=safe)
    samples = torch.randn(40_000, generator=torch.Generator().manual_seed(5))
    theirs = Wav2Vec2ForCTC.from_pretrained(folder).eval()
    with torch.inference_mode():
        logits = theirs(torch.nn.functional.layer_norm(samples, samples.shape)[None]).logits
    file = str(folder / "vocab.json")
    special = {"unk_token": "[UNK]", "pad_token": "[PAD]"}
    tokenizer = Wav2Vec2CTCTokenizer(file, **special)  # type: ignore[no-untyped-call]
    expected = tokenizer.decode(logits[0].argmax(-1)).replace("[UNK]", "⁇")

    ours = load_model(folder, device="cpu")
    (text,) = GreedyDecoder(ours.tokenizer)(ours.log_probs([samples.numpy()]))
    assert text.strip() == expected
    assert len({*text}) > 5


def test_the_encoder_of_xls_r_300m_has_the_sizes_and_the_dropout_of_omniasr_300m(
    tmp_path: Path,
) -> None:
    """They have one architecture; transformers' own dropout would train another model."""
    theirs = json.loads((save(tmp_path, Wav2Vec2ForCTC, CAPITALS) / "config.json").read_text())
    ours = get_config(fairseq2_context(), Wav2Vec2AsrConfig, "300m").encoder_config
    expected = to_hugging_face_config(ours, 9)
    assert export_faults(ours) == []
    encoder = _encoder_config({**theirs, **expected})
    assert encoder.pop("norm_order") == ours.norm_order.name
    layers = encoder.pop("feature_extractor_layer_descs")
    assert [*map(tuple, layers)] == [*map(tuple, ours.feature_extractor_layer_descs)]
    assert encoder == {key: getattr(ours, key) for key in encoder}
    masks = ("mask_time_prob", "mask_feature_prob", "layerdrop")
    assert [expected[key] for key in masks] == [0.0, 0.0, 0.0]
    special = ("pad_token_id", "bos_token_id", "eos_token_id", "vocab_size")
    assert [expected[key] for key in special] == [0, 1, 2, 9]


@pytest.mark.slow
def test_it_is_fine_tuned_and_evaluated_and_the_run_is_like_any_other(
    tmp_path: Path, dataset: Path
) -> None:
    symbols = [*"abcdefghijklmnopqrstuvwxyzæøå0123456789"]
    folder, run = save(tmp_path / "xlsr", Wav2Vec2ForCTC, symbols), tmp_path / "run"
    own = [*TWO_STEPS, f"model.path={folder}"]
    assert train(run, dataset, *own) == 0
    trained = weights(run, 2)["encoder_frontend.feature_extractor.layers.0.conv.weight"]
    theirs = Wav2Vec2ForCTC.from_pretrained(folder)
    torch.testing.assert_close(
        trained, theirs.wav2vec2.feature_extractor.conv_layers[0].conv.weight
    )
    card = from_yaml((run / "checkpoints" / "model.yaml").read_text())
    assert card["model_family"] == "wav2vec2_asr"
    assert evaluate(run, dataset, *own) == 0
    assert (run / "eval" / "best" / "test" / "predictions.jsonl").is_file()
    assert load_model(run, device="cpu").tokenizer.vocab_info.size == 44
    # As it is, too.
    assert evaluate(tmp_path / "as is", dataset, *own, "evaluator.checkpoint=none") == 0
    assert (tmp_path / "as is" / "eval" / "xlsr" / "test" / "predictions.jsonl").is_file()


@pytest.mark.slow
def test_an_encoder_gets_a_head_for_the_tokenizer_of_the_dataset(
    tmp_path: Path, dataset: Path
) -> None:
    folder, run = save(tmp_path / "xlsr", Wav2Vec2Model, []), tmp_path / "run"
    own = [*TWO_STEPS, f"model.path={folder}"]
    assert train(run, dataset, *own) == 0
    size = load_model(run, device="cpu").tokenizer.vocab_info.size
    assert weights(run, 2)["final_proj.weight"].shape == (size, 32)
    with pytest.raises(ConfigError, match=r"one fault:\n.*encoder without a head"):
        load_model(folder)


@pytest.mark.parametrize(
    ("file", "key", "value", "message"),
    [
        ("config.json", "feat_extract_norm", "group", "feat_extract_norm must be layer"),
        ("config.json", "architectures", ["Wav2Vec2ForXVector"], "but is Wav2Vec2ForXVector"),
        ("vocab.json", "ch", 7, "characters, but has ch"),
    ],
)
def test_what_has_no_counterpart_is_refused_with_the_reason(
    tmp_path: Path, file: str, key: str, value: Any, message: str
) -> None:
    folder = save(tmp_path / "m", Wav2Vec2ForCTC, CAPITALS)
    content = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps(content | {key: value}))
    with pytest.raises(ConfigError, match=rf"- {folder}: .*{message}"):
        load_model(folder, device="cpu")


def test_what_only_pretraining_needs_is_left_out(tmp_path: Path) -> None:
    """Quantizer and projections, and what stands for masked frames."""
    names = []
    for kind in (Wav2Vec2ForCTC, Wav2Vec2ForPreTraining, Wav2Vec2Model):
        folder = save(tmp_path / kind.__name__, kind, CAPITALS, mask_time_prob=0.05)
        with safe_open(folder / "model.safetensors", "pt") as file:
            assert any(name.endswith("masked_spec_embed") for name in file.keys())  # noqa: SIM118
        state = torch.load(import_model(folder) / "model.pt", weights_only=True)["model"]
        names.append({*state})
    assert names[0] == names[1] == names[2]


def test_code_in_pytorch_model_bin_is_not_run(tmp_path: Path) -> None:
    folder = save(tmp_path / "m", Wav2Vec2ForCTC, CAPITALS, safe=False)
    torch.save({"lm_head.weight": Path("code")}, folder / "pytorch_model.bin")
    with pytest.raises(ConfigError, match="pathlib"):
        load_model(folder, device="cpu")
