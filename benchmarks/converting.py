"""How fast is conversion, against its own chain?

One table, ratios within the run. The corpus is 48 kHz FLAC, 5 s an utterance, with one row group of
100 after the other as CoRal has it. Conversion is compared with two references on one core:

- The chain alone: decode, resample with soxr HQ and encode, from memory into memory, as
  conversion does it. No conversion can reach it: the audio must also be read from the source, and
  the shards written, flushed and hashed.
- The same from Parquet to Parquet, which does all of that and nothing else: the reference for
  conversion, which also has ids, a ledger, suspects and metadata.

CPU time is user and system time of all processes; one worker is the process itself, but two have
to start, which few rows do not outweigh::

    python benchmarks/converting.py --rows 2000

``--plan ROWS`` measures something else, the plan of a manifest of so many rows and missing audio::

    python benchmarks/converting.py --plan 1000000
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile
from rich.console import Console
from rich.table import Table

from danish_asr.base.audio import decode, encode_flac, resampled
from danish_asr.base.cluster import usable_cpus
from danish_asr.base.files import sha256_of
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.convert import convert, key_of, plan_tasks
from danish_asr.corpus.sources import open_source

SECONDS = 5.0
RATE = 48_000
SHARD_ROWS = 300
SOURCE_FILE = "train-00000-of-00001.parquet"
CHAIN = "decode, resample, encode"
THROUGH = "the same, Parquet to Parquet"
ONE, TWO = "danish-asr convert, 1 worker", "danish-asr convert, 2 workers"


def speech_like(random: np.random.Generator) -> bytes:
    """A FLAC file of 5 s that costs about what speech costs: coloured noise in syllables."""
    count = round(SECONDS * RATE)
    spectrum = np.fft.rfft(random.standard_normal(count))
    spectrum /= 1 + (np.arange(len(spectrum)) * RATE / count / 300) ** 2
    wave = np.fft.irfft(spectrum, count)
    syllables = 0.5 + 0.5 * np.sin(2 * np.pi * 4 * np.arange(count) / RATE)
    wave = wave / np.abs(wave).max() * syllables * 0.5 + 1e-4 * random.standard_normal(count)
    file = io.BytesIO()
    soundfile.write(file, wave, RATE, format="FLAC", subtype="PCM_16")
    return file.getvalue()


def write_corpus(folder: Path, rows: int) -> list[bytes]:
    """Write a read-aloud corpus in CoRal's shape, and return its audio."""
    random = np.random.default_rng(1)
    distinct = [speech_like(random) for _ in range(60)]
    audio = [distinct[number % len(distinct)] for number in range(rows)]
    table = pa.table(
        {
            "id_recording": [f"rec_{number}" for number in range(rows)],
            "text": ["der var engang en mand som boede i en spand"] * rows,
            "audio": [{"bytes": data, "path": "x.flac"} for data in audio],
        }
    )
    folder.mkdir()
    pq.write_table(table, folder / SOURCE_FILE, row_group_size=100, use_dictionary=False)
    return audio


def run_chain(audio: list[bytes]) -> None:
    """The chain as conversion does it, which no bookkeeping can be faster than."""
    for data in audio:
        encode_flac(resampled(*decode(data)))


def run_through_parquet(source: Path, out: Path) -> None:
    """The chain with what any conversion adds: reading the source, writing and flushing shards."""
    schema = pa.schema({"text": pa.string(), "audio_bytes": pa.binary(), "audio_size": pa.int64()})
    # The corpus repeats its audio; a dictionary would write it once.
    as_it_is = {"compression": "none", "use_dictionary": False}
    with pq.ParquetFile(source / SOURCE_FILE, buffer_size=1 << 20) as parquet:
        for number in range(0, parquet.num_row_groups, SHARD_ROWS // 100):
            shard = out.with_name(f"{number}.parquet")
            groups = range(number, min(number + SHARD_ROWS // 100, parquet.num_row_groups))
            with shard.open("wb") as stream:
                with pq.ParquetWriter(stream, schema, **as_it_is) as writer:
                    for group in groups:
                        rows = []
                        for batch in parquet.iter_batches(16, [group], use_threads=False):
                            for text, audio in zip(batch["text"], batch["audio"], strict=True):
                                mono = resampled(*decode(audio["bytes"].as_py()))
                                rows.append((text.as_py(), encode_flac(mono), len(mono)))
                        columns = map(pa.array, zip(*rows, strict=True), schema.types)
                        writer.write_table(pa.Table.from_arrays([*columns], schema=schema))
                os.fsync(stream.fileno())
            sha256_of(shard)


def run_convert(source: Path, out: Path, workers: int) -> None:
    """The product, everything included: listing, ids, ledger, statistics, cards, manifest."""
    convert(source, out, ConvertOptions(name="bench", workers=workers, shard_rows=SHARD_ROWS))


def run_plan(manifest: Path, rows: int) -> None:
    """What a conversion does with a manifest before it reads audio; print time and memory."""
    with manifest.open("w", encoding="utf-8") as file:
        for number in range(rows):
            path = f"wav/{number % 1000:04d}/{number:07d}.wav"
            row = {"audio_filepath": path, "text": f"sætning nummer {number}", "duration": 3.2}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    begin, options = (time.perf_counter(), time.process_time()), ConvertOptions(name="bench")
    source = open_source(str(manifest), options)
    tasks = plan_tasks(source.rows, options)
    key_of(source.rows, options)
    wall, cpu = time.perf_counter() - begin[0], time.process_time() - begin[1]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    took = f"{wall:.1f} s, CPU {cpu:.1f} s, {memory:.0f} MB"
    print(f"plan of {rows:,} rows, {len(tasks):,} shards: {took}")


def cpu_seconds() -> float:
    """CPU time of this process and of the workers that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def measure(action: Callable[[Path], None], scratch: Path) -> tuple[float, float]:
    """Wall time and CPU time, in seconds."""
    with tempfile.TemporaryDirectory(dir=scratch) as out:
        wall, cpu = time.perf_counter(), cpu_seconds()
        action(Path(out) / "out")
        return time.perf_counter() - wall, cpu_seconds() - cpu


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--plan", type=int, default=0, metavar="ROWS")
    arguments = parser.parse_args()
    if arguments.plan:
        with tempfile.TemporaryDirectory() as scratch:
            run_plan(Path(scratch) / "train.jsonl", arguments.plan)
        return
    rows = arguments.rows
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "source"
        audio = write_corpus(folder, rows)
        actions: dict[str, Callable[[Path], None]] = {
            CHAIN: lambda _: run_chain(audio),
            THROUGH: lambda out: run_through_parquet(folder, out),
            ONE: lambda out: run_convert(folder, out, 1),
            TWO: lambda out: run_convert(folder, out, 2),
        }
        # In turns, so that other load on the machine falls on all.
        times = {name: list[tuple[float, float]]() for name in actions}
        for _ in range(arguments.repetitions):
            for name, action in actions.items():
                times[name].append(measure(action, Path(scratch)))

    def ratio(one: str, other: str, which: int) -> float:
        pairs = zip(times[one], times[other], strict=True)
        return statistics.median(a[which] / b[which] for a, b in pairs)

    table = Table("", "rows/s", "x real time", "CPU ms/row", "of the chain, CPU", "through Parquet")
    table.columns[0].no_wrap = True
    for name in actions:
        wall, cpu = (statistics.median(column) for column in zip(*times[name], strict=True))
        table.add_row(
            name,
            f"{rows / wall:,.0f}",
            f"{rows * SECONDS / wall:,.0f}",
            f"{1000 * cpu / rows:.2f}",
            f"{ratio(CHAIN, name, 1):.2f}",
            f"{ratio(THROUGH, name, 1):.2f}",
        )
    console = Console()
    console.print(
        f"{rows} utterances of {SECONDS:g} s, {RATE} Hz FLAC; {usable_cpus()} CPUs; medians of "
        f"{arguments.repetitions}"
    )
    console.print(table)
    console.print(f"two workers are {ratio(ONE, TWO, 0):.2f} times as fast as one")


if __name__ == "__main__":
    main()
