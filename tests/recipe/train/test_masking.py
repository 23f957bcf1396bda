"""Masking in training."""

from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq2.models.wav2vec2.asr import create_wav2vec2_asr_model
from fairseq2.nn import BatchLayout

from danish_asr.recipe.config.schema import MaskingSection
from danish_asr.recipe.extension import tiny
from danish_asr.recipe.train.masking import (
    effective_masking,
    install_masker,
    masking_faults,
    span_mask,
)
from tests.running import evaluate, train, weights

EMBEDDING = "masker.temporal_mask_embed"

LAYER = "encoder_config: {num_encoder_layers: 1"

MASKED = (
    f"model.config_overrides={{use_masking: true, {LAYER}, model_dim: 32}}}}",
    *("masking.time=0.5", "masking.channel=0.25", "masking.channel_span=8"),
    "regime.num_steps=2",
)


@pytest.mark.parametrize(("share", "masked"), [(0.0, 0.0), (0.2, 0.18), (0.5, 0.39), (1.0, 0.63)])
def test_the_share_of_masked_frames_is_wav2vec2s(share: float, masked: float) -> None:
    torch.manual_seed(1)
    mean = span_mask(torch.full((200,), 1_000), 1_000, share, 10).double().mean().item()
    assert mean == pytest.approx(masked, abs=0.01)


def test_each_row_has_its_own_spans_and_a_short_one_none() -> None:
    """TRAPS, training: a row that is not longer than a span ends the run in fairseq2."""
    torch.manual_seed(1)
    lengths = torch.tensor([0, 5, 10, 100, 1_000] * 50)
    mask = span_mask(lengths, 1_000, 0.5, 10)
    assert not mask[torch.arange(1_000) >= lengths.unsqueeze(1)].any()
    shares = (mask.sum(1) / lengths.clamp(min=1)).view(50, 5).mean(0)
    assert shares[:3].tolist() == [0, 0, 0]
    assert shares[3:].tolist() == pytest.approx([0.41, 0.39], abs=0.03)
    torch.manual_seed(1)
    assert torch.equal(mask, span_mask(lengths, 1_000, 0.5, 10))


def test_what_a_section_leaves_out_is_the_models_own_masking_if_it_masks() -> None:
    config = tiny()
    section = MaskingSection(time_span=7)
    none = MaskingSection(time=0.0, time_span=7, channel=0.0, channel_span=64)
    none.channel_span = config.spatial_mask_span_len
    assert effective_masking(section, config) == none
    config.use_masking = True
    own = MaskingSection(
        time=config.max_temporal_mask_prob,
        time_span=7,
        channel=config.max_spatial_mask_prob,
        channel_span=config.spatial_mask_span_len,
    )
    assert effective_masking(section, config) == own
    assert effective_masking(MaskingSection(time=0.0), config).time == 0


@pytest.mark.parametrize(
    ("channel", "span", "faults"), [(0.1, 143, 0), (0.1, 144, 1), (0.0, 144, 0)]
)
def test_spans_of_all_channels_are_refused(channel: float, span: int, faults: int) -> None:
    section = MaskingSection(channel=channel, channel_span=span)
    found = list(masking_faults(section, tiny()))
    assert [fault.split()[0] for fault in found] == ["masking.channel_span"] * faults


@pytest.mark.parametrize(
    ("time", "channel", "uses"),
    [(0.5, 0.2, True), (0.5, 0.0, True), (0.0, 0.2, False), (0.0, 0.0, False)],
)
def test_a_masker_has_the_parts_that_are_asked_for_and_the_card_says_which(
    time: float, channel: float, *, uses: bool
) -> None:
    section = MaskingSection(time=time, time_span=4, channel=channel, channel_span=8)
    model = create_wav2vec2_asr_model(tiny())
    card = install_masker(model, section, tiny(), seed=1)
    assert card["use_masking"] is uses
    if uses:
        assert [*card.values()] == [True, time, 4, channel, 8]
    assert (EMBEDDING in dict(model.named_parameters())) is uses
    masker: Any = model.masker
    if not time and not channel:
        assert masker is None
        return
    seqs = torch.ones(2, 50, 144)
    masked, mask = masker(seqs, BatchLayout.of(seqs, [50, 3]))
    hidden = (masked == 0).all(dim=1)  # whole channels of a row
    assert hidden.any() == (channel > 0)
    assert mask.any() == (time > 0)
    if uses:
        embed = masker.temporal_mask_embed
        row = masked[0, mask[0]][:, ~hidden[0]]
        assert torch.equal(row, embed[~hidden[0]].expand_as(row))
        trained = embed.detach().clone()
        install_masker(model, section, tiny(), seed=2)
        assert torch.equal(model.get_parameter(EMBEDDING), trained)
        model.masker = None
        install_masker(model, section, tiny(), seed=2)
        assert not torch.equal(model.get_parameter(EMBEDDING), trained)
    assert torch.equal(masked[~mask][:, ~hidden.any(0)], seqs[~mask][:, ~hidden.any(0)])


@pytest.fixture(scope="module")
def masked_run(tmp_path_factory: pytest.TempPathFactory, dataset: Path) -> Path:
    run = tmp_path_factory.mktemp("runs") / "masked"
    assert train(run, dataset, *MASKED) == 0
    return run


@pytest.mark.parametrize(
    ("start", "options", "masked"),
    [
        ("finished_run", ["masking.time=0.3"], True),
        ("masked_run", [], True),
        ("masked_run", ["masking.time=0", "masking.channel=0"], False),
    ],
)
def test_a_trained_model_starts_a_run_with_and_without_masking(
    tmp_path: Path,
    dataset: Path,
    request: pytest.FixtureRequest,
    start: str,
    options: list[str],
    *,
    masked: bool,
) -> None:
    """TRAPS, names: use_masking fails for a checkpoint that has no mask embedding."""
    first: Path = request.getfixturevalue(start)
    named = [
        *(f"model={{path: {first}}}", *options),
        f"common.assets.extra_paths=[{dataset}/cards, {first}/cards]",
        *("optimizer.config.lr=1e-12", "regime.num_steps=1"),
    ]
    assert train(tmp_path / "run", dataset, *named) == 0
    saved = weights(tmp_path / "run", 1)
    assert (EMBEDDING in saved) == masked
    if masked and start == "masked_run":
        torch.testing.assert_close(saved[EMBEDDING], weights(first, 2)[EMBEDDING])
    assert evaluate(tmp_path / "run", dataset, *named) == 0
