"""What a run ran on, for the record: ``environment.json`` in its directory."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Final

import torch

from danish_asr import __version__
from danish_asr.errors import RunError
from danish_asr.files import publish_text

ENVIRONMENT_FILE: Final = "environment.json"


def describe_environment() -> dict[str, Any]:
    """Return versions, devices, the command line and the state of the working copy."""
    return {
        "danish_asr": __version__,
        "command": sys.argv,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {d.metadata["Name"]: d.version for d in distributions()},
        "cuda": torch.version.cuda,
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "git": _git_state(),
    }


def write_environment(output_dir: Path) -> None:
    """Write the record; a run that continues keeps the first one's and adds its own."""
    file = output_dir / ENVIRONMENT_FILE
    try:
        starts = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
    except json.JSONDecodeError as error:
        raise RunError(f"{file} is no JSON ({error}); delete it, it is only a record") from None
    text = json.dumps([*starts, describe_environment()], ensure_ascii=False, indent=1)
    publish_text(file, text + "\n")


def _git_state() -> dict[str, Any] | None:
    """Commit and changes of the working copy that the code is run from; None outside of one."""
    here = Path(__file__).parent
    try:
        commit = _git(here, "rev-parse", "HEAD")
        return {"commit": commit, "changed": bool(_git(here, "status", "--porcelain"))}
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603
