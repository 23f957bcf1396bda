"""Kept log-probabilities of several models as one."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor

from danish_asr.base.errors import LogProbsError
from danish_asr.decoding.ensemble import Ensemble
from danish_asr.decoding.log_probs import average, keep, to_batch, write_batches

VOCABULARY = 12


def model(seed: int) -> dict[str, Tensor]:
    """What a model gives for three rows of different lengths."""
    random = torch.Generator().manual_seed(seed)
    lengths = {"a": 9, "b": 4, "c": 0}
    return {
        name: 3 * torch.randn(frames, VOCABULARY, generator=random)
        for name, frames in lengths.items()
    }


def write(file: Path, rows: Mapping[str, Tensor], batches: list[list[str]]) -> Path:
    about = json.dumps({"vocabulary": VOCABULARY})
    write_batches(
        file,
        [
            to_batch(
                [json.dumps({"id": name}) for name in names],
                [keep(rows[name][None], [len(rows[name])])[0] for name in names],
                about,
            )
            for names in batches
        ],
    )
    return file


def test_rows_are_averaged_whatever_their_order_and_batches(tmp_path: Path) -> None:
    models = [model(1), model(2), model(3)]
    orders = [[["a", "b"], ["c"]], [["c"], ["b"], ["a"]], [["b", "c", "a"]]]
    files = [
        write(tmp_path / f"{number}.arrow", rows, order)
        for number, (rows, order) in enumerate(zip(models, orders, strict=True))
    ]
    together = Ensemble(files)
    found = {
        json.loads(row)["id"]: log_probs
        for number in range(len(together))
        for row, log_probs in together.log_probs(number)
    }
    assert [*found] == ["a", "b", "c"]
    for name, log_probs in found.items():
        exact = sum(rows[name].softmax(dim=-1) for rows in models) / 3
        assert torch.allclose(log_probs.exp(), torch.as_tensor(exact), atol=2e-3)


def test_an_average_is_a_distribution() -> None:
    log_probs = average([model(seed)["a"].log_softmax(dim=-1) for seed in range(3)])
    assert torch.allclose(log_probs.exp().sum(dim=-1), torch.ones(9), atol=1e-6)


def test_other_frame_rates_and_missing_rows_are_refused(tmp_path: Path) -> None:
    one = write(tmp_path / "one.arrow", model(1), [["a", "b", "c"]])
    half = {name: rows[::2] for name, rows in model(2).items()}
    other = write(tmp_path / "half.arrow", half, [["a", "b", "c"]])
    with pytest.raises(LogProbsError, match=r"frame rates.* a are 9 in .*, 5 in"):
        Ensemble([one, other]).agreement()
    fewer = write(tmp_path / "fewer.arrow", model(2), [["a", "b"]])
    with pytest.raises(LogProbsError, match=r"fewer\.arrow: has no row c"):
        Ensemble([one, fewer]).agreement()


def test_the_agreement_is_that_of_symbols_in_the_same_frames(tmp_path: Path) -> None:
    symbols = torch.tensor([0, 5, 0, 7, 7, 0, 3, 0, 0])
    rows = {"a": 20 * torch.nn.functional.one_hot(symbols, VOCABULARY).float()}
    later = {"a": rows["a"].roll(1, dims=0)}
    one = write(tmp_path / "one.arrow", rows, [["a"]])
    other = write(tmp_path / "later.arrow", later, [["a"]])
    same, shifted = Ensemble([one, one]).agreement(), Ensemble([one, one, other]).agreement()
    assert (same.share, same.warning()) == (1, None)
    assert shifted.share == 0.25  # of four, one 7 is at the same place
    assert "25%" in str(shifted.warning())
