"""What a worker needs at most, whatever the size of the corpus."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.builders import coral_row, encode, write_parquet

pytestmark = pytest.mark.slow

CONVERT = """
import sys
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.convert import convert
convert(sys.argv[1], sys.argv[2], ConvertOptions(name="x"))
"""
READ_ELSEWHERE = """
import sys
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from pathlib import Path
from danish_asr.base.folders import Listing
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.sources import parquet
folder = DirFileSystem(sys.argv[1], LocalFileSystem())
location = parquet.Location(fs=folder, root="", files=["train.parquet"])
parquet.locate = lambda *_: location
source = parquet.open_parquet("there", ConvertOptions(name="x"), Listing(Path("there")))
assert sum(map(len, source.fetch(source.rows))) == 25 * 20_000_000
"""
REPORT = """
import re
from pathlib import Path
# Not getrusage: it begins with the peak of the process that started this one.
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024)
"""


def peak_memory(*arguments: Path, program: str = CONVERT) -> int:
    command = [sys.executable, "-c", program + REPORT, *map(str, arguments)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def noise(seconds: float, channels: int) -> bytes:
    shape = round(seconds * 48_000), channels
    return encode(np.random.default_rng(1).integers(-9000, 9000, shape, np.int16), 48_000)


def test_the_longest_utterance_fits_into_a_gibibyte(tmp_path: Path) -> None:
    write_parquet(tmp_path / "in" / "train.parquet", [coral_row(0, audio=noise(600.0, 2))])
    assert peak_memory(tmp_path / "in", tmp_path / "ds") < 2**30


def test_memory_does_not_grow_with_the_number_of_rows(tmp_path: Path) -> None:
    audio, peaks = noise(5.0, 1), []
    for count in (100, 400):
        rows = [coral_row(number, audio=audio) for number in range(count)]
        write_parquet(tmp_path / str(count) / "train.parquet", rows)
        peaks.append(peak_memory(tmp_path / str(count), tmp_path / f"ds{count}"))
    assert peaks[1] < min(2**29, 1.25 * peaks[0])


def test_row_groups_that_were_read_from_elsewhere_do_not_stay_in_memory(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    rows = [coral_row(number, audio=random.bytes(20_000_000)) for number in range(25)]
    write_parquet(tmp_path / "train.parquet", rows, row_group_size=1)
    assert peak_memory(tmp_path, program=READ_ELSEWHERE) < 2**29
