"""What a worker needs at most, whatever the size of the corpus."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.builders import coral_row, encode, write_parquet

pytestmark = pytest.mark.slow

PEAKS = """
import re, sys
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from pathlib import Path
from danish_asr.base.folders import Listing
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.convert import convert
from danish_asr.corpus.sources import parquet

options = ConvertOptions(name="x")

def read_elsewhere(folder):
    files = DirFileSystem(folder, LocalFileSystem())
    parquet.locate = lambda *_: parquet.Location(fs=files, root="", files=["train.parquet"])
    source = parquet.open_parquet("there", options, Listing(Path("there")))
    assert sum(map(len, source.fetch(source.rows))) == 25 * 8_000_000

for folder in sys.argv[1:]:
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    if folder.endswith("elsewhere"):
        read_elsewhere(folder)
    else:
        convert(folder, f"{folder}.ds", options)
    # Not getrusage: it begins with the peak of the process that started this one.
    print(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024)
"""


def noise(seconds: float, channels: int) -> bytes:
    shape = round(seconds * 48_000), channels
    return encode(np.random.default_rng(1).integers(-9000, 9000, shape, np.int16), 48_000)


def test_memory_grows_neither_with_rows_nor_row_groups_and_the_longest_fits_into_a_gibibyte(
    tmp_path: Path,
) -> None:
    short, random = noise(5.0, 1), np.random.default_rng(1)
    sounds = {"few": [short] * 100, "many": [short] * 400, "longest": [noise(600.0, 2)]}
    sounds["elsewhere"] = [random.bytes(8_000_000) for _ in range(25)]
    for name, audio in sounds.items():
        rows = [coral_row(number, audio=own) for number, own in enumerate(audio)]
        size = 1 if name == "elsewhere" else 100
        write_parquet(tmp_path / name / "train.parquet", rows, row_group_size=size)
    command = [sys.executable, "-c", PEAKS, *(str(tmp_path / name) for name in sounds)]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    peaks = dict(zip(sounds, map(int, printed.split()), strict=True))
    assert peaks["many"] < min(2**29, 1.25 * peaks["few"])
    assert peaks["elsewhere"] < peaks["few"] + 80_000_000  # they are 200 MB
    assert peaks["longest"] < 2**30
