from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from danish_asr.data.plan import (
    BatchRule,
    Plan,
    Shuffling,
    deal,
    left_over,
    plan_evaluation,
    plan_training,
)

Lengths = NDArray[np.int32]

LENGTHS = st.lists(st.integers(1, 320_000), min_size=1, max_size=300).map(
    lambda values: np.array(values, np.int32)
)
RULES = st.builds(
    BatchRule,
    max_elements=st.integers(1, 2_000_000),
    max_rows=st.none() | st.integers(1, 20),
    multiple_of=st.integers(1, 8),
)
SHUFFLINGS = st.builds(Shuffling, st.integers(0, 50), st.integers(0, 10))
ALL = Shuffling(0, 0)
NONE = Shuffling(1, 1)


def training_plan(
    lengths: Lengths,
    rule: BatchRule,
    shuffling: Shuffling = ALL,
    *,
    seed: int = 1,
    epoch: int = 0,
    drop_remainder: bool = False,
    max_batches: int | None = None,
) -> Plan:
    rows = np.arange(len(lengths), dtype=np.int32)
    return plan_training(
        lengths,
        rows // 10,
        rows,
        rule,
        shuffling,
        seed=seed,
        epoch=epoch,
        drop_remainder=drop_remainder,
        max_batches=max_batches,
    )


def coral_like_lengths(count: int) -> Lengths:
    return np.random.default_rng(0).integers(16_000, 320_000, count).astype(np.int32)


@given(LENGTHS, RULES, SHUFFLINGS)
def test_a_training_plan_holds_every_row_once(
    lengths: Lengths, rule: BatchRule, shuffling: Shuffling
) -> None:
    plan = training_plan(lengths, rule, shuffling)

    assert sorted(plan.rows.tolist()) == list(range(len(lengths)))
    assert plan.offsets[0] == 0
    assert plan.offsets[-1] == len(lengths)
    assert (np.diff(plan.offsets) > 0).all()


@given(LENGTHS, RULES, SHUFFLINGS)
def test_no_batch_exceeds_its_limits_but_a_single_row_that_is_longer(
    lengths: Lengths, rule: BatchRule, shuffling: Shuffling
) -> None:
    for plan in (training_plan(lengths, rule, shuffling), plan_evaluation(lengths, rule)):
        for samples, count in zip(plan.padded_samples(lengths), np.diff(plan.offsets), strict=True):
            assert count == 1 or samples <= (rule.max_elements or 0)
            assert rule.max_rows is None or count <= rule.max_rows


def test_the_limit_is_used_to_the_last_sample_where_lengths_are_equal() -> None:
    # Upstream rounds 960,000 down to a multiple of max_audio_len (TRAPS, max_num_elements).
    lengths = np.full(100, 48_000, np.int32)

    plan = plan_evaluation(lengths, BatchRule(max_elements=960_000))

    assert plan.padded_samples(lengths).tolist() == [960_000] * 5


@given(LENGTHS, st.integers(2, 8))
def test_full_batches_hold_a_multiple_of_the_wanted_number(lengths: Lengths, multiple: int) -> None:
    plan = plan_evaluation(lengths, BatchRule(max_elements=1_000_000, multiple_of=multiple))

    sizes = np.diff(plan.offsets)[:-1]
    assert ((sizes % multiple == 0) | (sizes < multiple)).all()


def test_static_batches_hold_the_wanted_number_but_for_the_last() -> None:
    plan = training_plan(coral_like_lengths(5_003), BatchRule(max_elements=None, max_rows=30))

    assert sorted(np.diff(plan.offsets).tolist()) == [5_003 % 30] + [30] * (5_003 // 30)


@pytest.mark.parametrize("window", [0, 1, 1_000, 2_000])
def test_padding_is_at_most_five_percent_on_lengths_of_1_to_20_seconds(window: int) -> None:
    lengths = coral_like_lengths(20_000)
    rule = BatchRule(max_elements=3_840_000, multiple_of=8)

    plan = training_plan(lengths, rule, Shuffling(window, 1))

    assert plan.padding(lengths) <= 0.05


def test_an_evaluation_plan_begins_with_the_longest_rows() -> None:
    lengths = coral_like_lengths(500)

    plan = plan_evaluation(lengths, BatchRule(max_elements=1_000_000))

    assert (np.diff(lengths[plan.rows]) <= 0).all()


def test_a_plan_is_a_function_of_seed_and_epoch() -> None:
    lengths, rule = coral_like_lengths(500), BatchRule(max_elements=1_000_000)
    plans = {
        (seed, epoch): training_plan(lengths, rule, seed=seed, epoch=epoch).rows.tobytes()
        for seed, epoch in itertools.product((1, 2), (0, 1))
    }

    assert training_plan(lengths, rule, seed=2, epoch=1).rows.tobytes() == plans[2, 1]
    assert len(set(plans.values())) == 4


def test_a_row_meets_other_rows_in_the_next_epoch() -> None:
    lengths, rule = coral_like_lengths(3_000), BatchRule(max_elements=1_000_000)

    def companions(epoch: int) -> set[frozenset[int]]:
        plan = training_plan(lengths, rule, epoch=epoch)
        return {frozenset(plan.batch(number).tolist()) for number in range(len(plan))}

    first, second = companions(0), companions(1)
    assert len(first & second) < len(first) / 10


def test_a_window_of_one_keeps_row_groups_together_and_zero_mixes_everything() -> None:
    # example_shuffle_window: 0 is upstream's documented default, which it asserts away (TRAPS).
    lengths = np.full(20_000, 16_000, np.int32)
    rule = BatchRule(max_elements=None, max_rows=10)

    kept = training_plan(lengths, rule, NONE)
    mixed = training_plan(lengths, rule, Shuffling(0, 1))

    assert all(len(set(batch)) == 1 for batch in (kept.rows.reshape(-1, 10) // 10).tolist())
    spread = mixed.rows.reshape(-1, 10).max(axis=1) - mixed.rows.reshape(-1, 10).min(axis=1)
    assert spread.mean() > 10_000


def test_row_groups_come_in_another_order_in_each_epoch_even_without_shuffling() -> None:
    lengths = np.full(200, 16_000, np.int32)
    rule = BatchRule(max_elements=None, max_rows=10)

    orders = [training_plan(lengths, rule, NONE, epoch=epoch).rows[::10] for epoch in (0, 1)]

    assert orders[0].tolist() != orders[1].tolist()


def test_a_batch_window_of_one_leaves_the_batches_in_the_order_of_their_rows() -> None:
    lengths, rule = coral_like_lengths(4_000), BatchRule(max_elements=1_000_000)

    plan = training_plan(lengths, rule, NONE)

    longest = lengths[plan.rows[plan.offsets[:-1]]]
    # Not from long to short, as they were cut.
    assert abs(np.corrcoef(np.arange(len(longest)), longest)[0, 1]) < 0.5


def test_a_batch_window_shuffles_neighbours_only() -> None:
    lengths, rule = coral_like_lengths(8_000), BatchRule(max_elements=1_000_000)
    kept = training_plan(lengths, rule, Shuffling(1, 1))
    place = {int(row): number for number in range(len(kept)) for row in kept.batch(number)}

    shuffled = training_plan(lengths, rule, Shuffling(1, 5))
    moves = [abs(place[int(shuffled.batch(n)[0])] - n) for n in range(len(shuffled))]

    assert 0 < max(moves) < 5


def test_drop_remainder_leaves_out_only_a_last_batch_that_is_not_full() -> None:
    rule = BatchRule(max_elements=None, max_rows=30)
    full, short = np.full(90, 16_000, np.int32), np.full(95, 16_000, np.int32)

    assert len(training_plan(full, rule, drop_remainder=True).rows) == 90
    assert len(training_plan(short, rule, drop_remainder=True).rows) == 90
    assert len(training_plan(short, rule).rows) == 95


def test_max_batches_shortens_the_epoch() -> None:
    plan = training_plan(coral_like_lengths(500), BatchRule(max_elements=1_000_000), max_batches=7)

    assert len(plan) == 7
    assert len(set(plan.rows.tolist())) == len(plan.rows)


def test_a_repeated_row_stands_in_the_plan_as_often_and_apart_from_its_copies() -> None:
    lengths = np.full(1_000, 16_000, np.int32)
    entries = np.repeat(np.arange(1_000, dtype=np.int32), 3)

    plan = plan_training(
        lengths,
        (np.arange(1_000) // 100).astype(np.int32),
        entries,
        BatchRule(max_elements=None, max_rows=10),
        NONE,
        seed=1,
        epoch=0,
    )

    assert np.bincount(plan.rows).tolist() == [3] * 1_000
    batches = [plan.batch(number).tolist() for number in range(len(plan))]
    assert all(len(set(batch)) == len(batch) for batch in batches)


def rows_dealt(plan: Plan, world: int, accumulate: int, *, keep_all: bool) -> list[list[int]]:
    """Rows per process, in order."""
    return [
        [
            int(row)
            for step in deal(
                plan,
                position=0,
                rank=rank,
                world=world,
                accumulate=accumulate,
                keep_all=keep_all,
            )
            for begin, end in step.spans
            for row in plan.rows[begin:end]
        ]
        for rank in range(world)
    ]


@given(LENGTHS, RULES, st.integers(1, 5), st.integers(1, 4))
def test_dealing_gives_every_row_to_one_process_or_carries_it_over(
    lengths: Lengths, rule: BatchRule, world: int, accumulate: int
) -> None:
    plan = training_plan(lengths, rule)

    dealt = rows_dealt(plan, world, accumulate, keep_all=False)
    carried = left_over(plan, position=0, world=world, accumulate=accumulate)

    kept = [row for batch in carried for row in batch.tolist()]
    assert sorted([*itertools.chain(*dealt), *kept]) == list(range(len(lengths)))
    assert len(kept) < world


@given(LENGTHS, RULES, st.integers(1, 5), st.integers(1, 4))
def test_all_processes_have_equally_many_batches_in_every_step(
    lengths: Lengths, rule: BatchRule, world: int, accumulate: int
) -> None:
    plan = training_plan(lengths, rule)

    steps = [
        deal(plan, position=0, rank=rank, world=world, accumulate=accumulate, keep_all=False)
        for rank in range(world)
    ]

    counts = [[len(step.spans) for step in mine] for mine in steps]
    assert all(count == counts[0] for count in counts)
    assert all(0 < count <= accumulate for count in counts[0])


@given(LENGTHS, RULES, st.integers(1, 6))
def test_evaluation_deals_every_row_once(lengths: Lengths, rule: BatchRule, world: int) -> None:
    dealt = rows_dealt(plan_evaluation(lengths, rule), world, 1, keep_all=True)

    assert sorted(itertools.chain(*dealt)) == list(range(len(lengths)))


@given(LENGTHS, st.integers(1, 3), st.integers(1, 3))
def test_two_processes_read_in_a_step_what_one_reads_with_twice_the_accumulation(
    lengths: Lengths, accumulate: int, position: int
) -> None:
    plan = training_plan(lengths, BatchRule(max_elements=400_000))
    position = min(position, len(plan))

    def rows_per_step(world: int, accumulate: int) -> list[list[int]]:
        processes = [
            deal(
                plan,
                position=position,
                rank=rank,
                world=world,
                accumulate=accumulate,
                keep_all=True,
            )
            for rank in range(world)
        ]
        return [
            [int(row) for step in steps for span in step.spans for row in plan.rows[slice(*span)]]
            for steps in zip(*processes, strict=True)
        ]

    assert rows_per_step(2, accumulate) == rows_per_step(1, 2 * accumulate)


@given(LENGTHS, st.integers(1, 4), st.integers(1, 4), st.data())
def test_another_number_of_processes_continues_with_the_rest(
    lengths: Lengths, before: int, after: int, data: st.DataObject
) -> None:
    plan = training_plan(lengths, BatchRule(max_elements=400_000))
    steps = [
        deal(plan, position=0, rank=rank, world=before, accumulate=1, keep_all=True)
        for rank in range(before)
    ]
    done = data.draw(st.integers(0, len(steps[0])))
    position = sum(step.consumed for step in steps[0][:done])
    seen = [s for mine in steps for step in mine[:done] for s in step.spans]

    rest = [
        span
        for rank in range(after)
        for step in deal(
            plan, position=position, rank=rank, world=after, accumulate=1, keep_all=True
        )
        for span in step.spans
    ]

    rows = [int(row) for span in [*seen, *rest] for row in plan.rows[slice(*span)]]
    assert sorted(rows) == list(range(len(lengths)))
