"""GPU, driver, and whether the GPU computes in bf16."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import Final

from danish_asr.doctor.finding import Finding, error, ok, warning

FIRST_WITH_BF16: Final = (8, 0)
"""Compute capability of the A100's generation; the V100's is 7.0."""

MEND_BF16: Final = (
    "--config trainer.mixed_precision.dtype=torch.float16 evaluator.amp_dtype=torch.float16, or a "
    "queue with newer GPUs, such as ASR_GPU_QUEUE=gpua100"
)


def check_gpu() -> Iterator[Finding]:
    """There is a GPU with a driver that torch can use; or none is expected here."""
    if os.environ.get("FAIRSEQ2_DEVICE", "").startswith("cpu"):
        yield ok("gpu", "FAIRSEQ2_DEVICE=cpu: none is used")
        return
    import torch  # noqa: PLC0415 - slow

    driver = _driver()
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        yield ok("gpu", f"{', '.join(names)}; driver {driver}, CUDA {torch.version.cuda}")
    elif driver is not None:
        yield error(
            "gpu",
            f"driver {driver} is here, but torch {torch.__version__} (CUDA {torch.version.cuda}) "
            "finds no GPU",
            "check CUDA_VISIBLE_DEVICES and that the job asked for a GPU (-gpu); an older driver "
            "than CUDA 12.8 takes needs another node or an update by the site",
        )
    elif os.environ.get("CUDA_VISIBLE_DEVICES"):
        yield error(
            "gpu",
            "CUDA_VISIBLE_DEVICES names a GPU, but there is no driver (nvidia-smi)",
            "ask the site, or choose another queue",
        )
    else:
        yield warning(
            "gpu",
            "none here, as on login nodes",
            "to check a GPU node too: bsub -Is -q QUEUE -gpu num=1 -W 0:10 danish-asr doctor",
        )


def check_bf16(*, wanted: bool, environment: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """The GPU that the job has, or the queue that it will go to, computes in bf16 if it must."""
    if not wanted:
        yield ok("bf16", "the configuration does without")
        return
    queue = environment.get("ASR_GPU_QUEUE") or environment.get("LSB_QUEUE") or ""
    if "v100" in queue.lower():
        yield error("bf16", f"the configuration needs it, and queue {queue} has V100", MEND_BF16)
        return
    if environment.get("FAIRSEQ2_DEVICE", "").startswith("cpu"):
        yield ok("bf16", "a CPU computes in bf16, slowly")
        return
    import torch  # noqa: PLC0415 - slow

    if not torch.cuda.is_available():
        yield ok("bf16", "wanted; no GPU here to ask")
        return
    for index in range(torch.cuda.device_count()):
        name, capability = (
            torch.cuda.get_device_name(index),
            torch.cuda.get_device_capability(index),
        )
        if capability < FIRST_WITH_BF16:
            yield error("bf16", f"the configuration needs it, {name} has none", MEND_BF16)
        else:
            yield ok("bf16", f"{name} has it")


def _driver() -> str | None:
    command = shutil.which("nvidia-smi")
    if command is None:
        return None
    query = [command, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=60, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.split("\n", 1)[0].strip() or None
