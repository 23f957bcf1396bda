"""Python, packages, GPU, CPUs, disk and the job scripts: what every run needs from this machine."""

import ctypes
import errno
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

from danish_asr.base.cluster.cpus import lsf_slots, usable_cpus

INSTALL: Final = "run `make setup` in a fresh checkout"
NATIVE: Final = (
    *("numpy", "pandas", "pyarrow.parquet", "fairseq2n"),
    *("torchaudio", "soxr", "sentencepiece"),
)
"""Modules that load native code, each built for one version of numpy or torch."""

_UNUSED: Final = "omnilingual-asr 0.2.0 requires kenlm,"
"""Upstream declares kenlm and never imports it; it would need a compiler."""

_SECOND_STACK: Final = "but you have fairseq2 0.8"
_ACCEPTED: Final = (
    *(_SECOND_STACK, "requirement pyarrow<"),
    "pyctcdecode 0.5.0 has requirement numpy",
)
"""What the second stack has against the wishes of some packages, see docs/install.md."""

CACHES: Final = {
    "HF_HOME": "~/.cache/huggingface",
    "FAIRSEQ2_CACHE_DIR": "~/.cache/fairseq2/assets",
    "TMPDIR": tempfile.gettempdir(),
}
"""Variables with the place of downloads and temporary files, and the places without them."""


class Finding(NamedTuple):
    """What a check found, and how to fix it; ``fix`` is empty if nothing is wrong.

    ``level`` is ``ok``, ``unknown`` (it cannot be checked from here), ``warning`` (it may slow the
    run down or break it later) or ``error`` (the run would fail).
    """

    level: str
    check: str
    found: str
    fix: str = ""


ok = partial(Finding, "ok")
warning = partial(Finding, "warning")
error = partial(Finding, "error")


def has_lsf() -> bool:
    """Whether jobs are submitted to LSF from here."""
    return bool(os.environ.get("LSF_ENVDIR") or shutil.which("bsub"))


def check_packages() -> Iterator[Finding]:
    """Check that the installed packages fit each other, and that they load."""
    command, pipe = [sys.executable, "-m", "pip", "check"], subprocess.PIPE
    pip = subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True)  # noqa: S603
    # Meanwhile, because both take seconds.
    broken = list(_broken_modules())
    output, _ = pip.communicate()
    lines = output.splitlines() if pip.returncode else []
    second = any(_SECOND_STACK in line for line in lines)
    known = (_UNUSED, *_ACCEPTED) if second else (_UNUSED,)
    conflicts = [line for line in lines if not any(text in line for text in known)]
    stack = ("danish-asr ", "fairseq2", "omnilingual-asr ", "torch")
    for line in conflicts:
        yield (error if line.startswith(stack) else warning)("packages", line, INSTALL)
    if not conflicts:
        yield ok("packages", "pip check finds no conflict")
    yield from broken


def _broken_modules() -> Iterator[Finding]:
    for module in NATIVE:
        try:
            import_module(module)
        except Exception as problem:  # noqa: BLE001 - whatever the linker reports is the finding
            yield error(f"package {module}", f"does not load: {problem}", INSTALL)


def check_cpus() -> Iterator[Finding]:
    """Check that there are enough CPUs to decode audio beside the training."""
    usable, slots = usable_cpus(), lsf_slots()
    found = f"{usable} of the machine's {os.cpu_count()}"
    found += f", LSF granted {slots} here" if slots else ""
    fix = "request more: bsub -n 4" if has_lsf() else "one core decodes audio while another trains"
    yield ok("cpus", found) if usable > 1 else warning("cpus", found, fix)


def check_scripts(folder: Path) -> Iterator[Finding]:
    """Check that every script with ``#BSUB`` lines requests a wall time, where LSF is."""
    for script in sorted(folder.glob("*.sh")) if has_lsf() else ():
        text = script.read_text(encoding="utf-8")
        if re.search(r"\n#BSUB (.* )?-W ", text):
            yield ok("wall time", f"set in {script}")
        elif "\n#BSUB" in text:
            found = f"{script} has no #BSUB -W, and the default at DTU is 15 minutes"
            yield error("wall time", found, "add #BSUB -W hours:minutes")


def check_gpu() -> Iterator[Finding]:
    """Check that torch can use the GPU, if there is one."""
    import torch  # noqa: PLC0415 - slow

    if names := [gpu.name for gpu in _gpus()]:
        yield ok("gpu", f"{', '.join(names)}; CUDA {torch.version.cuda}")
    elif os.environ.get("FAIRSEQ2_DEVICE", "").startswith("cpu"):
        yield ok("gpu", "FAIRSEQ2_DEVICE=cpu: not needed")
    elif os.environ.get("CUDA_VISIBLE_DEVICES"):
        found = f"torch {torch.__version__} finds no GPU"
        fix = "request a GPU (bsub -gpu), or choose a node whose driver has CUDA 12.8 or later"
        yield error("gpu", found, fix)
    else:
        fix = "a CPU is enough for the demo only; FAIRSEQ2_DEVICE=cpu says that it is meant"
        if has_lsf():
            check = "bsub -Is -q gpua100 -n 4 -gpu num=1 -W 0:10 danish-asr doctor"
            fix = f"to check a GPU node: {check}, or run it in `a100sh`"
        yield warning("gpu", "torch finds none here", fix)


def check_bf16(scripts: Path) -> Iterator[Finding]:
    """Check that the GPU here, or where LSF is, of the queue of lsf/train.sh, computes in bf16."""
    fix = "trainer.mixed_precision.dtype=torch.float16 evaluator.amp_dtype=torch.float16"
    train, queue, gpus = scripts / "train.sh", "", _gpus()
    if has_lsf():
        fix = f"another queue, such as gpua100, or {fix}"
        line = re.search(r"\n#BSUB -q (\S+)", train.read_text("utf-8")) if train.is_file() else None
        queue = os.environ.get("LSB_QUEUE") or (line[1] if line else "")
    lacking = [gpu.name for gpu in gpus if gpu.major < 8] or [queue] * ("v100" in queue)
    if lacking:
        yield error("bf16", f"needed, but not computed by {', '.join(lacking)}", fix)
    elif queue or gpus:
        yield ok("bf16", f"computed by {queue or ', '.join(gpu.name for gpu in gpus)}")


def check_disk(run: Path, needed: int | None = None) -> Iterator[Finding]:
    """Check that ``needed`` bytes of checkpoints fit on the file system of a run's directory.

    Without ``needed``, 300M with standard.yaml is assumed, and too little space is a warning.
    """
    level, assumed = (error, "") if needed else (warning, " of 300M with standard.yaml (assumed)")
    needed = needed or int(14.4 * 2**30)
    run = run.expanduser().resolve()
    folder = next(folder for folder in [run, *run.parents] if folder.is_dir())
    free = shutil.disk_usage(folder).free
    needs = f"{needed / 2**30:.2f} GiB needed for checkpoints{assumed}"
    found = f"{needs}, {free / 2**30:.1f} GiB free in {folder}"
    fix = (
        "delete old files, request more quota, choose another OUTDIR (ASR_RUN), or keep fewer "
        "checkpoints: regime.keep_last_n_checkpoints=1"
    )
    if not os.access(folder, os.W_OK):
        yield error("disk", f"{folder} is not writable", "choose another OUTDIR (ASR_RUN)")
    elif free < needed:
        yield level("disk", found, fix)
    elif (refusal := reserve(folder, needed)) == "":
        yield ok("disk", found)
    elif refusal is None:
        fix = "see the quota below, or ask"
        yield Finding("unknown", "disk", f"{found}; the quota is not known", fix)
    else:
        yield level("quota", f"{needs}, cannot be reserved: {refusal}", fix)
    for command in filter(shutil.which, ("getquota_work3.sh", "getquota_zhome.sh")):  # DTU's
        answer = subprocess.run([command], capture_output=True, text=True, check=False)  # noqa: S603
        found = f"{command}:\n{answer.stdout.strip()}"
        yield Finding("unknown", "quota", found, "compare it with the above")


def check_caches() -> Iterator[Finding]:
    """Check that downloads do not go to the home directory of a cluster, which has a quota."""
    on_cluster = has_lsf()
    for name, usual in CACHES.items():
        place = Path(os.environ.get(name) or usual).expanduser()
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
    return os.strerror(number) if number in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG} else None


def _gpus() -> list[Any]:
    """The properties of the GPUs that a run would use."""
    from torch import cuda  # noqa: PLC0415 - slow

    if os.environ.get("FAIRSEQ2_DEVICE", "").startswith("cpu") or not cuda.is_available():
        return []
    return [cuda.get_device_properties(index) for index in range(cuda.device_count())]
