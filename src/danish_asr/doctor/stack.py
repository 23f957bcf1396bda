"""Python, the packages and the native libraries: do they fit together?"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement
from packaging.version import Version

from danish_asr.doctor.finding import Finding, error, ok

MEND = (
    "make setup in a fresh checkout, or pip install --no-deps -r requirements.lock and then "
    "pip install --no-deps -e ."
)
"""What installs the whole stack as it was tested."""


NATIVE = ("numpy", "pandas", "pyarrow.parquet", "torchaudio", "soxr", "sentencepiece")
"""Modules that load a library of their own, built for one version of numpy or torch."""


def installed() -> dict[str, str]:
    """Return the version of each package that this one needs; those that are missing are left out.

    fairseq2n, the native half of fairseq2, is among them.
    """
    names = [*(need.name for need in needs()), "fairseq2n"]
    found = {name: _version(name) for name in names}
    return {name: have for name, have in found.items() if have is not None}


def needs() -> list[Requirement]:
    """Return what this package declares that it needs, without its extras."""
    every = [Requirement(line) for line in requires("danish-asr") or []]
    return [need for need in every if need.marker is None or need.marker.evaluate({"extra": ""})]


def check_python(found: str | None = None) -> Iterator[Finding]:
    """Python is one that fairseq2n is built for."""
    python = found or platform.python_version()
    if Version(python).release[:2] in {(3, 10), (3, 11)}:
        yield ok("python", python)
    else:
        yield error(
            "python", f"{python}, but the stack exists for 3.10 and 3.11", "make PYTHON=python3.11"
        )


def check_versions(found: Mapping[str, str]) -> Iterator[Finding]:
    """Every package is there, in the range that is declared."""
    broken = False
    for need in needs():
        have = found.get(need.name)
        if have is None:
            broken = True
            yield error(f"package {need.name}", f"missing, needed: {need}", MEND)
        elif not need.specifier.contains(have, prereleases=True):
            broken = True
            yield error(f"package {need.name}", f"{have}, needed: {need}", MEND)
    if not broken:
        yield ok("packages", f"all {len(needs())} are in their ranges")


def check_pairs(found: Mapping[str, str], *, built_for: str | None = None) -> Iterator[Finding]:
    """Packages that share an ABI have versions that were built for each other.

    Args:
        found: Versions by package.
        built_for: The torch that fairseq2n was built with; None to ask it.
    """
    torch, audio = found.get("torch", "missing"), found.get("torchaudio", "missing")
    if _base(torch) != _base(audio):
        yield error("torch and torchaudio", f"{torch} and {audio} are of two releases", MEND)
    else:
        yield ok("torch and torchaudio", f"{torch} and {audio}")
    native, whole = found.get("fairseq2n", "missing"), found.get("fairseq2", "missing")
    if _base(native) != _base(whole):
        yield error("fairseq2 and fairseq2n", f"{whole} and {native} are of two releases", MEND)
    built_for = built_for or _built_for()
    if built_for is not None and not _same_build(torch, built_for):
        yield error("fairseq2n and torch", f"built for torch {built_for}, found {torch}", MEND)
    elif built_for is not None:
        yield ok("fairseq2n and torch", f"{native} is built for torch {built_for}")
    numpy, arrow = found.get("numpy", "0"), found.get("pyarrow", "0")
    if Version(numpy) < Version("2") and Version(arrow) >= Version("22"):
        yield error("numpy and pyarrow", f"pyarrow {arrow} needs numpy 2, found {numpy}", MEND)
    else:
        yield ok("numpy and pyarrow", f"{numpy} and {arrow}")


def check_import() -> Iterator[Finding]:
    """The native half loads, with a libsndfile, and so do the other packages with native code."""
    try:
        from danish_asr.native import LIBSNDFILE  # noqa: PLC0415 - the import is the check
    except Exception as problem:  # noqa: BLE001 - whatever the linker says is the finding
        yield error("libsndfile", f"fairseq2n does not load: {problem}", MEND)
    else:
        where = "the soundfile wheel's" if LIBSNDFILE is not None else "the system's"
        yield ok("libsndfile", f"{where}; fairseq2n loads")
    for name in NATIVE:
        if (fault := _fault_of(name)) is not None:
            yield error(f"package {name}", f"does not load: {fault}", MEND)


def _fault_of(module: str) -> str | None:
    try:
        import_module(module)
    except Exception as problem:  # noqa: BLE001 - as above
        return str(problem)
    return None


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _built_for() -> str | None:
    try:
        import fairseq2n  # noqa: PLC0415

        from danish_asr import native  # noqa: F401, PLC0415 - loads what fairseq2n needs
    except Exception:  # noqa: BLE001 - `check_import` tells
        return None
    return str(fairseq2n.torch_version())


def _same_build(torch: str, built_for: str) -> bool:
    """Whether releases agree, and builds such as ``cu128`` and ``cpu``.

    The wheel on PyPI names no build; it is the one that fairseq2n on PyPI is built for.
    """
    build = torch.partition("+")[2]
    same = not build or build == built_for.partition("+")[2]
    return same and _base(torch) == _base(built_for)


def _base(text: str) -> str:
    """A version without its build, such as ``+cu128``."""
    return text.partition("+")[0]
