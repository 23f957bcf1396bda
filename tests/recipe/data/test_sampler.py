import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fairseq2.data.tokenizers import Tokenizer
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from danish_asr.base.errors import ConfigError, DatasetError
from danish_asr.recipe.config.schema import (
    DatasetSection,
    StorageSection,
    TaskSection,
    WeightConfig,
)
from danish_asr.recipe.data.index import DanishAsrDataset
from danish_asr.recipe.data.sampler import (
    BUCKETING_ROWS,
    Batches,
    BatchLimits,
    Sharding,
    TrainingEpochs,
    epoch_entries,
    evaluation_batches,
    mix_table,
    repeats_of,
    training_batches,
)
from danish_asr.recipe.data.targets import FrameCount, Targets
from tests.shards import task, utterance, write_dataset, write_shard

Lengths = NDArray[np.int32]
LENGTHS = st.lists(st.integers(1, 320_000), min_size=1, max_size=300).map(
    lambda values: np.array(values, np.int32)
)
TASKS = st.builds(
    task,
    max_num_elements=st.integers(1, 2_000_000),
    num_seqs_multiple_of=st.integers(1, 8),
    example_shuffle_window=st.integers(0, 1),
    batch_shuffle_window=st.integers(0, 1),
)


def batches_of(lengths: Lengths, config: TaskSection, *, seed: int = 1, epoch: int = 0) -> Batches:
    """Training batches of rows in row groups of ten."""
    rows = np.arange(len(lengths), dtype=np.int32)
    section = DatasetSection(asr_task_config=config)
    return training_batches(lengths, rows // 10, rows, section, seed=seed, epoch=epoch)


def as_lists(batches: Batches) -> list[list[int]]:
    return [part.tolist() for part in np.split(batches.rows, batches.offsets[1:-1])]


@given(LENGTHS, TASKS)
def test_batches_hold_every_row_once_and_exceed_no_limit_but_for_a_single_longer_row(
    lengths: Lengths, config: TaskSection
) -> None:
    limits = BatchLimits(config.max_num_elements, config.num_seqs_multiple_of)
    evaluated = evaluation_batches(lengths, limits)
    for batches in (batches_of(lengths, config), evaluated):
        samples, counts = batches.padded_samples(lengths), np.diff(batches.offsets)
        assert sorted(batches.rows.tolist()) == list(range(len(lengths)))
        assert ((counts == 1) | (samples <= config.max_num_elements)).all()
    assert evaluated.memory(lengths)[0] == evaluated.memory(lengths).max()


@given(LENGTHS, TASKS, st.integers(1, 3), st.integers(1, 3), st.integers(0, 4))
def test_the_largest_batches_that_are_left_fill_the_next_two_steps_from_small_to_large(
    lengths: Lengths, config: TaskSection, world: int, accumulate: int, position: int
) -> None:
    batches = batches_of(lengths, config)
    position = min(position, len(batches))
    steps = min(2, (len(batches) - position) // (world * accumulate))
    end = position + steps * world * accumulate

    order = Sharding(0, world, accumulate).largest_first(batches.memory(lengths), position)
    ordered = batches.take(order)

    before, after, memory = as_lists(batches), as_lists(ordered), ordered.memory(lengths)
    assert memory[end:].max(initial=0) <= memory[position:end].min(initial=np.inf)
    assert after[:position] == before[:position]
    others = [batch for batch in before[position:] if batch in after[end:]]
    assert after[end:] == others, "they keep their order"
    # What the processes read at the same time, in the order of reading.
    together = memory[position:end].reshape(steps, world, accumulate).swapaxes(1, 2).ravel()
    assert (np.diff(together) >= 0).all()


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [
        # Upstream rounds 960,000 down to a multiple of max_audio_len (TRAPS, max_num_elements).
        ({}, [20] * 5),
        # A row of 3 s counts as 3 + 3²/6 = 4.5 s.
        ({"quadratic": 96_000}, [13] * 7 + [9]),
        ({"multiple_of": 8}, [16] * 6 + [4]),
    ],
)
def test_full_batches_use_the_limit(limits: dict[str, Any], sizes: list[int]) -> None:
    equal = np.full(100, 48_000, np.int32)
    batches = evaluation_batches(equal, BatchLimits(max_samples=960_000, **limits))
    assert np.diff(batches.offsets).tolist() == sizes


def test_the_limits_of_batches_are_those_of_the_keys_and_evaluation_has_its_own() -> None:
    section = DatasetSection(
        asr_task_config=task(max_num_elements=1_000, num_seqs_multiple_of=4), quadratic_seconds=6
    )
    assert BatchLimits.of(section) == (1_000, 4, 96_000)
    assert BatchLimits.of_evaluation(section) == (1_000, 4, None)
    section.valid_max_num_elements = "2.5x"
    assert BatchLimits.of_evaluation(section) == (2_500, 4, None)
    assert BatchLimits.of_evaluation(DatasetSection(valid_max_num_elements=7)).max_samples == 7


def test_memory_counts_padding_and_the_attention_of_a_long_row_as_much_as_all_else() -> None:
    lengths = np.array([350 * 16_000, 350 * 8_000, 10], np.int32)
    batches = Batches(np.arange(3, dtype=np.int32), np.array([0, 2, 3]))
    assert batches.padded_samples(lengths).tolist() == [2 * 350 * 16_000, 10]
    assert batches.memory(lengths) == pytest.approx([2 * 2 * 350 * 16_000, 10], rel=1e-5)
    assert batches.padding(lengths) == pytest.approx(1 / 4, abs=1e-5)


def test_neighbouring_rows_are_sorted_together_and_batches_keep_their_order() -> None:
    lengths = np.random.default_rng(1).integers(8_000, 80_000, 2 * BUCKETING_ROWS).astype(np.int32)
    config = task(max_num_elements=161_000, example_shuffle_window=1, batch_shuffle_window=1)
    in_order = as_lists(batches_of(lengths, config))
    # The rows that are sorted together come before all others.
    assert BUCKETING_ROWS in np.cumsum([len(batch) for batch in in_order])


@pytest.mark.parametrize("keep_all", [False, True], ids=["training", "evaluation"])
@given(lengths=LENGTHS, config=TASKS, world=st.integers(1, 5), accumulate=st.integers(1, 4))
def test_a_row_goes_to_one_process_and_only_training_leaves_out_fewer_rows_than_processes(
    *, lengths: Lengths, config: TaskSection, world: int, accumulate: int, keep_all: bool
) -> None:
    batches = batches_of(lengths, config)
    shards = [Sharding(rank, world, accumulate) for rank in range(world)]
    steps = [shard.steps(batches, 0, keep_all=keep_all) for shard in shards]

    spans = [span for own in steps for step in own for span in step]
    read = [row for span in spans for row in batches.rows[slice(*span)].tolist()]
    assert all(begin < end for begin, end in spans), "no batch is empty"
    assert len({*read}) == len(read)
    assert len(lengths) - len(read) in (range(1) if keep_all else range(world))
    if not keep_all:  # all processes read as many batches in a step
        for step in zip(*steps, strict=True):
            (count,) = {len(own) for own in step}
            assert 0 < count <= accumulate


KEPT = np.arange(50, dtype=np.int32)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> DanishAsrDataset:
    counts = {("a", "train"): 40, ("b", "train"): 10, ("c", "test"): 5}
    return DanishAsrDataset(write_dataset(tmp_path_factory.mktemp("d"), counts))


def times(repeats: NDArray[np.float64], epoch: int) -> NDArray[np.int64]:
    """How often an epoch shows each row."""
    return np.bincount(epoch_entries(KEPT, repeats, seed=1, epoch=epoch), minlength=50)


def epochs_of(
    dataset: DanishAsrDataset, tokenizer: Tokenizer, config: TaskSection, **options: Any
) -> TrainingEpochs:
    section = DatasetSection(
        asr_task_config=config,
        mixture_parquet_storage_config=StorageSection(beta_corpus=options.pop("beta", None)),
        **options,
    )
    index = dataset.read_index("train").with_targets("raw")
    return TrainingEpochs(index, Targets(tokenizer), FrameCount(), section, seed=1)


@pytest.mark.parametrize(("window", "expected"), [(0, "7aff4afabaef87c3"), (1, "7198ff3b1fd16ba1")])
def test_rows_batches_speeds_and_steps_of_epochs_are_fixed(
    dataset: DanishAsrDataset, tokenizer: Tokenizer, window: int, expected: str
) -> None:
    """A run continues with the batches that it would have read, also after an update."""
    config = task(batch_shuffle_window=window, example_shuffle_window=window, min_audio_len=8_100)
    epochs = epochs_of(
        dataset, tokenizer, config, beta=0.5, speed_factors=[0.9, 1, 1.1], quadratic_seconds=20
    )
    parts: list[Any] = [epochs.kept.tolist()]
    for batches, lengths, speeds in map(epochs.make, (0, 1)):
        parts += [as_lists(batches), lengths.tolist(), speeds.tolist()]
        parts += [
            Sharding(rank, 2, 2).steps(batches, place, keep_all=keep_all)
            for rank, place, keep_all in ((0, 0, False), (1, 3, True))
        ]
        parts.append(Sharding(0, 2, 2).largest_first(batches.memory(lengths), 1).tolist())
    assert hashlib.sha256(str(parts).encode()).hexdigest()[:16] == expected


# 16,000 samples are 49 frames, 14,545 (at a speed of 1.1) are 45, 17,778 (at 0.9) are 55.
@pytest.mark.parametrize(
    ("limits", "text", "factor", "played"),
    [
        ({"min_audio_len": 14_546}, "hej", 1.1, 16_000),
        ({"min_audio_len": 14_545}, "hej", 1.1, 14_545),
        ({"max_audio_len": 17_777}, "hej", 0.9, 16_000),
        ({"max_num_elements": 17_777}, "hej", 0.9, 16_000),
        ({"max_num_elements": 17_778, "max_audio_len": 17_778}, "hej", 0.9, 17_778),
        ({}, "ab" * 23, 1.1, 16_000),
        ({}, "ab" * 22 + "a", 1.1, 14_545),
    ],
)
def test_a_row_that_would_break_a_limit_keeps_its_own_speed(
    tmp_path: Path,
    tokenizer: Tokenizer,
    *,
    limits: dict[str, Any],
    text: str,
    factor: float,
    played: int,
) -> None:
    write_shard(tmp_path, [utterance(0, audio_size=16_000, text=text)])
    dataset = DanishAsrDataset(tmp_path)

    epochs = epochs_of(dataset, tokenizer, task(**limits), speed_factors=[factor])

    assert epochs.make(0).lengths.tolist() == [played]


def test_a_limit_below_the_longest_utterance_and_filters_that_leave_none_are_refused(
    dataset: DanishAsrDataset, tokenizer: Tokenizer
) -> None:
    # Upstream rounds it down to 0 and fails elsewhere (TRAPS).
    longest = int(dataset.read_index("train").lengths.max())
    with pytest.raises(ConfigError, match=f"max_num_elements must be at least {longest}"):
        epochs_of(dataset, tokenizer, task(max_num_elements=longest - 1))
    epochs_of(dataset, tokenizer, task(max_num_elements=longest))
    with pytest.raises(DatasetError, match="the filters leave none of its 50 utterances"):
        epochs_of(dataset, tokenizer, task(min_audio_len=longest + 1))


def test_an_epoch_shows_corpora_by_their_shares_and_every_row_at_least_once(
    dataset: DanishAsrDataset,
) -> None:
    """TRAPS, data reading: upstream's weights depend on the rows of the TSV per split."""
    index = dataset.read_index("train")
    repeats = repeats_of(index, KEPT, 0.5)
    table = mix_table(index, KEPT, repeats)

    is_b = (index.rows["corpus"] == "b").to_numpy().astype(int)
    roots = np.sqrt(np.bincount(is_b, index.lengths))
    shares = (roots / roots.sum()).tolist()
    shown = np.bincount(is_b, index.lengths * times(repeats, 0))
    assert re.findall(r"\S+%", table) == [f"{share:.1%}" for share in shares]
    assert shown / shown.sum() == pytest.approx(shares, abs=0.02)
    assert times(repeats, 0).min() == 1
    assert repeats_of(index, KEPT, None).tolist() == [1] * 50
    # Of hours that the filters leave, of which b has twice the share, each row comes more often.
    half = repeats_of(index, KEPT[:45], 1.0)
    assert half[0] == 1
    b = index.lengths[40:]
    assert half[40:] == pytest.approx([b.sum() / b[:5].sum()] * 5)


def test_a_row_comes_as_often_as_the_product_of_its_factors_says(dataset: DanishAsrDataset) -> None:
    factors = {"corpus = 'b'": 2.5, "dialect = 'Fynsk'": 0.3}
    weights = [WeightConfig(where=where, factor=factor) for where, factor in factors.items()]
    index = dataset.read_index("train", weights=weights)
    base = repeats_of(dataset.read_index("train"), KEPT, 0.0)
    is_fynsk = (index.rows["dialect"] == "Fynsk").fill_null(value=False).to_numpy()
    expected = np.where(KEPT >= 40, 2.5, 1.0) * base * np.where(is_fynsk, 0.3, 1.0)

    repeats = repeats_of(index, KEPT, 0.0)

    mean = np.mean([times(repeats, epoch) for epoch in range(200)], axis=0)
    assert mean == pytest.approx(expected, abs=1 / 200)
    lines = mix_table(index, KEPT, repeats).splitlines()[1:]
    hours = index.lengths / 16_000 / 3600
    for line, rows in zip(lines, (KEPT < 40, KEPT >= 40, KEPT >= 40, is_fynsk), strict=True):
        own, shown = hours[rows].sum(), (hours * repeats)[rows].sum()
        part = shown / (hours * repeats).sum()
        assert line.split()[-4:] == [
            *(str(rows.sum()), f"{own:.2f}", f"{part:.1%}", f"{shown / own:.2f}")
        ]


def test_weights_leave_every_epoch_a_row() -> None:
    shown = [times(np.full(50, 0.015), epoch) for epoch in range(200)]
    assert min(one.sum() for one in shown) == 1  # not 0, as 0.75 rows may be
    assert np.sum(shown, axis=0).min() > 0
