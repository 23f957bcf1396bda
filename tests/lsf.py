"""``bsub`` for tests: runs a job at once, and again as long as it ends with the status of ``-Q``.

A job that was killed stands for one whose host was lost: ``-r`` starts it again. ``-R`` on the
command line replaces those of a script, so that only they count, and may be repeated.

Job N leaves ``N.json``: its options, and the status of each start by array index; "ended" is that
of a job with ``-ti`` whose condition cannot come true any more.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from argparse import REMAINDER, ArgumentParser
from pathlib import Path


def main(root: Path, arguments: list[str]) -> None:
    parser = ArgumentParser(allow_abbrev=False)
    for name in ("J", "o", "q", "P", "n", "gpu", "W", "wa", "wt", "Q", "w"):
        parser.add_argument(f"-{name}")
    parser.add_argument("-R", action="append")
    parser.add_argument("-r", action="store_true")
    parser.add_argument("-ti", action="store_true")
    parser.add_argument("command", nargs=REMAINDER)
    options = vars(parser.parse_args(arguments))
    again = [options["Q"], str(-signal.SIGKILL) if options["r"] else None]
    job = len(list(root.glob("*.json"))) + 1
    statuses: dict[int, list[int | str]] = {}
    record = root / f"{job}.json"
    record.write_text(json.dumps({"options": options, "statuses": statuses}))
    sys.stdout.write(f"Job <{job}> is submitted to queue <{options['q']}>.\n")
    for number in re.findall(r"done\((\d+)\)", options["w"] or ""):
        before = json.loads((root / f"{number}.json").read_text())["statuses"]
        if not before or any(starts[-1] for starts in before.values()):
            ended = {0: ["ended"]} if options["ti"] else {}
            record.write_text(json.dumps({"options": options, "statuses": ended}))
            return
    size = re.search(r"\[1-(\d+)\]", options["J"])
    gpus = re.search(r"num=(\d+)", options["gpu"] or "")
    environment = {
        **os.environ,
        "LSB_JOBID": str(job),
        "LSB_MCPU_HOSTS": f"localhost {options['n']}",
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(int(gpus[1])))) if gpus else "",
    }
    for index in range(1, int(size[1]) + 1) if size else [0]:
        environment["LSB_JOBINDEX"] = str(index)
        starts = statuses.setdefault(index, [])
        while not starts or str(starts[-1]) in again:
            process = subprocess.Popen(
                options["command"], env=environment, start_new_session=True, stdout=sys.stderr
            )
            (root / "pid").write_text(str(process.pid))
            starts.append(process.wait())
            record.write_text(json.dumps({"options": options, "statuses": statuses}))


if __name__ == "__main__":
    main(Path(__file__).parent, sys.argv[1:])
