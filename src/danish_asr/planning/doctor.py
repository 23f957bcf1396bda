"""Find what would break a run on this machine before its job waits in the queue.

It imports the libraries, and does what preflight and ``fetch`` do.
"""

# ruff: noqa: PLC0415 - PyTorch, fairseq2 and pyarrow, whose imports are the first check

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.console import Console

from danish_asr.base.errors import ConfigError, DanishAsrError
from danish_asr.recipe.entry import Request

if TYPE_CHECKING:
    from danish_asr.planning.plan import Plan

COLOURS: Final = {"error": "red", "warning": "yellow", "ok": "green"}
"""Of each level; in this order they are printed."""

NATIVE: Final = (
    *("torch", "numpy", "pandas", "pyarrow.parquet", "fairseq2n"),
    *("torchaudio", "soxr", "sentencepiece"),
)
"""Modules that load native code, each built for one version of numpy or torch."""

_GIB: Final = 2**30


class Finding(NamedTuple):
    """What a check says, and how to fix it; ``fix`` is empty if nothing is wrong.

    ``level`` is ``ok``, ``warning`` (it may slow the run down or break it later) or ``error`` (the
    run would fail).
    """

    level: str
    check: str
    text: str
    fix: str = ""


def check_setup(request: Request | None = None, plan: "Plan | None" = None) -> bool:
    """Print what `examine` finds, errors first, and return whether the run would work."""
    findings = sorted(examine(request, plan), key=lambda finding: [*COLOURS].index(finding.level))
    console = Console(soft_wrap=True, markup=False, highlight=False)
    for finding in findings:
        line = f"{finding.level:8}{finding.check}: {finding.text}"
        line += f"\n        fix: {finding.fix}" if finding.fix else ""
        console.print(line, style=COLOURS[finding.level])
    return all(finding.level != "error" for finding in findings)


def examine(request: Request | None, plan: "Plan | None") -> Iterator[Finding]:
    """Check this machine, and the run that is asked for, whose plan is ``plan``."""
    libraries = check_libraries()
    yield libraries
    yield from check_caches()
    if libraries.level == "ok":
        yield check_gpu()
        if request and plan:
            yield from check_run(request, plan)


def check_libraries() -> Finding:
    """Check that libraries with native code load."""
    for module in NATIVE:
        try:
            import_module(module)
        except Exception as problem:  # noqa: BLE001 - whatever the linker reports is the finding
            text = f"{module} does not load: {problem}"
            return Finding("error", "libraries", text, "run `make setup` in a fresh checkout")
    return Finding("ok", "libraries", "all load")


def check_caches() -> Iterator[Finding]:
    """Check that models are not downloaded into the home directory of a cluster."""
    if not (shutil.which("bsub") or shutil.which("sbatch")):
        return
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    for name, folder in {"HF_HOME": "huggingface", "FAIRSEQ2_CACHE_DIR": "fairseq2"}.items():
        path = Path(os.environ.get(name) or Path(cache, folder)).expanduser().resolve()
        if path.is_relative_to(Path.home().resolve()):
            fix = f"weights take gigabytes and homes have small quotas: set {name} to a work disk"
            yield Finding("warning", "caches", f"{path} is in the home directory", fix)


def check_gpu() -> Finding:
    """Check that torch can use the GPU, if there is one."""
    import torch

    if os.environ.get("FAIRSEQ2_DEVICE", "").startswith("cpu"):
        return Finding("ok", "gpu", "FAIRSEQ2_DEVICE=cpu: not needed")
    if torch.cuda.is_available():
        return Finding("ok", "gpu", f"{torch.cuda.get_device_name()}; CUDA {torch.version.cuda}")
    text = f"torch {torch.__version__} finds none"
    if os.environ.get("CUDA_VISIBLE_DEVICES"):
        fix = "request a GPU (ASR_GPUS=1), or choose a node whose driver has CUDA 12.8 or later"
        return Finding("error", "gpu", text, fix)
    fix = "a CPU is enough for the demo; `danish-asr plan --gpu NAME` plans for another machine"
    return Finding("warning", "gpu", text, fix)


def check_run(request: Request, plan: "Plan") -> Iterator[Finding]:
    """Check a configuration with what it names, its downloads, free memory and disk."""
    from danish_asr.planning.fetch import missing
    from danish_asr.recipe.train.preflight import resolve

    try:
        with suppress(ConfigError):  # whose faults `resolve` finds too
            if names := missing(plan.config):
                text = f"not in fairseq2's cache: {', '.join(names)}"
                fix = "download them where there is internet access: danish-asr fetch --config ..."
                yield Finding("warning", "weights", text, fix)
        resolved = resolve(plan.config, where=request.where)
        config = resolved.config
        model = config.model.name or config.model.arch
        tokenizer = config.tokenizer.name or config.tokenizer.path
        text = f"model {model}, dataset {config.dataset.name}, tokenizer {tokenizer}"
        yield Finding("ok", "configuration", text)
        yield from _check_dataset(resolved.dataset)
    except DanishAsrError as problem:
        faults = problem.faults if isinstance(problem, ConfigError) else [str(problem)]
        for fault in faults:
            yield Finding("error", "configuration", f"{request.where}: {fault}", "correct it")
    yield from _check_free_memory(plan)
    yield _check_disk(plan, run_directory())


def _check_dataset(root: Path) -> Iterator[Finding]:
    from danish_asr.base.schema import INVENTORY_FILE
    from danish_asr.corpus.shards import read_inventory

    if not (root / INVENTORY_FILE).is_file():  # another program wrote the dataset
        return
    lost = [
        shard.path for shard in read_inventory(root).shards if not (root / shard.path).is_file()
    ]
    if lost:
        text = f"{root}: {len(lost)} shards are missing, such as {lost[0]}"
        yield Finding("error", "dataset", text, "`danish-asr verify` lists all faults")


def run_directory() -> Path:
    """The directory of the run that is planned: ``$ASR_RUN``, or the working directory."""
    return Path(os.environ.get("ASR_RUN") or ".")


def _check_free_memory(plan: "Plan") -> Iterator[Finding]:
    import torch

    from danish_asr.planning.memory import CUDA_BYTES

    if plan.card is None or not torch.cuda.is_available():
        return
    # What CUDA takes for this process is free for the run, whose plan counts it.
    free = torch.cuda.mem_get_info()[0] + CUDA_BYTES
    if plan.fits and plan.total > free:
        sizes = f"{free / _GIB:.1f} GiB, and the run needs {plan.total / _GIB:.1f}"
        text = f"other programs leave {sizes}"
        yield Finding("error", "memory", text, "end them, or take another GPU")


def _check_disk(plan: "Plan", run: Path) -> Finding:
    run = run.expanduser().resolve()
    folder = next(folder for folder in [run, *run.parents] if folder.is_dir())
    free = shutil.disk_usage(folder).free
    text = f"checkpoints need {plan.disk.total / _GIB:.2f} GiB, {free / _GIB:.1f} free in {folder}"
    if os.access(folder, os.W_OK) and free >= plan.disk.total:
        return Finding("ok", "disk", f"{text}; a quota may be less")
    fix = "choose another OUTDIR (ASR_RUN), or regime.keep_last_n_checkpoints=1"
    return Finding("error", "disk", text, fix)
