"""The runs of a sweep, one after the other, each in a process of its own.

What a run has reached is in its own files, so a sweep that ends at any time is continued by the
same command.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from math import ceil, inf
from pathlib import Path
from types import FrameType
from typing import Final

from rich.console import Console

from danish_asr.base.cluster import stop_with_parent
from danish_asr.base.errors import EXIT_FAILED, EXIT_STOPPED, ConfigError, RunError
from danish_asr.base.files import publish_text
from danish_asr.base.lease import take
from danish_asr.base.schema import CARDS_DIR
from danish_asr.planning.sweep.grid import BASE, LIMIT, STOP, Sweep, open_sweep
from danish_asr.recipe.entry import refuse
from danish_asr.recipe.run.advice import LOSS, best_until
from danish_asr.recipe.run.outcome import FAILED, PRUNED
from danish_asr.recipe.run.run_directory import SCORE_TITLES, validations

PAGE: Final = "runs.html"

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
_ADVICE: Final = "Wait for its end, or stop it; the same command then continues the sweep."


def run_sweep(
    out: Path,
    files: Sequence[Path] = (),
    overrides: Sequence[str] = (),
    over: Sequence[str] = (),
    *,
    keep: float | None = None,
    rungs: int | None = None,
    only: int | None = None,
) -> None:
    """Train the runs of a sweep, or continue it; then list them, write their page and give advice.

    Only the run of this number, from 1, is trained with ``only``. It is compared, at each rung,
    with the runs that have been there so far (ASHA: Li et al. 2020).

    Exits with status 2 if the sweep is refused, 75 if it stopped early at a signal or its time
    limit and the same command continues it, 1 if each run failed.
    """
    try:
        sweep = open_sweep(out, files, overrides, over, keep=keep, rungs=rungs, only=only)
    except (ConfigError, RunError) as error:
        refuse(error)
    runner, names = Runner(sweep), [*sweep.runs]
    if only is None:
        lease = take(out, error=RunError, advice=_ADVICE, work="sweep")
        try:
            runner.run_all()
        finally:
            lease.release()
    else:
        names = [names[only - 1]]
        runner.run_one(names[0])
    from danish_asr.report.run.several import report_runs  # noqa: PLC0415 - slow: pandas

    report_runs(out, html=out / PAGE)
    if all((out / name / FAILED).is_file() for name in names):
        sys.exit(EXIT_FAILED)


class Runner:
    """Starts the runs of a sweep, passes signals on, and compares the runs at the rungs."""

    def __init__(self, sweep: Sweep) -> None:
        self._sweep, self._console = sweep, Console()
        self._began = time.monotonic()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        for number in _SIGNALS:
            signal.signal(number, self._stop)

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        self._stopped = True
        if self._process is not None:
            self._process.send_signal(number)

    def _say(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, highlight=False, markup=False)

    def run_all(self) -> None:
        """Bring all runs to the first rung, those that are kept to the next, and so on."""
        names, sweep = [*self._sweep.runs], self._sweep
        end = sweep.values["regime.num_steps"]
        rungs = f"compared at steps {', '.join(map(str, sweep.rungs))} of {end}, where the better "
        rungs += f"{sweep.halving.keep:g} of them continue"
        self._say(f"{len(names)} runs{', ' + rungs if sweep.rungs else ''}")
        for rung in [*sweep.rungs, None]:
            for name in names:
                self._bring(name, rung)
            names = [name for name in names if not (sweep.out / name / FAILED).is_file()]
            if rung is not None:
                names = self._kept(names, rung, of=names)

    def run_one(self, name: str) -> None:
        """Bring one run from rung to rung, until it fails or is not kept."""
        for rung in [*self._sweep.rungs, None]:
            self._bring(name, rung)
            if (self._sweep.out / name / FAILED).is_file():
                return
            if rung is not None:
                there = [each for each in self._sweep.runs if self._reached(each, rung)]
                if not self._kept(there, rung, of=[name]):
                    return

    def _kept(self, names: Sequence[str], rung: int, *, of: Iterable[str]) -> list[str]:
        """Return which ``of`` these runs are in the better part of all; mark the others."""
        standing = {name: self._standing(name, rung) for name in names}
        ranked = sorted(names, key=standing.__getitem__)
        kept = ranked[: ceil(self._sweep.halving.keep * len(ranked))]
        for name in of:
            if name not in kept and not self._complete(name):
                reason = (
                    f"at step {rung} {standing[name][1]}; the best {len(kept)} of {len(ranked)} "
                    f"runs are kept, up to {standing[kept[-1]][1]}"
                )
                publish_text(self._sweep.out / name / PRUNED, f"{reason}\n")
                self._say(f"{name}: pruned: {reason}")
        return [name for name in of if name in kept]

    @property
    def _metric(self) -> str:
        return SCORE_TITLES[self._sweep.values["regime.score_metric"]]

    def _standing(self, name: str, rung: int) -> tuple[tuple[float, float], str]:
        """Return what a run is compared by at a rung, and that in words."""
        best = best_until(validations(self._sweep.out / name), self._metric, rung)
        if best is None:  # it ended before the first validation
            return (inf, inf), "not validated"
        standing, row = best
        return standing, f"{self._metric} {row[self._metric]:.2f}, loss {row[LOSS]:.3f}"

    def _complete(self, name: str) -> bool:
        return (self._sweep.out / name / CARDS_DIR / f"{name}.yaml").is_file()

    def _reached(self, name: str, rung: int | None) -> bool:
        """Whether a run has been validated at a rung, or is complete."""
        rows = validations(self._sweep.out / name)
        there = rung is not None and bool(rows) and rows[-1]["Step"] >= rung
        return there or self._complete(name)

    def _bring(self, name: str, rung: int | None) -> None:
        """Train a run up to a rung, or to its end, unless it is there or has failed.

        Exits with status 75 if this sweep has to stop.
        """
        run = self._sweep.out / name
        if (run / FAILED).is_file() or self._reached(name, rung):
            return
        left = (self._sweep.minutes or inf) - (time.monotonic() - self._began) / 60
        if self._stopped or left <= 0:
            self._exit()
        log = run.with_name(f"{name}.log")
        self._say(f"{name}: to {f'step {rung}' if rung else 'its end'}; log: {log}")
        values = [*self._sweep.runs[name], f"{STOP}={rung or 'null'}"]
        values.append(f"{LIMIT}={left if left < inf else 'null'}")
        status, said = self._train(run, log, values)
        if self._stopped:
            self._exit()
        if status == EXIT_STOPPED and not self._reached(name, rung):
            self._exit()  # at the time limit, or somebody has stopped the run
        if status not in {0, EXIT_STOPPED}:
            self._fail(run, status, said)

    def _train(self, run: Path, log: Path, values: Sequence[str]) -> tuple[int, str]:
        """Return the exit status of a run, and what it wrote to its log."""
        _wait_for_lock(run)
        command = [sys.executable, "-m", "danish_asr.recipe", str(run)]
        command += ["--config-file", str(self._sweep.out / BASE), "--config", *values]
        with log.open("ab") as file:
            before = log.stat().st_size
            self._process = subprocess.Popen(  # noqa: S603
                command,
                stdout=file,
                stderr=subprocess.STDOUT,
                process_group=0,  # a signal to that of the sweep would reach the run twice
                preexec_fn=stop_with_parent,  # noqa: PLW1509
            )
            if self._stopped:  # meanwhile
                self._process.terminate()
            status = self._process.wait()
            self._process = None
        return status, log.read_bytes()[before:].decode(errors="replace")

    def _fail(self, run: Path, status: int, said: str) -> None:
        """Note why a run failed, unless it has done so itself."""
        file = run / FAILED
        if not file.is_file():
            ended = f"by signal {signal.Signals(-status).name}" if status < 0 else f"({status})"
            _, error, reason = said.rpartition("error: ")
            publish_text(file, reason if error else f"ended {ended}; see {run}.log\n")
        reason = file.read_text(encoding="utf-8").strip()
        self._say(f"{run.name}: failed: {reason}\nTo try it again: rm {file}")

    def _exit(self) -> None:
        self._say("stopped before the end; the same command continues")
        sys.exit(EXIT_STOPPED)


def _wait_for_lock(run: Path) -> None:
    """Wait while a run is saving that a sweep before had started.

    Raises:
        RunError: It still runs after a minute.
    """
    for _ in range(30):
        try:
            take(run, error=RunError, advice=_ADVICE, work="run").release()
        except RunError as error:
            held = error
            time.sleep(1)
        else:
            return
    raise held
