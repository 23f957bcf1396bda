from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

WORK = (
    *("corpus.command.check_faults", "corpus.command.convert_command"),
    *("corpus.command.verify_command", "inference.transcribe.transcribe"),
    *("planning.plan.check_machine", "planning.plan.show_plan", "planning.sweep.run_sweep"),
    *("recipe.entry.run", "report.dataset_page.check_page"),
    *("report.dataset_page.write_dataset_page", "report.runs.report_runs"),
    "report.score.score_files",
)
VARIABLES = ("RANK", "SLURM_CPUS_ON_NODE", "LSB_MCPU_HOSTS", "CUDA_VISIBLE_DEVICES")


@pytest.fixture
def called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The functions that were called in place of the work, each with its arguments."""
    monkeypatch.chdir(tmp_path)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("danish_asr.planning.gpus.here", lambda: None)
    calls: list[Any] = []
    for path in WORK:

        def work(*arguments: Any, name: str = path.rpartition(".")[2], **_: Any) -> Any:
            calls.append((name, *arguments))
            return SimpleNamespace(damage=(), contradictions=(), hours={})

        monkeypatch.setattr(f"danish_asr.{path}", work)
    return calls
