"""Masking in training."""

from pathlib import Path

import pytest
import torch

from danish_asr.recipe.train.masking import span_mask
from tests.running import evaluate, train, weights

EMBEDDING = "masker.temporal_mask_embed"


LAYER = "encoder_config: {num_encoder_layers: 1"


MASKED = (
    f"model.config_overrides={{use_masking: true, {LAYER}, model_dim: 32}}}}",
    *("masking.time=0.5", "masking.channel=0.25", "masking.channel_span=8"),
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
        torch.testing.assert_close(saved[EMBEDDING], weights(first, 4)[EMBEDDING])
    assert evaluate(tmp_path / "run", dataset, *named) == 0


def test_spans_of_all_channels_are_refused(
    tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(tmp_path / "run", dataset, "masking={channel: 0.1, channel_span: 999}") == 2
    assert "- masking.channel_span " in capsys.readouterr().err
