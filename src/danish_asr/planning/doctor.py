"""Find what would break a run before its job waits in the queue.

It imports the libraries, and does what preflight, ``fetch``, ``plan`` and ``verify`` do.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rich.console import Console

from danish_asr.base.cluster import job_cpus, usable_cpus
from danish_asr.base.config_tree import flatten
from danish_asr.base.errors import ConfigError, DanishAsrError
from danish_asr.planning.gpus import here
from danish_asr.recipe.entry import Request, read_configuration

if TYPE_CHECKING:
    from danish_asr.recipe.config.schema import AsrConfig

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
    found: str
    fix: str = ""


def doctor(
    files: Sequence[Path],
    *,
    dataset: Path | None = None,
    run: Path | None = None,
    as_json: bool = False,
    console: Console | None = None,
) -> bool:
    """Check, print the findings, errors first, and return whether the run would work.

    Without a configuration in ``files`` only the machine is checked. ``dataset`` is the root of a
    dataset, over the one that they name; ``run`` is by default ``$ASR_RUN`` or the working
    directory.
    """
    console = console or Console()
    findings = [check_libraries(), check_cpus(), *check_caches()]
    if not any(finding.level == "error" for finding in findings):
        findings.append(check_gpu())
        if files:
            findings += check_run(files, dataset, run or Path(os.environ.get("ASR_RUN") or "."))
    findings.sort(key=lambda finding: [*COLOURS].index(finding.level))
    counts = Counter(finding.level for finding in findings)
    if as_json:
        rows = [finding._asdict() for finding in findings]
        console.out(json.dumps(rows, indent=1, ensure_ascii=False), highlight=False)
        return not counts["error"]
    for finding in findings:
        line = f"{finding.level:8}{finding.check}: {finding.found}"
        line += f"\n        fix: {finding.fix}" if finding.fix else ""
        console.print(line, style=COLOURS[finding.level], markup=False, soft_wrap=True)
    summary = ", ".join(f"{counts[level]} {level}" for level in COLOURS if counts[level])
    console.print(f"{len(findings)} findings: {summary}", highlight=False)
    return not counts["error"]


def check_libraries() -> Finding:
    """Check that libraries with native code load."""
    for module in NATIVE:
        try:
            import_module(module)
        except Exception as problem:  # noqa: BLE001 - whatever the linker reports is the finding
            text = f"{module} does not load: {problem}"
            return Finding("error", "libraries", text, "run `make setup` in a fresh checkout")
    return Finding("ok", "libraries", "all load")


def check_cpus() -> Finding:
    """Check that there are enough CPUs to decode audio beside the training."""
    usable, granted = usable_cpus(), job_cpus()
    text = f"{usable} of the machine's {os.cpu_count()}"
    text += f", the job was granted {granted} here" if granted else ""
    if usable > 1:
        return Finding("ok", "cpus", text)
    fix = "one core decodes audio while another trains; in a job, ASR_CPUS=4"
    return Finding("warning", "cpus", text, fix)


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
    import torch  # noqa: PLC0415 - slow

    if os.environ.get("FAIRSEQ2_DEVICE", "").startswith("cpu"):
        return Finding("ok", "gpu", "FAIRSEQ2_DEVICE=cpu: not needed")
    if torch.cuda.is_available():
        text = f"{torch.cuda.get_device_name()}; CUDA {torch.version.cuda}"
        return Finding("ok", "gpu", text)
    text = f"torch {torch.__version__} finds none"
    if os.environ.get("CUDA_VISIBLE_DEVICES"):
        fix = "request a GPU (ASR_GPUS=1), or choose a node whose driver has CUDA 12.8 or later"
        return Finding("error", "gpu", text, fix)
    fix = "a CPU is enough for the demo; `danish-asr plan --gpu NAME` plans for another machine"
    return Finding("warning", "gpu", text, fix)


def check_run(files: Sequence[Path], dataset: Path | None, run: Path) -> Iterator[Finding]:
    """Check a configuration, its downloads, memory and disk, and its dataset."""
    from danish_asr.recipe.config.load import load  # noqa: PLC0415 - pydantic
    from danish_asr.recipe.train.preflight import resolve  # noqa: PLC0415 - imports fairseq2

    request = Request(output_dir=run, config_files=files, dataset=dataset)
    try:
        tree = read_configuration(request)
        config = load(tree, where=request.where)
        yield from _guarded("weights", _check_downloads(config))
        resolved = resolve(config, where=request.where)
    except ConfigError as problem:
        for fault in problem.faults:
            text = f"{request.where}: {fault}"
            yield Finding("error", "configuration", text, "correct the configuration")
        return
    config = resolved.config
    text = f"model {config.model.name or config.model.arch}, dataset {config.dataset.name}"
    text = f"{request.where}: {text}, tokenizer {config.tokenizer.name or config.tokenizer.path}"
    yield Finding("ok", "configuration", text)
    yield from _guarded("plan", _check_plan(tree, request.where, run))
    yield from _guarded("dataset", _check_dataset(resolved.dataset))


def _guarded(check: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield the findings of a check; what it raises is an error of the run."""
    try:
        yield from findings
    except DanishAsrError as problem:
        fix = "correct the configuration, or convert the dataset again"
        yield Finding("error", check, str(problem), fix)


def _check_downloads(config: "AsrConfig") -> Iterator[Finding]:
    from danish_asr.planning.fetch import missing  # noqa: PLC0415 - imports fairseq2

    if names := missing(config):
        fix = "download them where there is internet access: danish-asr fetch --config ..."
        yield Finding("warning", "weights", f"not in fairseq2's cache: {', '.join(names)}", fix)


def _check_plan(tree: dict[str, Any], where: str, run: Path) -> Iterator[Finding]:
    """Compare the memory and the disk that a run needs with what is here."""
    import torch  # noqa: PLC0415 - slow

    from danish_asr.planning.plan import make_plan  # noqa: PLC0415 - imports fairseq2

    card = here()
    plan = make_plan(tree, where=where, card=card, run=run)
    if card:
        text = f"{plan.total / _GIB:.1f} of {card.free / _GIB:.1f} GiB of {card.name}, calculated"
        changes = " ".join(f"{key}={value}" for key, value in flatten(plan.overlay))
        fix = f"{changes or 'a larger GPU, or a smaller model'}; see danish-asr plan"
        yield Finding("ok", "memory", text) if plan.fits else Finding("error", "memory", text, fix)
        evaluates = plan.config.evaluator.amp and plan.config.evaluator.amp_dtype == "bfloat16"
        if (plan.bfloat16 or evaluates) and torch.cuda.get_device_capability()[0] < 8:
            fix = "trainer.mixed_precision.dtype=torch.float16 evaluator.amp_dtype=torch.float16"
            yield Finding("error", "bf16", f"{card.name} does not compute in bfloat16", fix)
    for note in plan.notes:
        yield Finding("warning", "plan", note, "see danish-asr plan")
    run = run.expanduser().resolve()
    folder = next(folder for folder in [run, *run.parents] if folder.is_dir())
    free = shutil.disk_usage(folder).free
    text = f"checkpoints need {plan.disk.total / _GIB:.2f} GiB, {free / _GIB:.1f} free in {folder}"
    if os.access(folder, os.W_OK) and free >= plan.disk.total:
        yield Finding("ok", "disk", f"{text}; a quota may be less")
    else:
        fix = "choose another OUTDIR (ASR_RUN), or regime.keep_last_n_checkpoints=1"
        yield Finding("error", "disk", text, fix)


def _check_dataset(root: Path) -> Iterator[Finding]:
    """Verify a built dataset."""
    from danish_asr.corpus.verify import verify  # noqa: PLC0415 - slow: pyarrow

    verification = verify(root)
    for fault in verification.damage:
        text = f"{root}: {fault}"
        yield Finding("error", "dataset", text, "`danish-asr verify` lists all faults")
    if not verification.damage:
        yield Finding("ok", "dataset", f"{root}: {sum(verification.hours.values()):.1f} h")
