"""``danish-asr plan --probe`` and ``--search``: measure, and find the largest batches that fit.

Each probe is a process of its own, so that one that runs out of memory leaves nothing behind.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from danish_asr.base.config_tree import Tree, flatten
from danish_asr.base.errors import ConfigError, DanishAsrError, RunFailedError
from danish_asr.base.files import publish_text, to_yaml
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.base.stops import PassingOn
from danish_asr.planning.gpus import Card, here
from danish_asr.recipe.config.keys import defaults
from danish_asr.recipe.entry import Request, note, read_configuration, refuse
from danish_asr.recipe.run.run_directory import PROBE

_SIZE: Final = "dataset.asr_task_config.max_num_elements"
_LONGEST: Final = "dataset.asr_task_config.max_audio_len"
_BATCHES: Final = "trainer.grad_accumulation.num_batches"
_MINUTES: Final = "trainer.effective_audio_minutes"

_STEPS: Final = 100
"""Of a probe, unless ``trainer.probe_steps`` says otherwise."""

_SEARCH_STEPS: Final = 3
"""Of each probe of the search: the optimizer has its state from the second one on."""

_PRECISE: Final = 1.05
"""The search ends when what does not fit is less than so many times what does."""

_SPARE: Final = 0.95
"""Of the memory, in the search; a longer run takes more, when memory is fragmented."""


class Machine(NamedTuple):
    """How many processes take part, and what each may use of memory; None: all there is."""

    processes: int
    limit: int | None


def probe_command(
    request: Request,
    gpu: str | None,
    gpus: int,
    *,
    write: Path | None,
    as_json: bool,
    searches: bool,
    price_per_hour: float | None,
) -> bool:
    """Probe, print the report, and return whether it fits; with ``searches`` the largest batches.

    ``gpu`` is a limit for what is measured here, and ``write`` gets the overlay that the search has
    found. A faulty configuration ends the program with status 2.
    """
    overlay: Tree = {}
    try:
        machine = Machine(gpus, Card.of(gpu).free if gpu else None)
        tree = read_configuration(request)
        values = dict(flatten(tree))
    except ConfigError as error:
        refuse(error)
    if searches and not machine.limit and not here():
        fault = "--search needs a limit where there is no GPU: --gpu 8GiB, for example"
        refuse(ConfigError([fault], where="the command line"))
    if searches:
        overlay = _search(request, machine, defaults() | values)
    steps = values.get("trainer.probe_steps") or _STEPS
    note(f"probing {steps} steps")
    report = _probe(request, machine, steps, [f"{k}={v}" for k, v in flatten(overlay)])
    lines = report.get("lines", ["memory   not enough"])
    if price_per_hour is not None and report.get("hours"):
        cost = report["hours"] * gpus * price_per_hour
        lines.append(f"cost     {cost:,.2f}, at {price_per_hour:g} per GPU and hour")
    if machine.limit:
        verdict = "fits     " if report["fits"] else "does not fit "
        lines.append(f"{verdict}{machine.limit / 2**30:.2f} GiB")
    print(json.dumps(report, indent=1) if as_json else "\n".join(lines))  # noqa: T201
    if write is not None and overlay and report["fits"]:
        publish_text(write, "\n".join([*(f"# {line}" for line in lines), to_yaml(overlay)]))
        note(f"wrote {write}; lay it over the configuration with --config")
    return bool(report["fits"])


def _probe(
    request: Request, machine: Machine, steps: int, values: list[str], spare: float = 1.0
) -> dict[str, Any]:
    """Run a probe and return its report; ``fits`` is whether it took at most ``spare`` of memory.

    Raises:
        RunFailedError: It fails for another reason; with the end of what it printed.
    """
    with TemporaryDirectory() as folder:
        run = Path(folder, "probe")
        command = [sys.executable, "-m"]
        if machine.processes > 1:
            command += ["danish_asr.base.cluster", "--nproc-per-node", str(machine.processes), "-m"]
        command += ["danish_asr", "train", str(run)]
        for file in request.config_files:
            command += ["--config", str(file)]
        command += [*request.overrides, *values, f"trainer.probe_steps={steps}"]
        printed = []

        def show(line: str) -> None:
            printed.append(line)
            if steps > _SEARCH_STEPS:
                sys.stderr.write(line)

        with PassingOn() as processes:
            status = processes.run(command, each_line=show)
        processes.exit_if_stopped()
        report: dict[str, Any] = {"fits": False}
        if (run / PROBE).is_file():
            report = json.loads((run / PROBE).read_text(encoding="utf-8"))
        elif status not in {-9, 137}:  # the system ends what takes all memory
            end = "".join(printed[-15:])
            raise RunFailedError(f"the probe failed with status {status}:\n{end}")
    limit = machine.limit or report.get("memory_bytes")
    if report["fits"] and limit:
        report["fits"] = report["peak_bytes"] <= spare * limit
    return report


def _search(request: Request, machine: Machine, values: Tree) -> Tree:
    """Return the overlay with the largest batches that fit, which keeps the audio of a step.

    Raises:
        DanishAsrError: Not even the longest utterance fits.
    """
    limit = f"{machine.limit / 2**30:.2f} GiB" if machine.limit else "the GPU's memory"
    note(f"limit: {_SPARE:.0%} of {limit}, because a longer run takes more")

    def try_size(size: int) -> dict[str, Any]:
        overrides = [f"{_SIZE}={size}", f"{_MINUTES}=null", f"{_BATCHES}=1"]
        report = _probe(request, machine, _SEARCH_STEPS, overrides, _SPARE)
        peak = f", {report['peak_bytes'] / 2**30:.2f} GiB" if report.get("peak_bytes") else ""
        note(f"{size:,} samples: {'fits' if report['fits'] else 'does not fit'}{peak}")
        return report

    size = _largest(try_size, values[_SIZE], values[_LONGEST])
    note(f"the largest max_num_elements that fits is {size:,}")
    minutes = values[_MINUTES]
    if minutes is None:
        samples = values[_SIZE] * values[_BATCHES]
    else:
        samples = round(minutes * 60 * SAMPLE_RATE / machine.processes)
    batches = max(-(-samples // size), 1)
    fitted = size if minutes is None and samples < size else samples // batches
    overlay: Tree = {"dataset": {"asr_task_config": {"max_num_elements": fitted}}}
    if minutes is None:
        overlay["trainer"] = {"grad_accumulation": {"num_batches": batches}}
    return overlay


def _largest(try_size: Callable[[int], dict[str, Any]], start: int, least: int) -> int:
    """Double ``start`` while it fits, then halve the interval."""
    fits, too_large = 0, 0
    size = max(start, least)
    while not too_large or too_large > _PRECISE * fits:
        report = try_size(size)
        if report["fits"]:
            fits = size
            if report["largest_batch"] < 0.9 * size:
                return fits  # larger batches would hold no more
        elif size == least:
            raise DanishAsrError(
                f"{_LONGEST}={least}: a batch of one such utterance does not fit; lower it, or see "
                "the other ways to need less memory: danish-asr plan --config ... --gpu ..."
            )
        else:
            too_large = size
        if not fits:
            size = least
        elif not too_large:
            size = 2 * fits
        else:
            size = (fits + too_large) // 2 // SAMPLE_RATE * SAMPLE_RATE
            if size <= fits:
                return fits
    return fits
