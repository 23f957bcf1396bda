"""What validation measures: all rows together, subsets in their shares, values of zero."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.nn.functional import ctc_loss

from danish_asr.inference.model import load_model
from danish_asr.metrics import ErrorCounts, compute_wer
from danish_asr.recipe.config.training_sections import RegimeSection
from danish_asr.recipe.data.audio import decode
from danish_asr.recipe.data.index import DanishAsrDataset
from danish_asr.recipe.data.targets import FrameCount
from danish_asr.recipe.run.advice import LOSS
from danish_asr.recipe.run.run import SCORE_TITLES
from danish_asr.recipe.train.validation import ErrorRates, PatienceStopper, _table, rates_of
from danish_asr.scoring.predictions import read_predictions
from danish_asr.text.profiles import normalize
from tests.running import evaluate, metrics, train


def rates(*rows: tuple[str, str], profile: str = "raw") -> dict[str, float]:
    """The rates of references and hypotheses, of which the first are of the dialect a, b, ..."""
    groups = [f"dialect/{letter}" for letter in "abc"[: len(rows)]]
    parts = [ErrorRates(groups, profile) for _ in rows]  # as of so many processes
    for part, group, (reference, hypothesis) in zip(parts, groups, rows, strict=True):
        part.update([reference], [hypothesis], [[group]])
    parts[0].merge_state(parts[1:])
    return rates_of(parts[0].compute())


def test_counts_of_processes_add_up_and_the_worst_dialect_is_one_of_them() -> None:
    rows = [("en to", "en"), ("tre", "tre fire"), ("fem seks", "fem sek")]
    measured = rates(*rows)
    references, hypotheses = zip(*rows, strict=True)
    assert measured["wer"] == pytest.approx(100 * compute_wer(hypotheses, references))
    assert measured["worst_group_wer"] == measured["wer/dialect/b"] == 100.0


def test_the_worst_dialect_has_words_and_a_name() -> None:
    assert rates_of({"all": ErrorCounts()}).keys() == {"wer", "cer"}
    groups = ["dialect/a", "dialect/b", "dialect/unknown", "dev"]
    unit = ErrorRates([*groups, "dialect/c"], "raw")
    unit.update(["en", "", "en", "en"], ["en", "ja", "to", "to"], [[group] for group in groups])
    found = rates_of(unit.compute())
    assert found["worst_group_wer"] == found["wer/dialect/a"] == 0.0
    assert (found["wer/dialect/unknown"], found["wer/dev"]) == (100.0, 100.0)
    assert "wer/dialect/c" not in found


def test_the_table_has_all_rows_first_and_then_the_worst_groups() -> None:
    counts = ErrorRates(["a", "b"], "raw")
    counts.update(["en to", "tre"], ["en to", "fire"], [["a"], ["b"]])
    lines = [line.split() for line in _table(counts.compute()).splitlines()]
    assert [line[0] for line in lines] == ["group", "all", "b", "a"]
    assert lines[1][1:] == ["33.33", "25.00", "2", "3"]


@pytest.mark.parametrize(
    ("rates", "steps", "stops"),
    [([50, 60], 9, False), ([50, 60, 61], 9, True), ([50, 60, 61], 3, False)],
)
def test_patience_counts_the_validations_of_the_directory_unless_the_run_ends_anyway(
    tmp_path: Path, logged: list[str], rates: list[float], steps: int, *, stops: bool
) -> None:
    regime = RegimeSection(num_steps=steps, early_stopping_patience=2)
    stopper = PatienceStopper(tmp_path, regime)
    assert not stopper.exhausted
    rows = [{"Step": step, SCORE_TITLES["wer"]: rate} for step, rate in enumerate(rates, 1)]
    (tmp_path / "metrics").mkdir()
    file = tmp_path / "metrics" / "valid.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert stopper.should_stop(3, 0.0) is stops
    assert (stopper.exhausted, stopper.reason is not None) == (stops, stops)
    assert logged == [f"Stopping early: {stopper.reason}."] * stops
    (tmp_path / "checkpoints" / "step_3").mkdir(parents=True)
    assert PatienceStopper(tmp_path, regime).exhausted is stops
    (tmp_path / "checkpoints" / "step_3").rename(tmp_path / "checkpoints" / "step_2")
    assert not PatienceStopper(tmp_path, regime).exhausted  # the third is not saved


def test_zero_and_a_missing_hypothesis_are_values() -> None:
    """TRAPS, validation: a WER below 1 % or an all-blank hypothesis ends upstream's run."""
    assert rates(("to ord", "to ord"))["wer"] == 0.0
    assert rates(("to ord", ""))["wer"] == 100.0


def test_the_character_error_rate_is_that_of_a_named_profile() -> None:
    """TRAPS, validation: upstream's unit error rate is one over tokens of the raw text."""
    row = ("Det koster 25 %!", "det koster femogtyve procent")
    assert rates(row, profile="coral")["cer"] == 0.0
    assert rates(row, profile="raw")["cer"] > 0.0


def with_dev_texts(dataset: Path, root: Path, texts: Sequence[str]) -> str:
    """Copy a dataset; give rows of dev, in turn, these texts. Returns an override that names it."""
    shutil.copytree(dataset, root)
    left = iter(texts)
    for path in sorted(root.glob("version=0/*/split=dev/**/*.parquet")):
        table = pq.read_table(path, partitioning=None)
        values = [next(left, text) for text in table["text"].to_pylist()]
        place = table.column_names.index("text")
        pq.write_table(table.set_column(place, "text", pa.array(values, pa.string())), path)
    return f"dataset.config_overrides={{data: {root}}}"


def losses_of_dev(run: Path, root: Path) -> tuple[dict[str, float], dict[str, int]]:
    """By torch: the finite losses, in nats, of dev's texts that are not empty, and their tokens."""
    model, index = load_model(run, device="cpu"), DanishAsrDataset(root).read_index("dev")
    waveforms = [np.empty(samples, np.float32) for samples in index.lengths]
    for row, waveform in enumerate(waveforms):
        decode(index.audio.read(row), waveform)
    encode, found, tokens = model.tokenizer.create_encoder(), {}, {}
    for number, log_probs in enumerate(model.log_probs(waveforms)):
        target = encode(normalize(index.rows["text"][number], "coral"))
        sizes = torch.tensor([len(log_probs)]), torch.tensor([len(target)])
        nats = ctc_loss(log_probs[:, None], target[None], *sizes, reduction="sum").item()
        if len(target) and nats < float("inf"):
            found[index.rows["id"][number]] = nats
            tokens[index.rows["id"][number]] = len(target)
    return found, tokens


def test_the_loss_is_the_mean_of_the_rows_with_a_target_that_fits_and_wer_is_of_all(
    tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once a pad symbol was the target of a text that the profile empties: 2.9 in place of 0.04."""
    root, run = tmp_path / "tiny", tmp_path / "run"
    frames = FrameCount()(int(DanishAsrDataset(dataset).read_index("dev").lengths[2]))
    texts = ["... !!! ???", "det regner ofte på fyn " * 60]
    texts += [("ab" * frames)[:count] for count in (frames, frames + 1)]
    data = with_dev_texts(dataset, root, texts)
    assert train(run, dataset, data, "regime.num_steps=2") == 0
    (row,) = metrics(run, "valid")
    nats, sizes = losses_of_dev(run, root)
    assert row[LOSS] == pytest.approx(sum(nats.values()) / sum(sizes.values()), rel=1e-4)
    assert row["Number of Examples"] == 12
    counts = f"{12 - len(nats)} of 12 rows"
    assert capsys.readouterr().err.count(counts) == 1

    assert evaluate(run, dataset, data, "evaluator.split=dev") == 0
    assert capsys.readouterr().err.count(counts) == 1
    folder = Path("eval", "best", "dev")
    losses = read_predictions(run / folder / "predictions.jsonl").set_index("id")["loss"].dropna()
    expected = {key: loss / sizes[key] for key, loss in nats.items()}
    assert losses.to_dict() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("metric", "status"), [("wer", 2), ("loss", 1)])
def test_a_run_cannot_be_judged_by_rows_without_targets(
    metric: str, status: int, tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = with_dev_texts(dataset, tmp_path / "tiny", 12 * ["?!"])
    values = (data, "regime.num_steps=2", f"regime.score_metric={metric}")
    assert train(tmp_path / "run", dataset, *values) == status
    assert "regime.score_metric" in capsys.readouterr().err


def test_rows_without_a_dialect_are_a_group_that_is_never_the_worst(
    tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = shutil.copytree(dataset, tmp_path / "tiny")
    dev = sorted(root.glob("version=0/*/split=dev/**/*.parquet"))
    for path in dev:
        table = pq.read_table(path, partitioning=None)
        place = table.column_names.index("dialect")
        dialects = ["Fynsk", *[None] * (len(table) - 1)]
        pq.write_table(table.set_column(place, "dialect", pa.array(dialects, pa.string())), path)
    run, data = tmp_path / "run", f"dataset.config_overrides={{data: {root}}}"
    assert train(run, dataset, data, "regime.num_steps=2") == 0
    assert "\ndialect/Fynsk " in capsys.readouterr().err
    (row,) = metrics(run, "valid")
    fynsk, unknown = row["wer/dialect/Fynsk"], row["wer/dialect/unknown"]
    assert row["WER of the worst dialect"] == fynsk
    assert "wer/dev" not in row  # the only split
    assert min(fynsk, unknown) <= row["Word Error Rate (WER)"] <= max(fynsk, unknown)


def test_two_splits_give_one_score_over_all_rows(tmp_path: Path, dataset: Path) -> None:
    """TRAPS, validation: upstream's score of several splits is the sum of their WERs."""
    run = tmp_path / "run"
    splits = "dev_coral_read_aloud,dev_coral_conversation"
    chosen = [f"dataset.valid_split='{splits}'", "regime.score_metric=loss"]
    assert train(run, dataset, "regime.num_steps=2", *chosen) == 0
    (row,) = metrics(run, "valid")
    assert row["Number of Examples"] == 12
    assert {"wer/dev_coral_read_aloud", "wer/dev_coral_conversation"} <= row.keys()
    score = float((run / "checkpoints" / "scores" / "step_2.txt").read_text())
    assert score == pytest.approx(-row[LOSS])
