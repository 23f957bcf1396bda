"""fairseq2's native half is importable without any system package."""

from __future__ import annotations

import os
import subprocess
import sys

PROBE = """
import os
import danish_asr
import fairseq2n
loaded = {line.split()[-1] for line in open("/proc/self/maps") if "sndfile" in line}
assert all("_soundfile_data" in path for path in loaded) and loaded, loaded
print(os.environ["CONDA_PREFIX"])
"""


def test_libsndfile_comes_from_the_wheel_also_inside_conda() -> None:
    """TRAPS, install: fairseq2n looks for a system library, in Conda below its prefix only."""
    environment = os.environ | {"CONDA_PREFIX": "/nowhere/conda"}
    command = [sys.executable, "-c", PROBE]
    printed = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout
    assert printed == b"/nowhere/conda\n"
