"""``bsub`` for tests: runs a job at once, and again as long as it ends with the status of ``-Q``.

A job that was killed stands for one whose host was lost: ``-r`` starts it again.

Job N leaves ``N.json``: its options, and the status of each start by array index.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path


def main(root: Path, arguments: list[str], script: str) -> None:
    given = [*shlex.split(" ".join(re.findall("^#BSUB (.*)", script, re.MULTILINE))), *arguments]
    rerun = "-r" in given
    given = [word for word in given if word != "-r"]
    # `-R` may be repeated, which no test looks at.
    options = dict(zip(given[::2], given[1::2], strict=True))
    again = [options.get("-Q"), str(-signal.SIGKILL) if rerun else None]
    job = len(list(root.glob("*.json"))) + 1
    statuses: dict[int, list[int]] = {}
    record = root / f"{job}.json"
    record.write_text(json.dumps({"options": options, "statuses": statuses}))
    sys.stdout.write(f"Job <{job}> is submitted to queue <{options['-q']}>.\n")
    for number in re.findall(r"done\((\d+)\)", options.get("-w", "")):
        before = json.loads((root / f"{number}.json").read_text())["statuses"]
        if not before or any(starts[-1] for starts in before.values()):
            return
    (root / f"{job}.sh").write_text(script)
    size = re.search(r"\[1-(\d+)\]", options["-J"])
    gpus = re.search(r"num=(\d+)", options.get("-gpu", ""))
    environment = {
        **os.environ,
        "LSB_JOBID": str(job),
        "LSB_JOBINDEX_END": size[1] if size else "0",
        "LSB_MCPU_HOSTS": f"localhost {options['-n']}",
        "LS_SUBCWD": str(Path.cwd()),
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(int(gpus[1])))) if gpus else "",
    }
    for index in range(1, int(size[1]) + 1) if size else [0]:
        environment["LSB_JOBINDEX"] = str(index)
        starts = statuses.setdefault(index, [])
        while not starts or str(starts[-1]) in again:
            process = subprocess.Popen(
                ["bash", root / f"{job}.sh"],
                env=environment,
                start_new_session=True,
                stdout=sys.stderr,
            )
            (root / "pid").write_text(str(process.pid))
            starts.append(process.wait())
            record.write_text(json.dumps({"options": options, "statuses": statuses}))


if __name__ == "__main__":
    main(Path(__file__).parent, sys.argv[1:], sys.stdin.read())
