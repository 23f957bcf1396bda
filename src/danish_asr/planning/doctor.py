"""Find what would break a run before its job waits in the queue.

It imports the libraries, and does what preflight, ``fetch``, ``plan`` and ``verify`` do.
"""

# ruff: noqa: PLC0415 - PyTorch, fairseq2 and pyarrow, whose imports are the first check

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.console import Console

from danish_asr.base.cluster import job_cpus, usable_gpus
from danish_asr.base.errors import ConfigError, DanishAsrError
from danish_asr.planning.gpus import Card, here
from danish_asr.recipe.entry import Request, read_configuration

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


def doctor(files: Sequence[Path], *, dataset: Path | None = None, gpus: int | None = None) -> bool:
    """Print what `examine` finds, and return whether the run would work."""
    findings = examine(files, dataset=dataset, gpus=gpus)
    console = Console(soft_wrap=True, markup=False, highlight=False)
    for finding in findings:
        line = f"{finding.level:8}{finding.check}: {finding.text}"
        line += f"\n        fix: {finding.fix}" if finding.fix else ""
        console.print(line, style=COLOURS[finding.level])
    counts = Counter(finding.level for finding in findings)
    summary = ", ".join(f"{counts[level]} {level}" for level in COLOURS if counts[level])
    console.print(f"{len(findings)} findings: {summary}")
    return not counts["error"]


def examine(
    files: Sequence[Path], *, dataset: Path | None = None, gpus: int | None = None
) -> list[Finding]:
    """Check, and return the findings, errors first.

    Without a configuration in ``files`` only the machine is checked. ``dataset`` is the root of a
    dataset, over the one that they name. The run has so many ``gpus``, by default those of the job,
    or one; its directory is ``$ASR_RUN``, by default the working directory.
    """
    gpus = gpus or (job_cpus() and usable_gpus()) or 1
    run = Path(os.environ.get("ASR_RUN") or ".")
    findings = [check_libraries(), *check_caches()]
    if not any(finding.level == "error" for finding in findings):
        findings.append(check_gpu())
        if files:
            findings += check_run(files, dataset, run, gpus)
    return sorted(findings, key=lambda finding: [*COLOURS].index(finding.level))


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


def check_run(
    files: Sequence[Path], dataset: Path | None, run: Path, gpus: int
) -> Iterator[Finding]:
    """Check a configuration, its downloads, memory and disk, and its dataset."""
    from danish_asr.corpus.verify import verify
    from danish_asr.planning.fetch import missing
    from danish_asr.planning.plan import make_plan
    from danish_asr.recipe.config.load import load
    from danish_asr.recipe.train.preflight import resolve

    request = Request(output_dir=run, config_files=files, dataset=dataset)
    where = request.where
    try:
        tree = read_configuration(request)
        config = load(tree, where=where)
        with suppress(ConfigError):  # whose faults `resolve` finds too
            if names := missing(config):
                text = f"not in fairseq2's cache: {', '.join(names)}"
                fix = "download them where there is internet access: danish-asr fetch --config ..."
                yield Finding("warning", "weights", text, fix)
        resolved = resolve(config, where=where)
        config = resolved.config
        model = config.model.name or config.model.arch
        tokenizer = config.tokenizer.name or config.tokenizer.path
        text = f"{where}: model {model}, dataset {config.dataset.name}, tokenizer {tokenizer}"
        yield Finding("ok", "configuration", text)
        plan = make_plan(tree, where=where, card=_free_card(), gpus=gpus, run=run)
        yield from _check_memory(plan)
        yield _check_disk(plan, run)
        verification = verify(resolved.dataset)
    except DanishAsrError as problem:
        faults = problem.faults if isinstance(problem, ConfigError) else [str(problem)]
        for fault in faults:
            yield Finding("error", "configuration", f"{where}: {fault}", "correct it")
        return
    for fault in verification.damage:
        text = f"{resolved.dataset}: {fault}"
        yield Finding("error", "dataset", text, "`danish-asr verify` lists all faults")
    if not verification.damage:
        hours = sum(verification.hours.values())
        yield Finding("ok", "dataset", f"{resolved.dataset}: {hours:.1f} h")


def _free_card() -> Card | None:
    """The first GPU of this machine, with the memory that other programs leave."""
    import torch

    from danish_asr.planning.memory import CUDA_BYTES

    card = here()
    if card is None:
        return None
    free, _ = torch.cuda.mem_get_info()
    # What CUDA takes for this process is free for the run, whose plan counts it.
    return card._replace(free=min(card.free, free + CUDA_BYTES))


def _check_memory(plan: "Plan") -> Iterator[Finding]:
    for note in plan.notes:
        yield Finding("warning", "plan", note, "see danish-asr plan")
    if card := plan.card:
        sizes = f"{plan.total / _GIB:.1f} of {card.free / _GIB:.1f} GiB that are free"
        text = f"{sizes} on each of {plan.gpus} {card.name}, estimated"
        helps = [hint.values for hint in plan.hints if hint.total <= card.free]
        fix = f"{helps[0] if helps else 'a larger GPU, or a smaller model'}; see danish-asr plan"
        yield Finding("ok", "memory", text) if plan.fits else Finding("error", "memory", text, fix)


def _check_disk(plan: "Plan", run: Path) -> Finding:
    run = run.expanduser().resolve()
    folder = next(folder for folder in [run, *run.parents] if folder.is_dir())
    free = shutil.disk_usage(folder).free
    text = f"checkpoints need {plan.disk.total / _GIB:.2f} GiB, {free / _GIB:.1f} free in {folder}"
    if os.access(folder, os.W_OK) and free >= plan.disk.total:
        return Finding("ok", "disk", f"{text}; a quota may be less")
    fix = "choose another OUTDIR (ASR_RUN), or regime.keep_last_n_checkpoints=1"
    return Finding("error", "disk", text, fix)
