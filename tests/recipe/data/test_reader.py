"""The batches of a reader: fixed by the seed, the same on any number of processes, resumed."""

import hashlib
import json
import weakref
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import soundfile
import torch
from fairseq2.data.tokenizers import Tokenizer
from fairseq2.datasets import Seq2SeqBatch
from fairseq2.device import CPU
from fairseq2.gang import FakeGang, create_parallel_gangs

from danish_asr.base.errors import DatasetError, RunError
from danish_asr.recipe.config.schema import AsrConfig, TaskSection
from danish_asr.recipe.data.reader import BatchReader, waveform_dtype
from danish_asr.recipe.data.sampler import ATTENTION
from tests.shards import ids_of, reader, task, utterance, waveform, write_dataset, write_shard

Steps = list[list[Seq2SeqBatch]]
COUNTS = {("a", "train"): 53, ("b", "train"): 20, ("a", "test"): 13, ("b", "test"): 6}
FACTORS = [0.9, 1.0, 1.1]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("dataset"), COUNTS)


def batches_of(steps: Any) -> list[Any]:
    return [batch for step in steps for batch in step]


def content(steps: Steps) -> list[Any]:
    return [
        [(b.source_seqs.numpy().tobytes(), b.target_seqs.tolist(), b.example) for b in step]
        for step in steps
    ]


def take(source: BatchReader, count: int) -> Steps:
    """So many steps, over the ends of epochs, as the trainer reads them."""
    steps: Steps = []
    while len(steps) < count:
        step = next(source, None)
        if step is None:
            source.reset()
        else:
            steps.append(step)
            source.step += 1
    return steps


@pytest.mark.parametrize(("window", "expected"), [(0, "9fb37cc4cb0fe00e"), (1, "f372ecba6c22a224")])
def test_the_batches_of_the_first_steps_are_fixed(
    root: Path, tokenizer: Tokenizer, window: int, expected: str
) -> None:
    # example_shuffle_window: 0 is upstream's documented default, which it asserts away (TRAPS).
    windows = task(batch_shuffle_window=window, example_shuffle_window=window)
    options: dict[str, Any] = {"beta_corpus": 0.5, "speed_factors": FACTORS, "world": 2}
    read = [
        [ids_of([step]), *(batch.source_seq_lens for batch in step)]
        for rank in range(2)
        for step in take(reader(root, tokenizer, rank=rank, task_config=windows, **options), 30)
    ]
    assert hashlib.sha256(json.dumps(read).encode()).hexdigest()[:16] == expected


@pytest.mark.parametrize("world", [1, 7])
def test_evaluation_gives_every_row_once_whatever_the_filters_say(
    root: Path, tokenizer: Tokenizer, world: int
) -> None:
    # A public project's scores leave out 18 % of the test set through such filters (TRAPS).
    limits = {"min_audio_len": 20_000, "max_audio_len": 21_000, "max_num_elements": 15_000}
    strict = task(**limits, min_samples_per_char=10_000)
    options: dict[str, Any] = {"world": world, "training": False, "task_config": strict}
    parts = [ids_of(reader(root, tokenizer, "test", rank=rank, **options)) for rank in range(world)]

    rows = [f"{corpus}-test-{n}" for corpus in "ab" for n in range(COUNTS[corpus, "test"])]
    assert sorted(chain(*parts)) == sorted(rows)


@pytest.mark.parametrize("done", [4, 12])
def test_a_resumed_reader_continues_with_the_very_batches_it_would_have_read(
    root: Path, tokenizer: Tokenizer, tmp_path: Path, done: int
) -> None:
    # Upstream's loss at step 25 was 147.2 after a resume, 150.8 undisturbed (TRAPS).
    soundfile.write(tmp_path / "noise.wav", waveform(8_000, 1), 16_000)
    transforms = [
        {"name": "noise", "folder": str(tmp_path)},
        {"name": "reverb", "folder": str(tmp_path)},
        {"name": "spec_augment", "probability": 0.5},
    ]

    def fresh() -> BatchReader:
        options: Any = {"transforms": transforms, "speed_factors": FACTORS}
        source = reader(root, tokenizer, accumulate=2, **options)
        source.frees_layers = {4}
        return source

    stopped = fresh()
    take(stopped, done)
    torch.save(stopped.state_dict(), tmp_path / "state.pt")
    resumed = fresh()
    resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    resumed.step = done

    assert content(take(resumed, 15)) == content(take(fresh(), done + 15)[done:])


def test_a_stage_reads_its_own_rows_from_its_first_step_on_and_counts_epochs_on(
    root: Path, tokenizer: Tokenizer
) -> None:
    staged = reader(root, tokenizer)
    staged.add_stage(3, reader(root, tokenizer, "train_b"))

    assert content(take(staged, 3)) == content(take(reader(root, tokenizer), 3))
    second = [*take(staged, 1), *staged]
    assert sorted(ids_of(second)) == sorted(f"b-train-{n}" for n in range(COUNTS["b", "train"]))
    assert min(sizes(second)[:2]) >= max(sizes(second)[2:]), "the largest batches come first"
    assert staged.epoch == 1
    assert staged.filtered.startswith("73 utterances")
    assert [line.split()[0] for line in staged.mix.splitlines()] == ["corpus", "a", "b"]


def test_a_state_of_other_rows_is_refused(root: Path, tokenizer: Tokenizer) -> None:
    state = reader(root, tokenizer).state_dict()
    with pytest.raises(RunError, match="other rows"):
        reader(root, tokenizer, "train_b").load_state_dict(state)


def test_undecodable_audio_stops_at_its_place_with_the_name_of_the_row(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    rows = [utterance(number) for number in range(8)]
    rows[5]["audio_bytes"] = b"no audio"
    write_shard(tmp_path, rows)
    source = reader(tmp_path, tokenizer, training=False, task_config=task(max_num_elements=1))

    longest_first = sorted(range(8), key=lambda n: -rows[n]["audio_size"])
    take(source, longest_first.index(5))

    with pytest.raises(DatasetError, match=r"row group 1, row 0, id 'a-train-5': .*decoded"):
        next(source)


def test_a_reader_ends_with_its_last_reference(root: Path, tokenizer: Tokenizer) -> None:
    # A native pipeline that lives until the interpreter ends brings it down (TRAPS).
    opened = reader(root, tokenizer)
    next(opened)
    ended = weakref.ref(opened)
    del opened
    assert ended() is None


@pytest.mark.parametrize("done", [0, 5])
def test_two_processes_read_the_rows_of_each_step_of_one_also_from_its_checkpoint_on(
    root: Path, tokenizer: Tokenizer, done: int
) -> None:
    alone = reader(root, tokenizer, accumulate=2, beta_corpus=0.0)
    take(alone, done)
    halves = [reader(root, tokenizer, rank=rank, world=2, beta_corpus=0.0) for rank in range(2)]
    for half in halves:
        if done:
            half.load_state_dict(alone.state_dict())
    left = [list(half) for half in halves]

    together = [sorted(ids_of([*step])) for step in zip(*left, strict=True)]
    steps = [sorted(ids_of([step])) for step in alone]
    if done:  # the largest batches come first again
        both = [max(pair) for pair in zip(*map(sizes, left), strict=True)]
        assert min(both[:2]) >= max(both[2:])
        together, steps = [sorted(chain(*together))], [sorted(chain(*steps))]
    assert together == steps


def sizes(steps: Steps) -> list[float]:
    """What the largest batch of each step needs, as `Batches.memory` has it."""
    return [
        max(b.source_seqs.numel() * (1 + b.source_seqs.size(1) / ATTENTION) for b in step)
        for step in steps
    ]


@pytest.mark.parametrize("first", [0, 4], ids=["begin", "more layers learn"])
def test_the_largest_batches_that_are_left_come_first(
    root: Path, tokenizer: Tokenizer, first: int
) -> None:
    source = reader(root, tokenizer)
    source.frees_layers = {4}
    largest = sizes(take(source, 10))[first:]
    assert min(largest[:2]) >= max(largest[2:])


def test_a_batch_holds_what_the_shards_hold(root: Path, tokenizer: Tokenizer) -> None:
    # Upstream reads six fixed columns, so that no id and no dialect reaches a batch (TRAPS).
    encode = tokenizer.create_encoder()

    for batch in batches_of(reader(root, tokenizer, "test_b", training=False)):
        for place, name in enumerate(batch.example["id"]):
            row = utterance(int(name.rsplit("-", 1)[1]), corpus="b", split="test")
            expected = row | {"corpus": "b", "split": "test", "language": "dan_Latn"}
            del expected["audio_bytes"]
            expected["target_size"] = len(row["text"])
            assert {key: batch.example[key][place] for key in batch.example} == expected
            length = batch.source_seq_lens[place]
            assert length == row["audio_size"]
            wave = torch.from_numpy(waveform(length, int(name.rsplit("-", 1)[1])))
            wave = torch.nn.functional.layer_norm(wave, wave.shape)
            torch.testing.assert_close(batch.source_seqs[place, :length], wave, atol=1e-3, rtol=0)
            assert not batch.source_seqs[place, length:].any()
            tokens = batch.target_seqs[place, : batch.target_seq_lens[place]]
            assert tokens.tolist() == encode(row["text"]).tolist()
            rest = batch.target_seqs[place, batch.target_seq_lens[place] :]
            assert (rest == tokenizer.vocab_info.pad_idx).all()


def test_rows_without_text_or_a_frame_are_evaluated_with_raw_references_and_targets_of_the_profile(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    texts = ["Køb 21 Øl!", ""]
    rows = [utterance(n, audio_size=100 - n, text=text) for n, text in enumerate(texts)]
    write_shard(tmp_path, rows)

    (batch,) = batches_of(reader(tmp_path, tokenizer, training=False, text_profile="coral"))

    assert batch.example["text"] == texts
    assert tokenizer.create_decoder()(batch.target_seqs[0]) == "køb enogtyve øl"
    assert (batch.example["target_size"], batch.target_seq_lens) == ([15, 0], [15, 1])
    assert (batch.example["audio_size"], batch.source_seq_lens) == ([100, 99], [400, 400])
    with pytest.raises(DatasetError, match="the filters leave none of its 2 utterances"):
        reader(tmp_path, tokenizer)


def test_the_size_of_an_epoch_is_that_of_its_batches_also_after_they_were_read(
    root: Path, tokenizer: Tokenizer
) -> None:
    source = reader(root, tokenizer, "test", training=False)
    size = source.epoch_size()
    steps = list(source)
    lengths = [length for batch in batches_of(steps) for length in batch.source_seq_lens]
    padded = sum(batch.source_seqs.numel() for batch in batches_of(steps))
    assert size == source.epoch_size()
    assert (size.steps, size.rows, size.longest) == (len(steps), len(lengths), max(lengths))
    assert size.hours == pytest.approx(sum(lengths) / 16_000 / 3600)
    assert size.padding == pytest.approx(1 - sum(lengths) / padded)
    assert source.epochs_read == 1
    assert source.largest_memory() == pytest.approx(max(sizes(steps)))


def test_augmentation_acts_in_training_only_and_sections_are_left_as_they_are(
    root: Path, tokenizer: Tokenizer
) -> None:
    # Upstream's validation reader changes the section that the training reader holds (TRAPS).
    plain, augmenting = task(), task(spec_aug_p=1.0)

    def waves(config: TaskSection, *, training: bool) -> list[bytes]:
        source = reader(root, tokenizer, training=training, task_config=config)
        return [batch.source_seqs.numpy().tobytes() for batch in batches_of(source)]

    assert waves(plain, training=False) == waves(augmenting, training=False)
    assert not {*waves(plain, training=True)} & {*waves(augmenting, training=True)}
    assert augmenting == task(spec_aug_p=1.0)


@pytest.mark.parametrize(
    ("parallelism", "processes", "mode", "is_full"),
    [
        ("ddp", 2, "static", True),
        ("fsdp", 1, "static", True),
        ("fsdp", 2, "auto", True),
        ("fsdp", 2, "static", False),
    ],
)
def test_waveforms_come_in_full_precision_unless_parameters_take_nothing_else(
    parallelism: Any, processes: int, mode: Any, *, is_full: bool
) -> None:
    """TRAPS, training: upstream casts waveforms to bfloat16, which leaves 8 bits of a sample."""
    config = AsrConfig()
    config.trainer.data_parallelism = parallelism
    config.trainer.mixed_precision.mode = mode
    gangs = create_parallel_gangs(FakeGang(CPU, size=processes))
    assert waveform_dtype(gangs, config) is (torch.float32 if is_full else torch.bfloat16)
