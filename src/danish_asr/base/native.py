"""Make fairseq2's native half importable without a system package.

fairseq2n needs ``libsndfile.so.1``, which the ``soundfile`` wheel contains. After it is loaded with
``RTLD_GLOBAL``, the dynamic linker finds it by its soname. ``import danish_asr`` registers this; it
happens when something imports fairseq2n.
"""

import os
import sys
from collections.abc import Sequence
from ctypes import CDLL, RTLD_GLOBAL
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType

from typing_extensions import override


class _Loader(SourceFileLoader):
    @override
    def exec_module(self, module: ModuleType) -> None:
        import soundfile  # noqa: PLC0415 - only here

        data = Path(soundfile.__file__).with_name("_soundfile_data")
        # A source install of soundfile has no copy; then the system must have one.
        for path in data.glob("libsndfile*.so*"):
            CDLL(str(path), mode=RTLD_GLOBAL)  # stays loaded for the life of the process
        # Inside Conda, fairseq2n looks only below the environment's prefix, where pip installs
        # nothing. Hiding the variable restores the normal lookup.
        prefix = os.environ.pop("CONDA_PREFIX", None)
        try:
            super().exec_module(module)
        finally:
            if prefix is not None:
                os.environ["CONDA_PREFIX"] = prefix


class _Finder(MetaPathFinder):
    @override
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path) if fullname == "fairseq2n" else None
        if spec is not None:
            spec.loader = _Loader(fullname, str(spec.origin))
        return spec


def preload_with_fairseq2() -> None:
    """Load libsndfile when fairseq2n is imported."""
    sys.meta_path.insert(0, _Finder())
