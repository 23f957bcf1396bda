"""Time and memory of the index, the filters and an epoch's batches of millions of rows.

    python benchmarks/index.py [ROWS]

Writes a dataset of ROWS rows (default 5,200,000; lengths of 1 to 20 s, about 14 characters a
second, audio of one byte) in a temporary directory, then measures in a process of its own. Each
line gives the stage's seconds, the highest memory of the process until then and how much of its
present memory is its own.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from danish_asr.base import native  # noqa: F401 - libsndfile before fairseq2's native half
from danish_asr.base.schema import ROW_GROUP_SIZE, SAMPLE_RATE, UTTERANCE_SCHEMA, partition_dir

if TYPE_CHECKING:
    from fairseq2.data.tokenizers import Tokenizer

    from danish_asr.recipe.data.index import Index

ROWS_PER_SHARD = 50_000
CHARACTERS_PER_SECOND = 14
SENTENCE = (
    "det er en god dag og vi går ned til søen for at se på bådene når solen skinner over øen "
)
DIALECTS = ("Østjysk", "Sjællandsk", "Nordjysk", "Københavnsk", "Vestjysk", "Fynsk", "Bornholmsk")

T = TypeVar("T")


def main() -> None:
    """Build the data and measure in a fresh process, whose memory holds nothing else."""
    if sys.argv[1:2] == ["--measure"]:
        measure(Path(sys.argv[2]))
        return
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 5_200_000
    with tempfile.TemporaryDirectory() as folder:
        write_dataset(Path(folder), rows)
        subprocess.run([sys.executable, __file__, "--measure", folder], check=True)  # noqa: S603


def write_dataset(root: Path, rows: int) -> None:
    """Shards of two corpora with the contract's columns; only the audio is a stand-in."""
    rng = np.random.default_rng(0)
    for number, begin in enumerate(range(0, rows, ROWS_PER_SHARD)):
        corpus = "read_aloud" if number % 4 else "conversation"
        table = make_rows(corpus, range(begin, min(begin + ROWS_PER_SHARD, rows)), rng)
        folder = partition_dir(root, corpus, "train", "dan_Latn")
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(
            table,
            folder / f"part-{number:05}.parquet",
            row_group_size=ROW_GROUP_SIZE,
            compression=dict.fromkeys(table.column_names, "zstd") | {"audio_bytes": "none"},
            use_dictionary=["speaker_id", "dialect", "age_group", "gender"],
        )


def make_rows(corpus: str, numbers: range, rng: np.random.Generator) -> pa.Table:
    """Rows whose texts are as long as their audio."""
    count = len(numbers)
    seconds = rng.uniform(1, 20, count)
    text = " ".join(rng.choice(SENTENCE.split(), 20_000))
    starts = rng.integers(0, len(text) - 20 * CHARACTERS_PER_SECOND, count)
    columns = {
        "id": [f"{corpus}_{number:08}" for number in numbers],
        "text": [
            text[start : start + int(duration * CHARACTERS_PER_SECOND)]
            for start, duration in zip(starts, seconds, strict=True)
        ],
        "audio_bytes": [b"x"] * count,
        "audio_size": (seconds * SAMPLE_RATE).astype(np.int64),
        "encoded_size": np.ones(count, np.int32),
        "speaker_id": [f"spe_{speaker:05}" for speaker in rng.integers(0, 3_000, count)],
        "dialect": rng.choice(DIALECTS, count).tolist(),
        "age_group": rng.choice(["0-24", "25-49", "50+"], count).tolist(),
        "gender": rng.choice(["female", "male"], count).tolist(),
    }
    return pa.table(
        {
            field.name: pa.array(columns[field.name], field.type)
            if field.name in columns
            else pa.nulls(count, field.type)
            for field in UTTERANCE_SCHEMA
        },
        schema=UTTERANCE_SCHEMA,
    )


def measure(root: Path) -> None:
    """Index, batches of an epoch, then what looks at the texts."""
    from danish_asr.recipe.config.schema import TaskSection  # noqa: PLC0415
    from danish_asr.recipe.data import sampler  # noqa: PLC0415 - not in the process that builds
    from danish_asr.recipe.data.index import DanishAsrDataset  # noqa: PLC0415

    timed("import of torch and fairseq2", make_tokenizer)
    index = timed("index", lambda: DanishAsrDataset(root).read_index("train"))
    limits = sampler.BatchLimits(max_samples=3_840_000, multiple_of=8)
    rows = np.arange(len(index), dtype=np.int32)
    batches = timed(
        "batches of one epoch",
        lambda: sampler.training_batches(
            index.lengths, index.row_group_of, rows, TaskSection(), limits, seed=1, epoch=0
        ),
    )
    hours = index.lengths.sum() / SAMPLE_RATE / 3600
    print(
        f"{len(index):,} rows, {hours:,.0f} h, {len(batches):,} batches, "
        f"padding {batches.padding(index.lengths):.1%}"
    )
    measure_texts(index)


def measure_texts(index: Index) -> None:
    """Filters, fingerprint and the count of unknown symbols."""
    from danish_asr.recipe.config.schema import TaskSection  # noqa: PLC0415
    from danish_asr.recipe.data.targets import (  # noqa: PLC0415
        FrameCount,
        NeededFrames,
        Targets,
        count_unknown,
        select_rows,
    )

    tokenizer = make_tokenizer()
    targets = Targets(tokenizer)
    index = index.with_targets("raw")
    needed = timed("bounds", lambda: NeededFrames(index, targets))
    kept, _ = timed("filters", lambda: select_rows(index, needed, TaskSection(), FrameCount()))
    timed("fingerprint", lambda: index.digest(kept))
    unknown = timed("unknown symbols", lambda: count_unknown(index, targets))
    print(f"{len(kept):,} rows kept, {unknown.share:.1%} of the characters unknown")


def make_tokenizer() -> Tokenizer:
    """A tokenizer of the texts' characters, except for one."""
    from danish_asr.corpus.cards import build_char_tokenizer  # noqa: PLC0415

    # isort: split
    from fairseq2.data.tokenizers.char import load_char_tokenizer  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "characters.model")
        path.write_bytes(build_char_tokenizer(SENTENCE.replace("ø", "")))
        return load_char_tokenizer(path, None)


def timed(what: str, work: Callable[[], T]) -> T:
    """Run the stage and print its line."""
    begin, cpu = time.perf_counter(), time.process_time()
    result = work()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    (own,) = (int(line.split()[1]) / 2**20 for line in status if line.startswith("RssAnon"))
    seconds, processor = time.perf_counter() - begin, time.process_time() - cpu
    print(
        f"{what:30} {seconds:7.2f} s {processor:7.2f} s of CPU   peak {peak:5.2f} GiB   "
        f"own {own:5.2f} GiB",
        flush=True,
    )
    return result


if __name__ == "__main__":
    main()
