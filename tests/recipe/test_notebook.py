"""The notebook on the demo, in a process of its own, beside a run of four steps."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from tests.forks import in_processes
from tests.recipe.running import ROOT, evaluate


def run_cells(args: list[str]) -> None:
    """Run the cells of a notebook beside it; prints the types of what they show."""
    from IPython.core.interactiveshell import InteractiveShell  # noqa: PLC0415 - in a new process

    class Shell(InteractiveShell):
        def enable_gui(self, gui: Any = None) -> None:
            """`%matplotlib inline` calls it; there is none."""

    notebook = Path(args[0])
    os.chdir(notebook.parent)
    shell: Any = Shell.instance()
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            result = shell.run_cell("".join(cell["source"]))
            result.raise_error()
            print(*shell.display_formatter.format(result.result)[0])  # noqa: T201


def test_the_notebook_runs_and_is_kept_without_outputs(
    tmp_path: Path, finished_run: Path, dataset: Path
) -> None:
    kept = ROOT / "notebooks" / "demo.ipynb"
    assert not any(cell.get("outputs") for cell in json.loads(kept.read_text("utf-8"))["cells"])
    run = tmp_path / "demo" / "run"
    shutil.copytree(finished_run, run)
    assert evaluate(run, dataset) == 0
    (run.parent / "dataset").symlink_to(dataset)
    (tmp_path / "notebooks").mkdir()
    notebook = shutil.copy(kept, tmp_path / "notebooks")
    printed = in_processes(1, run_cells, [str(notebook)], IPYTHONDIR=str(tmp_path / "ipython"))
    assert {"text/html", "image/png"} <= {*printed.split()}
