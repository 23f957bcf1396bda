"""fairseq2's native half is importable without any system package."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROBE = """
import os
import danish_asr
import fairseq2n
loaded = {line.split()[-1] for line in open("/proc/self/maps") if "sndfile" in line}
assert all("_soundfile_data" in path for path in loaded) and loaded, loaded
print(os.environ["CONDA_PREFIX"])
"""


PURE = """
import sys, danish_asr.metrics, danish_asr.text.profiles
print({"torch", "fairseq2"} & set(sys.modules))
"""


def run(program: str, prefix: str) -> str:
    environment = os.environ | {"CONDA_PREFIX": prefix}
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    return result.stdout.strip()


@pytest.mark.parametrize("prefix", ["", "/nowhere/conda"])
def test_libsndfile_comes_from_the_wheel_also_inside_conda(prefix: str) -> None:
    """TRAPS, install: fairseq2n looks for a system library, in Conda below its prefix only."""
    assert run(PROBE, prefix) == prefix
