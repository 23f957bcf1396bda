"""What learns when: frozen layers, without a state in the optimizer, and stages of a run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrModel, create_wav2vec2_asr_model

from danish_asr.corpus.cards import build_char_tokenizer
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.extension import tiny
from danish_asr.recipe.train.learning import Freezing, OffloadedAdamW, keep_layers, slice_head
from tests.running import (
    TWO_BATCHES,
    changed,
    losses,
    metrics,
    saved_optimizer,
    small,
    train,
    train_with_two,
    weights,
)


def model() -> Wav2Vec2AsrModel:
    return create_wav2vec2_asr_model(tiny())


def learning(module: Wav2Vec2AsrModel) -> set[str]:
    """The parts that learn: modules of the model, and encoder layers by number."""
    names = [name for name, p in module.named_parameters() if p.requires_grad]
    return {
        ".".join(name.split(".")[: 3 if name.startswith("encoder.layers") else 2]) for name in names
    }


HEAD_LEARNS = {"final_proj.weight", "final_proj.bias"}
LAYERS = {f"encoder.layers.{number}" for number in range(3)}


@pytest.mark.parametrize(
    ("section", "step", "learns", "frozen"),
    [
        ({}, 1, {*LAYERS, "encoder_frontend.feature_extractor"}, set()),
        ({"freeze_feature_extractor": True}, 1, LAYERS, {"encoder_frontend.feature_extractor"}),
        ({"freeze_encoder_for_n_steps": 2}, 2, HEAD_LEARNS, LAYERS),
        ({"freeze_encoder_for_n_steps": 2}, 3, LAYERS, set()),
        (
            {"unfreeze": {0: "head", 4: "top 1"}},
            5,
            {"encoder.layers.2", "encoder.layer_norm"},
            {"encoder.layers.1", "encoder_frontend.feature_extractor"},
        ),
        ({"unfreeze": {"0": "head", "0.5 epochs": "all"}}, 5, HEAD_LEARNS, LAYERS),
        ({"unfreeze": {"0": "head", "0.5 epochs": "all"}}, 6, LAYERS, set()),
        (
            {"freeze_encoder_layers": 2},
            1,
            {"encoder.layers.2", "encoder.layer_norm"},
            {"encoder.layers.1", "encoder_frontend.feature_extractor"},
        ),
    ],
)
def test_what_learns_in_a_step_is_what_the_configuration_says(
    section: dict[str, Any], step: int, learns: set[str], frozen: set[str]
) -> None:
    config, module = AsrConfig(), model()
    for key, value in section.items():
        setattr(config.trainer, key, value)
    freezing = Freezing(config, epoch=10)
    freezing.begin(freezing.stage(step), module)
    found = learning(module)
    assert found >= HEAD_LEARNS | learns
    assert not found & frozen


@pytest.mark.parametrize("pretrained", ["model", "pretrained_encoder"])
def test_the_convolutions_of_a_pretrained_model_are_frozen_for_good(pretrained: str) -> None:
    config, module = AsrConfig(), model()
    getattr(config, pretrained).name = "omniASR"
    Freezing(config).freeze_permanently(module)
    assert "encoder_frontend.feature_extractor" not in learning(module)
    assert learning(module) >= LAYERS


def test_a_smaller_encoder_has_the_layers_that_it_keeps_in_their_order() -> None:
    module = model()
    layers = list(module.encoder.layers)
    keep_layers(module, [])
    assert list(module.encoder.layers) == layers
    keep_layers(module, [0, 2])
    assert list(module.encoder.layers) == [layers[0], layers[2]]


def test_a_sliced_head_has_the_rows_of_its_own_tokenizers_symbols(tmp_path: Path) -> None:
    full, own = tmp_path / "full.model", tmp_path / "own.model"
    pieces = {}
    for file, letters in ((full, "abcdæ"), (own, "bæ")):
        file.write_bytes(build_char_tokenizer(set(letters)))
        pieces[file] = sentencepiece.SentencePieceProcessor(model_file=str(file))
    size, kept = (pieces[file].get_piece_size() for file in (full, own))
    model = create_wav2vec2_asr_model(replace(tiny(), target_vocab_size=size))
    head: Any = model.final_proj
    with torch.no_grad():
        for parameter in head.parameters():
            rows = torch.arange(size, dtype=torch.float32)
            parameter.copy_(rows.view(-1, *[1] * (parameter.dim() - 1)).expand_as(parameter))
    slice_head(head, full, own)
    assert head.output_dim == kept < size
    bias = head.get_parameter("bias")
    names = [pieces[full].id_to_piece(int(row)) for row in bias]
    assert names == [pieces[own].id_to_piece(number) for number in range(kept)]
    assert torch.equal(head.get_parameter("weight")[:, 2], bias)


STAGED = (
    small(num_encoder_layers=3),
    *("trainer.freeze_encoder_layers=1", "trainer.unfreeze={0: head, 2: top 1, 3: all}"),
    *("regime.validate_every_n_steps=1", "regime.checkpoint_every_n_steps=1"),
    "regime.keep_last_n_checkpoints=4",
)

HEAD = ("final_proj.",)

TOP = (*HEAD, "encoder.layer_norm.", "encoder.layers.2.")


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory, dataset: Path) -> Path:
    """One of three layers never learns; first the head learns, then the top layer, then all."""
    run = tmp_path_factory.mktemp("runs") / "staged"
    assert train(run, dataset, *STAGED, TWO_BATCHES) == 0
    return run


def below(run: Path, prefixes: tuple[str, ...]) -> set[str]:
    """The parameters whose names begin so."""
    return {name for name in weights(run, 4) if name.startswith(prefixes)}


def test_first_the_head_learns_then_the_layers_above_the_frozen_ones(staged: Path) -> None:
    names = list(weights(staged, 4))
    stages = ((1, 2, HEAD), (2, 3, TOP), (3, 4, (*TOP, "encoder.layers.1.")))
    for first, last, learning in stages:
        assert changed(staged, first, last) == below(staged, learning)
        # The optimizer keeps nothing of what never learns.
        kept = {names[number] for number in saved_optimizer(staged, last)["state"]}
        assert kept == below(staged, learning)


SHARDED = (
    *("trainer.data_parallelism=fsdp", "trainer.activation_checkpointing.mode=layerwise"),
    "optimizer.name=adamw_offload",
)


@pytest.mark.parametrize("overrides", [(), SHARDED])
def test_two_processes_freeze_what_one_does(
    tmp_path: Path, dataset: Path, staged: Path, overrides: tuple[str, ...]
) -> None:
    """TRAPS, training: freezing after DDP wrapped the model, without find_unused_parameters."""
    run = tmp_path / "run"
    train_with_two(run, dataset, *STAGED, *overrides)
    assert losses(run) == pytest.approx(losses(staged), rel=1e-5)
    assert saved_optimizer(run, 4)["state"].keys() == saved_optimizer(staged, 4)["state"].keys()


def test_a_stage_has_its_share_of_the_rate_within_the_warm_up_too(
    tmp_path: Path, dataset: Path
) -> None:
    """fairseq2 keeps the first rate of the warm-up that the run began with."""
    own = [small(), TWO_BATCHES, "regime.num_steps=6", "dataset.valid_split=null"]
    own += ("lr_scheduler.config.stage_ratio=[0.5, 0.2, 0.3]", "optimizer.config.lr=1e-3")
    stages = "trainer.stages={2: {where: gender = 'male', lr: 5e-4}, 5: {subset: 12}}"
    plain, staged = tmp_path / "plain", tmp_path / "staged"
    assert train(plain, dataset, *own) == 0
    assert train(staged, dataset, *own, stages) == 0
    rates = [row["Learning Rate"] for row in metrics(plain, "train")]
    expected = [*rates[:2], *(rate / 2 for rate in rates[2:5]), rates[5]]
    assert [row["Learning Rate"] for row in metrics(staged, "train")] == pytest.approx(expected)
    assert losses(staged)[:2] == losses(plain)[:2]


SETTINGS: dict[str, Any] = {"lr": 1e-2, "betas": (0.9, 0.98), "eps": 1e-8, "weight_decay": 0.1}


def test_offloaded_steps_are_those_of_pytorch() -> None:
    weights = [torch.randn(7, 5), torch.randn(3)]
    own, theirs = ([torch.nn.Parameter(w.clone()) for w in weights] for _ in range(2))
    optimizers = OffloadedAdamW(own, **SETTINGS), torch.optim.AdamW(theirs, fused=True, **SETTINGS)
    for step in range(5):
        for parameters, optimizer in zip((own, theirs), optimizers, strict=True):
            for number, parameter in enumerate(parameters):
                parameter.grad = torch.full_like(parameter, step - 2.0 + number)
            optimizer.step()
    assert all(torch.equal(one, other) for one, other in zip(own, theirs, strict=True))


def test_an_offloaded_optimizer_continues_from_its_state() -> None:
    (weight, other) = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
    first, second = OffloadedAdamW([weight], **SETTINGS), OffloadedAdamW([other], lr=1.0)
    weight.grad = torch.ones(3)
    first.step()
    second.load_state_dict(first.state_dict())
    other.data = weight.data.clone()
    weight.grad = other.grad = torch.ones(3)
    first.step()
    second.step()
    assert torch.equal(weight, other)
