"""Make fairseq2's native half importable without any system package.

fairseq2n asks the dynamic linker for ``libsndfile.so.1``, which users of a cluster cannot install.
The ``soundfile`` wheel carries that library. Once it is loaded with ``RTLD_GLOBAL`` the linker
answers the request by its soname, wherever the file lies. Import this module before fairseq2.
"""

from __future__ import annotations

import os
from ctypes import CDLL, RTLD_GLOBAL
from pathlib import Path
from typing import Final

import soundfile


def _sndfile_of_the_wheel() -> Path | None:
    data = Path(soundfile.__file__).with_name("_soundfile_data")
    return next(iter(sorted(data.glob("libsndfile*.so*"))), None)


def _load() -> CDLL | None:
    path = _sndfile_of_the_wheel()
    # A source install of soundfile has no copy of its own; then the system must have one.
    library = CDLL(str(path), mode=RTLD_GLOBAL) if path else None
    # Inside Conda, fairseq2n skips the linker and looks below the environment's prefix only, where
    # a pip install puts nothing. Hiding the variable during the import restores the normal look-up.
    prefix = os.environ.pop("CONDA_PREFIX", None)
    try:
        import fairseq2n  # noqa: F401, PLC0415 - the import is the point, and its order
    finally:
        if prefix is not None:
            os.environ["CONDA_PREFIX"] = prefix
    return library


# The handle is kept so that the library stays loaded for the life of the process.
LIBSNDFILE: Final = _load()
