import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from fairseq2.data.tokenizers import Tokenizer
from fairseq2.datasets import Seq2SeqBatch
from typing_extensions import override

from danish_asr.base.errors import DatasetError, RunError
from danish_asr.recipe.data.index import DanishAsrDataset, Index
from danish_asr.recipe.data.reader import BatchReader
from danish_asr.recipe.data.sampler import ATTENTION
from danish_asr.recipe.data.settings import TRANSFORMS
from tests.shards import flac, ids_of, reader, task, utterance, write_dataset, write_shard

COUNTS = {("a", "train"): 53, ("b", "train"): 20, ("a", "test"): 13, ("b", "test"): 6}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("dataset"), COUNTS)


def examples(batch: Seq2SeqBatch) -> dict[str, list[Any]]:
    return cast(dict[str, list[Any]], batch.example)


def content(steps: list[list[Seq2SeqBatch]]) -> list[Any]:
    return [
        [(b.source_seqs.numpy().tobytes(), b.target_seqs.tolist(), b.example) for b in step]
        for step in steps
    ]


def epochs(source: BatchReader, count: int) -> list[list[Seq2SeqBatch]]:
    """The steps of several epochs, as the trainer reads them."""
    steps = []
    for _ in range(count):
        steps += list(source)
        source.reset()
    return steps


@pytest.mark.parametrize(
    ("factors", "window", "expected"),
    [
        ((), 0, "de736d75cae3c117"),
        ((0.9, 1.0, 1.1), 0, "3d27f85827cbe969"),
        ((), 1, "516007b8466dbc35"),
        ((0.9, 1.0, 1.1), 1, "d01785f5189cd8a1"),
    ],
)
def test_the_batches_of_three_epochs_are_fixed(
    root: Path, tokenizer: Tokenizer, factors: Sequence[float], window: int, expected: str
) -> None:
    read: list[Any] = []
    for rank in range(2):
        source = reader(
            root,
            tokenizer,
            rank=rank,
            world=2,
            speed_factors=factors,
            beta_corpus=0.5,
            task_config=task(batch_shuffle_window=window, example_shuffle_window=window),
        )
        read += [
            [*(examples(batch)["id"] for batch in step), *(b.source_seq_lens for b in step)]
            for step in epochs(source, 3)
        ]

    assert hashlib.sha256(json.dumps(read).encode()).hexdigest()[:16] == expected
    fingerprint = source.state_dict()["fingerprint"]
    assert isinstance(fingerprint, dict)
    assert fingerprint["content"] == "f6a82c49f84687eb01b9fe74e7f0a35d"


@pytest.mark.parametrize("world", [1, 7])
def test_evaluation_gives_every_row_once_whatever_the_filters_say(
    root: Path, tokenizer: Tokenizer, world: int
) -> None:
    # A public project's scores leave out 18 % of the test set through such filters (TRAPS).
    strict = task(
        min_audio_len=20_000,
        max_audio_len=21_000,
        max_num_elements=15_000,
        min_samples_per_char=10_000,
    )
    found: list[str] = []
    for rank in range(world):
        mine = reader(
            root, tokenizer, "test", rank=rank, world=world, training=False, task_config=strict
        )
        found += ids_of(mine)

    a, b = ([f"{corpus}-test-{n}" for n in range(COUNTS[corpus, "test"])] for corpus in "ab")
    assert sorted(found) == sorted(a + b)


@pytest.mark.parametrize("every", [False, True], ids=["spec_augment", "all_transforms"])
@pytest.mark.parametrize("done", [4, 12])
def test_a_resumed_reader_continues_with_the_very_batches_it_would_have_read(
    root: Path, tokenizer: Tokenizer, tmp_path: Path, *, done: int, every: bool
) -> None:
    # Upstream's loss at step 25 was 147.2 after a resume, 150.8 undisturbed (TRAPS).
    (tmp_path / "noise.flac").write_bytes(flac(8_000, 1))
    values: dict[str, Any] = {
        "speed": {"factors": [0.9, 1.0, 1.1]},
        "spec_augment": {"probability": 0.5},
        **{name: {"folder": str(tmp_path)} for name in ("noise", "reverb")},
    }
    options: dict[str, Any] = {"task_config": task(spec_aug_p=None if every else 0.5)}
    if every:
        options["transforms"] = [{"name": name, **values.get(name, {})} for name in TRANSFORMS]

    def fresh() -> BatchReader:
        return reader(root, tokenizer, accumulate=2, **options)

    undisturbed = epochs(fresh(), 3)
    stopped = fresh()
    for _ in range(done):
        if next(stopped, None) is None:
            stopped.reset()
            next(stopped)
    torch.save(stopped.state_dict(), tmp_path / "state.pt")

    resumed = fresh()
    resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    rest = epochs(resumed, 3)

    assert content(rest[: len(undisturbed) - done]) == content(undisturbed[done:])


def test_a_stage_reads_its_own_rows_from_its_first_step_on_and_counts_epochs_on(
    root: Path, tokenizer: Tokenizer
) -> None:
    staged = reader(root, tokenizer)
    staged.add_stage(3, reader(root, tokenizer, "train_b"))
    plain = content(list(reader(root, tokenizer)))
    read: list[list[list[Seq2SeqBatch]]] = [[], []]  # of two epochs
    while staged.epoch < 2:
        for step in staged:
            read[staged.epoch].append(step)
            staged.step += 1
        staged.reset()
    assert content(read[0]) == plain[:3]
    assert {name[0] for name in ids_of(read[1])} == {"b"}
    assert len(ids_of(read[1])) == COUNTS["b", "train"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task_config": task(max_num_elements=90_000)}, "limits: .*100000.* then, .*90000.* now"),
        ({"task_config": task(min_audio_len=9_000)}, "utterances: 73 then, 6. now; content: "),
    ],
)
def test_a_state_of_other_settings_is_refused_with_their_names(
    root: Path, tokenizer: Tokenizer, change: dict[str, Any], message: str
) -> None:
    state = reader(root, tokenizer).state_dict()

    with pytest.raises(RunError, match=message):
        reader(root, tokenizer, **change).load_state_dict(state)


def test_undecodable_audio_stops_at_its_place_with_the_name_of_the_row(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    rows = [utterance(number) for number in range(8)]
    rows[5]["audio_bytes"] = b"no audio"
    write_shard(tmp_path, rows)
    single = task(max_num_elements=1)
    source = reader(tmp_path, tokenizer, training=False, task_config=single)

    longest_first = sorted(range(8), key=lambda n: -rows[n]["audio_size"])
    before = ids_of([next(source) for _ in range(longest_first.index(5))])

    assert before == [f"a-train-{n}" for n in longest_first[: longest_first.index(5)]]
    with pytest.raises(
        DatasetError, match=r"row group 1, row 0, id 'a-train-5': .*decoded.*verify"
    ):
        next(source)


def test_a_process_that_ends_while_readers_are_open_ends_well(root: Path, tmp_path: Path) -> None:
    # A native pipeline that lives until the interpreter ends brings it down (TRAPS).
    script = f"""
from pathlib import Path
from tests.shards import char_tokenizer, reader
root, tokenizer = Path({str(root)!r}), char_tokenizer(Path({str(tmp_path)!r}))
readers = [reader(root, tokenizer) for _ in range(3)]
for each in readers:
    next(each)
next(reader(root, tokenizer))
done = list(readers.pop())
print("end")
"""
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )

    assert (result.returncode, result.stdout) == (0, "end\n"), result.stderr


class Weighted(DanishAsrDataset):
    """A dataset with weights, as a configuration gives them."""

    @override
    def read_index(self, split: str, where: str | None = None, weights: Any = ()) -> Index:
        weights = [("corpus = 'b'", 0.4), ("dialect = 'Fynsk'", 2.5)]
        return super().read_index(split, where, weights)


def test_weights_give_any_number_of_processes_and_a_resumed_run_the_same_rows(
    root: Path, tokenizer: Tokenizer
) -> None:
    dataset = Weighted(root)
    alone = reader(dataset, tokenizer, accumulate=2)
    steps = epochs(alone, 3)
    two = [epochs(reader(dataset, tokenizer, rank=rank, world=2), 3) for rank in range(2)]
    together = [sorted(ids_of([*step])) for step in zip(*two, strict=True)]
    assert together == [sorted(ids_of([step])) for step in steps]
    stopped = reader(dataset, tokenizer, accumulate=2)
    for _ in range(5):
        next(stopped)
    halves = [reader(dataset, tokenizer, rank=rank, world=2) for rank in range(2)]
    rest = []
    for half in halves:
        half.load_state_dict(stopped.state_dict())
        rest.append(ids_of(list(half)))
    per_epoch = len(steps) // 3
    assert sorted(chain(*rest)) == sorted(ids_of(steps[5:per_epoch]))
    plain = reader(root, tokenizer, accumulate=2)
    with pytest.raises(
        RunError, match=r"weights: 0\.4 x corpus = 'b' \(20 rows\), .* then, none now"
    ):
        plain.load_state_dict(stopped.state_dict())


def sizes(steps: list[list[Seq2SeqBatch]]) -> list[float]:
    """What the largest batch of each step needs, as `Batches.memory` has it."""
    return [
        max(b.source_seqs.numel() * (1 + b.source_seqs.size(1) / ATTENTION) for b in step)
        for step in steps
    ]


def test_the_largest_batches_come_first_again_where_more_layers_learn_also_after_a_stop_there(
    root: Path, tokenizer: Tokenizer
) -> None:
    def read(source: BatchReader, count: int) -> list[list[Seq2SeqBatch]]:
        steps = []
        for _ in range(count):
            steps.append(next(source))
            source.step += 1
        return steps

    def freeing() -> BatchReader:
        source = reader(root, tokenizer)
        source.frees_layers = {4}
        return source

    undisturbed = read(freeing(), 10)
    largest = sizes(undisturbed)
    assert min(largest[:2]) >= max(largest[2:])
    assert min(largest[4:6]) >= max(largest[6:])
    for stop in (3, 4, 5, 7):
        stopped = freeing()
        read(stopped, stop)
        resumed = freeing()
        resumed.load_state_dict(stopped.state_dict())
        resumed.step = stop
        assert content(read(resumed, 10 - stop)) == content(undisturbed[stop:])


def test_the_largest_batches_that_are_left_come_first_on_another_number_of_processes(
    root: Path, tokenizer: Tokenizer
) -> None:
    alone = reader(root, tokenizer, accumulate=2)
    next(alone)
    left: list[list[float]] = []
    for rank in range(2):
        half = reader(root, tokenizer, rank=rank, world=2)
        half.load_state_dict(alone.state_dict())
        left.append(sizes(list(half)))
    both = [max(pair) for pair in zip(*left, strict=True)]
    assert min(both[:2]) >= max(both[2:])
