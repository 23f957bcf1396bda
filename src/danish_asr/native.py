"""Make fairseq2's native half importable without a system package.

fairseq2n needs ``libsndfile.so.1``, which users of a cluster cannot install. The ``soundfile``
wheel contains that library. After it is loaded with ``RTLD_GLOBAL``, the dynamic linker finds it by
its soname. Import this module before fairseq2.
"""

import os
from ctypes import CDLL, RTLD_GLOBAL
from pathlib import Path
from typing import Final

import soundfile


def _load() -> CDLL | None:
    data = Path(soundfile.__file__).with_name("_soundfile_data")
    path = next(iter(sorted(data.glob("libsndfile*.so*"))), None)
    # A source install of soundfile has no copy; then the system must have one.
    library = CDLL(str(path), mode=RTLD_GLOBAL) if path else None
    # Inside Conda, fairseq2n looks only below the environment's prefix, where pip installs nothing.
    # Hiding the variable during the import restores the normal lookup.
    prefix = os.environ.pop("CONDA_PREFIX", None)
    try:
        import fairseq2n  # noqa: F401, PLC0415 - the import is the point, and its order
    finally:
        if prefix is not None:
            os.environ["CONDA_PREFIX"] = prefix
    return library


# The handle is kept so that the library stays loaded for the life of the process.
LIBSNDFILE: Final = _load()
