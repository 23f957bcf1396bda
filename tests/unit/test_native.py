"""fairseq2's native half is importable without any system package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import danish_asr

PROBE = """
import os
from danish_asr import native
import fairseq2n
loaded = {line.split()[-1] for line in open("/proc/self/maps") if "sndfile" in line}
assert all("_soundfile_data" in path for path in loaded) and loaded, loaded
print(os.environ.get("CONDA_PREFIX"))
"""


@pytest.mark.parametrize("prefix", [None, "/nowhere/conda"])
def test_libsndfile_comes_from_the_wheel_also_inside_conda(prefix: str | None) -> None:
    """TRAPS, install: fairseq2n looks for a system library, in Conda below its prefix only."""
    environment = {k: v for k, v in os.environ.items() if k != "CONDA_PREFIX"}
    if prefix is not None:
        environment["CONDA_PREFIX"] = prefix
    result = subprocess.run(
        [sys.executable, "-c", PROBE], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == str(prefix)


@pytest.mark.parametrize("module", ["danish_asr", "danish_asr.metrics", "danish_asr.text.profiles"])
def test_the_pure_half_loads_neither_torch_nor_fairseq2(module: str) -> None:
    probe = f"import sys, {module}; print([m for m in ('torch', 'fairseq2') if m in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_the_package_is_typed_and_has_a_version() -> None:
    assert Path(danish_asr.__file__).with_name("py.typed").is_file()
    assert danish_asr.__version__.count(".") == 2
