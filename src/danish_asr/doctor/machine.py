"""Python, packages, GPU, CPUs, disk and the job scripts: what every run needs from this machine."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Final

from danish_asr.cluster.cpus import lsf_slots, usable_cpus

GIB: Final = 2**30

INSTALL: Final = "run `make setup` in a fresh checkout"

NEVER_IMPORTED: Final = "omnilingual-asr 0.2.0 requires kenlm,"
"""A package that upstream declares and never imports; it would need a compiler."""

STACK: Final = ("danish-asr ", "fairseq2", "omnilingual-asr ", "torch")
"""Packages whose requirements must be met; `pip check` looks at all that are installed."""

NATIVE: Final = (
    *("numpy", "pandas", "pyarrow.parquet", "danish_asr.native"),
    *("torchaudio", "soxr", "sentencepiece"),
)
"""Modules that load native code, each built for one version of numpy or torch."""

FIRST_WITH_BF16: Final = (8, 0)
"""Compute capability of the A100; the V100 has 7.0."""

CACHES: Final = {
    "HF_HOME": "~/.cache/huggingface",
    "FAIRSEQ2_CACHE_DIR": "~/.cache/fairseq2",
    "TMPDIR": tempfile.gettempdir(),
}
"""Variables with the place of downloads and temporary files, and the places without them."""

QUOTA_COMMANDS: Final = ("getquota_work3.sh", "getquota_zhome.sh")
"""DTU's commands that print a user's quota."""

_REFUSALS: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class Level(Enum):
    """How a finding affects the run."""

    OK = "ok"
    UNKNOWN = "unknown"  # it cannot be checked from here
    WARNING = "warning"  # it may slow the run down or break it later
    ERROR = "error"  # the run would fail


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, and how to fix it; ``fix`` is empty if nothing is wrong."""

    level: Level
    check: str
    found: str
    fix: str = ""


ok = partial(Finding, Level.OK)
unknown = partial(Finding, Level.UNKNOWN)
warning = partial(Finding, Level.WARNING)
error = partial(Finding, Level.ERROR)


def check_packages() -> Iterator[Finding]:
    """Check that the installed packages fit each other, and that they load."""
    answer = subprocess.run(
        [sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False
    )
    lines = (answer.stdout + answer.stderr).splitlines() if answer.returncode else []
    conflicts = [line for line in lines if not line.startswith(NEVER_IMPORTED)]
    for line in conflicts:
        yield (error if line.startswith(STACK) else warning)("packages", line, INSTALL)
    if not conflicts:
        yield ok("packages", "pip check finds no conflict")
    broken = False
    for module in NATIVE:
        try:
            import_module(module)
        except Exception as problem:  # noqa: BLE001 - whatever the linker reports is the finding
            broken = True
            yield error(f"package {module}", f"does not load: {problem}", INSTALL)
    if not broken:
        yield ok("libraries", f"loaded: {', '.join(NATIVE)}")


def check_cpus() -> Iterator[Finding]:
    """Check that there are enough CPUs to decode audio beside the training."""
    usable, slots = usable_cpus(), lsf_slots()
    found = f"{usable} of the machine's {os.cpu_count()}"
    found += f", LSF granted {slots} here" if slots else ""
    yield ok("cpus", found) if usable > 1 else warning("cpus", found, "request more: bsub -n 4")


def check_scripts(folder: Path) -> Iterator[Finding]:
    """Check that every script with ``#BSUB`` lines requests a wall time."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.sh"))}
    submitted = {path: text for path, text in texts.items() if "\n#BSUB" in text}
    without = [p for p, text in submitted.items() if not re.search(r"\n#BSUB (.* )?-W ", text)]
    for path in without:
        found = f"{path} has no #BSUB -W, and the default at DTU is 15 minutes"
        yield error("wall time", found, "add #BSUB -W hours:minutes")
    if submitted and not without:
        yield ok("wall time", f"set in {', '.join(path.name for path in submitted)}")


def check_gpu() -> Iterator[Finding]:
    """Check that torch can use the GPU, if there is one."""
    if os.environ.get("FAIRSEQ2_DEVICE", "").startswith("cpu"):
        yield ok("gpu", "FAIRSEQ2_DEVICE=cpu: not needed")
        return
    driver = _driver()
    if driver is None:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        found = "none here, as on login nodes" if not visible else "no driver on this host"
        check = "bsub -Is -q gpua100 -n 4 -gpu num=1 -W 0:10 .venv/bin/danish-asr doctor"
        fix = f"to check a GPU node: {check}, or run it in `a100sh`"
        yield (error if visible else warning)("gpu", found, fix)
        return
    import torch  # noqa: PLC0415 - slow

    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        yield ok("gpu", f"{', '.join(names)}; driver {driver}, CUDA {torch.version.cuda}")
    else:
        found = f"driver {driver}, but torch {torch.__version__} finds no GPU"
        fix = "request a GPU (bsub -gpu), or choose a node whose driver has CUDA 12.8 or later"
        yield error("gpu", found, fix)


def check_bf16(scripts: Path, environment: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Check that the GPU of this job, or of the queue that lsf/train.sh names, computes in bf16."""
    fix = (
        "another queue, such as gpua100, or --config trainer.mixed_precision.dtype=torch.float16 "
        "evaluator.amp_dtype=torch.float16"
    )
    train = scripts / "train.sh"
    line = re.search(r"\n#BSUB -q (\S+)", train.read_text("utf-8")) if train.is_file() else None
    queue = environment.get("LSB_QUEUE") or (line[1] if line else "")
    if "v100" in queue:
        yield error("bf16", f"needed, but the GPUs of queue {queue} do not have it", fix)
        return
    if environment.get("FAIRSEQ2_DEVICE", "").startswith("cpu") or _driver() is None:
        yield ok("bf16", f"needed; queue {queue or 'unknown'}, no GPU here to check")
        return
    import torch  # noqa: PLC0415 - slow

    for index in range(torch.cuda.device_count()):
        name = torch.cuda.get_device_name(index)
        if torch.cuda.get_device_capability(index) < FIRST_WITH_BF16:
            yield error("bf16", f"needed, but {name} does not have it", fix)
        else:
            yield ok("bf16", f"{name} has it")


def check_disk(run: Path, needed: int) -> Iterator[Finding]:
    """Check that ``needed`` bytes of checkpoints fit on the file system of a run's directory."""
    run = run.expanduser().resolve()
    folder = next(folder for folder in [run, *run.parents] if folder.is_dir())
    free = shutil.disk_usage(folder).free
    found = f"{needed / GIB:.2f} GiB needed for checkpoints, {free / GIB:.1f} GiB free in {folder}"
    fix = (
        "delete old files, request more quota, choose another OUTDIR (ASR_RUN), or keep fewer "
        "checkpoints: regime.keep_last_n_checkpoints=1"
    )
    if not os.access(folder, os.W_OK):
        yield error("disk", f"{folder} is not writable", "choose another OUTDIR (ASR_RUN)")
    elif free < needed:
        yield error("disk", found, fix)
    elif (refusal := reserve(folder, needed)) == "":
        yield ok("disk", found)
    elif refusal is None:
        yield unknown("disk", f"{found}; the quota is not known", "see the quota below, or ask")
    else:
        yield error("quota", f"{needed / GIB:.2f} GiB cannot be reserved: {refusal}", fix)
    for command in filter(shutil.which, QUOTA_COMMANDS):
        answer = subprocess.run(  # noqa: S603 - the site's own command
            [command], capture_output=True, text=True, timeout=60, check=False
        )
        yield unknown("quota", f"{command}:\n{answer.stdout.strip()}", "compare it with the above")


def check_caches(environment: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Check that downloads do not go to the home directory of a cluster, which has a quota."""
    on_cluster = bool(environment.get("LSF_ENVDIR") or shutil.which("bsub"))
    for name, usual in CACHES.items():
        place = Path(environment.get(name) or usual).expanduser()
        if on_cluster and place.resolve().is_relative_to(Path.home().resolve()):
            fix = f"export {name} on scratch; the scripts in lsf/ do so (ASR_CACHE)"
            yield warning(f"cache {name}", f"{place} is in the home directory", fix)
        else:
            yield ok(f"cache {name}", str(place))


def reserve(folder: Path, needed: int) -> str | None:
    """Reserve space for a moment: a quota is not part of the free space that the system reports.

    Returns an empty string, the reason for a refusal, or None if the file system cannot reserve.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            # os.posix_fallocate would write every block where space cannot be reserved.
            size = ctypes.c_int64(max(1, needed))
            if libc.fallocate(file.fileno(), 0, ctypes.c_int64(0), size) == 0:
                return ""
            number = ctypes.get_errno()
    except OSError as problem:
        number = problem.errno or 0
    return os.strerror(number) if number in _REFUSALS else None


def _driver() -> str | None:
    command = shutil.which("nvidia-smi")
    query = ["--query-gpu=driver_version", "--format=csv,noheader"]
    if command is None:
        return None
    answer = subprocess.run(  # noqa: S603 - the system's own nvidia-smi
        [command, *query], capture_output=True, text=True, timeout=60, check=False
    )
    return (answer.stdout.split("\n")[0].strip() or None) if answer.returncode == 0 else None
