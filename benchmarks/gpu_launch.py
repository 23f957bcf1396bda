"""Run a module of this repository where PyTorch 2.11 is installed, and not this project's versions.

Here, with pip of Python 3.12 (about 16 MB, 59 MB with bitsandbytes for the two adamw_8bit rows):

    pip download --no-deps --only-binary=:all: --ignore-requires-python -d .whl \
        fairseq2==0.6 fairseq2n==0.6 omnilingual-asr==0.2.0 tbb torcheval==0.0.7 ruamel.yaml \
        soundfile cffi pycparser importlib-metadata==7.2.1 importlib-resources retrying \
        nvidia-cuda-runtime-cu12==12.8.90 bitsandbytes

and a copy of ``workflows`` of a checkout of omnilingual-asr in ``.whl/upstream``.

There, from the repository's root:

    python3 -m pip install -q --no-index --no-deps --ignore-installed --ignore-requires-python \
        --prefix /tmp/site .whl/*.whl
    export PYTHONPATH=/tmp/site/lib/python3.12/site-packages:src:.
    python3 -m benchmarks.gpu_launch benchmarks.gpu \
        --upstream .whl/upstream --profile 25 --output $OUT/300m.json

For fairseq2n 0.6, which is built for PyTorch 2.8 with CUDA 12.8, it loads the libraries that the
wheels brought, and shows it the version that it wants while it is imported. Its own tensor
functions (audio decoder, collater, tokenizer) crash there; models, losses and trainer are Python.
Packages that only other parts of the project use are replaced by empty ones.
"""

import runpy
import sys
from collections.abc import Sequence
from ctypes import CDLL, RTLD_GLOBAL
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Final

import torch
from typing_extensions import override

LIBRARIES: Final = ("nvidia/cuda_runtime/lib/libcudart.so.12", "../../libtbb.so.12")
"""Below a directory of ``sys.path``."""

EMPTY: Final = (
    *("polars", "pyarrow", "pandas", "editdistance", "blobfile", "jiwer", "rapidfuzz", "miniaudio"),
    *("num2words", "text_to_num", "soxr", "dill", "tiktoken", "sacrebleu", "numba"),
)
"""Packages that a training step does not use; those that are installed stay."""


class _Empty(ModuleType):
    """A module in which every name exists, as a class."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        found = type(name, (), {})
        setattr(self, name, found)
        return found


class _Finder(MetaPathFinder, Loader):
    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    @override
    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        known = fullname.split(".", maxsplit=1)[0] in self._names
        return ModuleSpec(fullname, self, is_package=True) if known else None

    @override
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Empty(spec.name)

    @override
    def exec_module(self, module: ModuleType) -> None: ...


def prepare() -> None:
    """Make fairseq2 importable."""
    for library in LIBRARIES:
        files = [Path(folder, library) for folder in sys.path]
        if found := next((file for file in files if file.is_file()), None):
            CDLL(str(found), mode=RTLD_GLOBAL)
    sys.meta_path.append(_Finder([name for name in EMPTY if find_spec(name) is None]))
    import danish_asr  # noqa: F401, PLC0415 - brings libsndfile

    versions = torch.__version__, torch.version.cuda
    torch.__version__, torch.version.cuda = "2.8.0", "12.8"
    try:
        import fairseq2n  # noqa: F401, PLC0415
    finally:
        torch.__version__, torch.version.cuda = versions


if __name__ == "__main__":
    prepare()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
