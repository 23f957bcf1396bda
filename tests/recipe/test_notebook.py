"""The notebook on the demo, in a kernel of its own, beside a run of four steps."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.recipe.running import ROOT, evaluate


def test_the_notebook_runs_and_is_kept_without_outputs(
    tmp_path: Path, finished_run: Path, dataset: Path
) -> None:
    name = "demo.ipynb"
    kept = json.loads((ROOT / "notebooks" / name).read_text(encoding="utf-8"))
    assert not any(cell.get("outputs") for cell in kept["cells"])
    run = tmp_path / "demo" / "run"
    shutil.copytree(finished_run, run)
    assert evaluate(run, dataset) == 0
    (run.parent / "dataset").symlink_to(dataset)
    notebook = tmp_path / "notebooks" / name
    notebook.parent.mkdir()
    notebook.write_text(json.dumps(kept), encoding="utf-8")
    command = [sys.executable, "-m", "jupyter", "execute", "--inplace", str(notebook)]
    done = subprocess.run(
        command,
        env=os.environ | {"IPYTHONDIR": str(tmp_path / "ipython")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outputs = [
        output
        for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        for output in cell.get("outputs", ())
    ]
    kinds = {kind for output in outputs for kind in output.get("data", ())}
    assert {"text/html", "image/png"} <= kinds
