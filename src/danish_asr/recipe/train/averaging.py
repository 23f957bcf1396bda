"""Averages of a run's weights: over its steps (EMA), and over kept checkpoints.

An average is written as a run with one checkpoint, ``OUTDIR/averages/<name>``, and is used like
one. By its score on the validation splits it can be the run's best model.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast, final

import torch
from fairseq2.device import get_default_device
from fairseq2.gang import create_fake_gangs
from fairseq2.metrics import MetricBag, sync_and_compute_metrics
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig, Wav2Vec2AsrModel
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from danish_asr.base.config_tree import read_yaml
from danish_asr.base.errors import ConfigError, RunError
from danish_asr.base.fairseq2_private import new_model, supported
from danish_asr.base.files import publish_json, publish_text
from danish_asr.recipe.config.config import AsrConfig
from danish_asr.recipe.config.loading import load_with_faults
from danish_asr.recipe.models.assets import Assets, configured_dataset, overridden
from danish_asr.recipe.models.cards import with_own_tokenizer
from danish_asr.recipe.run.run_directory import (
    AVERAGES,
    CHECKPOINTS,
    CONFIG_FILE,
    EMA,
    MADE_FROM,
    METRICS,
    MODEL_CARD,
    SCORE_TITLES,
    TOKENIZER,
    best_model,
    checkpoint_scores,
    checkpoint_steps,
    recorded,
    weights_digest,
)
from danish_asr.recipe.train.console import log
from danish_asr.recipe.train.criterion import CtcCriterion
from danish_asr.recipe.train.ending import explained
from danish_asr.recipe.train.preflight import resolve, tokenizer_card
from danish_asr.recipe.train.readers import ReaderSetup, model_frames
from danish_asr.recipe.train.record import write_model_card
from danish_asr.recipe.train.validation import open_validation

_NAMES: Final = "names"
"""The key, in the optimizer's groups, of the names of their parameters."""

_SHARD: Final = Path("pp_00/tp_00/sdp_00.pt")


@final
class MovingAverage:
    """The exponential moving average of the weights, after each step of the optimizer.

    It lies in the optimizer's state, so that checkpoints keep it. A parameter's average begins with
    its value after its first step. Polyak and Juditsky (1992), "Acceleration of stochastic
    approximation by averaging".
    """

    def __init__(self, optimizer: Optimizer, model: Module, decay: float) -> None:
        self._optimizer, self._decay = optimizer, decay
        names = {parameter: name for name, parameter in model.named_parameters()}
        for group in optimizer.param_groups:  # in checkpoints they name each average
            group[_NAMES] = [names[parameter] for parameter in group["params"]]
        optimizer.register_step_post_hook(lambda *_: self._update())

    @torch.no_grad()
    def _update(self) -> None:
        states = self._optimizer.state
        for group in self._optimizer.param_groups:
            for parameter in group["params"]:
                # SGD without momentum keeps no state of what it has updated.
                if parameter.grad is None and parameter not in states:
                    continue
                state, weight = states[parameter], parameter.detach()
                # An optimizer whose state is in the host's memory restores it there.
                average = state[EMA].to(weight.device) if EMA in state else weight.clone()
                state[EMA] = average.lerp_(weight, 1 - self._decay)

    @contextmanager
    def weights(self) -> Iterator[None]:
        """Let the model have the averages instead of its weights."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for parameter, state in self._optimizer.state.items():
            if EMA in state:
                average = state[EMA].to(parameter.device)
                parameter.data, state[EMA] = average, parameter.data


def write_averages(run: Path, config: AsrConfig) -> None:
    """Write the averages of a complete run, and say which of its models is the best.

    One that cannot be written is a warning: the run has all its steps, and its checkpoints.
    """
    if config.trainer.ema is not None:
        with _warned(EMA):
            _write_best_moving_average(run, _score_title(config))
    if count := config.regime.average_n_checkpoints:
        steps = _by_score(run)[-count:]
        if len(steps) > 1:
            with _warned(name := f"best_{count}"):
                average(run, config, sorted(steps), name)
    if (run / AVERAGES).is_dir():
        best, step = best_model(run) or (run, None)
        log.info("The best model on the validation data is {}, step {}.", best, step)


@contextmanager
def _warned(name: str) -> Iterator[None]:
    try:
        with explained():
            yield
    except Exception as error:  # noqa: BLE001 - none of them undoes the steps
        reason = str(error) or type(error).__name__
        log.warning(
            "The run is complete, but its average '{}' was not written: {}\nRepair that, and the "
            "same command writes it.",
            *(name, reason),
        )


def _write_best_moving_average(run: Path, title: str) -> None:
    # Of checkpoints with the model alone (regime.save_model_only) the average is gone.
    steps = [step for step in checkpoint_steps(run) if _optimizer_file(run, step).is_file()]
    rows = recorded(run / METRICS / "valid" / f"{EMA}.jsonl")
    scores = {row["Step"]: -float(row[title]) for _, row in rows if row["Step"] in steps}
    if not scores:
        return
    step = max(scores, key=lambda step: (scores[step], step))
    file = _optimizer_file(run, step)
    saved: Mapping[str, Any] = torch.load(file, map_location="cpu", weights_only=False)
    state = _weights(run, step)
    for group in saved["param_groups"]:
        for name, number in zip(group[_NAMES], group["params"], strict=True):
            if EMA in saved["state"].get(number, ()):
                state[name] = saved["state"][number][EMA]
    _write(run, EMA, step, state, scores[step], made_from=[step])


def _optimizer_file(run: Path, step: int) -> Path:
    return run / CHECKPOINTS / f"step_{step}" / "optimizer" / _SHARD


def _score_title(config: AsrConfig) -> str:
    return SCORE_TITLES[cast(str, config.regime.score_metric)]


def _by_score(run: Path) -> list[int]:
    """Return the steps of a run's checkpoints that have a score, the best last."""
    scores = checkpoint_scores(run)
    return sorted(scores, key=lambda step: (scores[step], step))


def average(run: Path, config: AsrConfig, steps: Sequence[int], name: str) -> None:
    """Write the mean of checkpoints as ``averages/<name>``, with its validation score.

    Raises:
        RunError: A checkpoint is sharded over several processes.
    """
    mean: dict[str, Tensor] = {}
    for step in steps:
        state = _weights(run, step)
        for key, value in state.items():
            part = value.double() / len(steps)
            mean[key] = mean[key] + part if key in mean else part
    mean = {key: value.to(state[key].dtype) for key, value in mean.items()}
    log.info("Validating the average of steps {}.", ", ".join(map(str, steps)))
    config = with_own_tokenizer(config, run / CHECKPOINTS)
    score = _validation_score(config, read_yaml(run / CHECKPOINTS / MODEL_CARD), mean)
    _write(run, name, steps[-1], mean, score, made_from=steps)


def average_command(run: Path, *, best: int | None, last: int | None) -> None:
    """Average kept checkpoints of a run, validate the average, and print the scores of its models.

    Raises:
        RunError: The directory is not a run, or has too few checkpoints.
        ConfigError: Both are given, or the dataset or tokenizer is missing.
    """
    file = run / CONFIG_FILE
    if not file.is_file():
        raise RunError(f"{run} is not a run: there is no {CONFIG_FILE}; name the OUTDIR of a run")
    if best is not None and last is not None:
        raise ConfigError(["--best and --last exclude each other"], where="danish-asr average")
    steps = _by_score(run) if last is None else checkpoint_steps(run)
    count = last or best or len(steps)
    if not 2 <= count <= len(steps):
        raise RunError(f"{run} has {len(steps)} checkpoints, and {max(count, 2)} are needed")
    config, faults = load_with_faults(AsrConfig, read_yaml(file))
    config = resolve(config, where=str(file), faults=faults)
    average(run, config, sorted(steps[-count:]), f"{'last' if last else 'best'}_{count}")
    write_model_card(run, tokenizer_card(config))
    table = Table("model", "step", _score_title(config))
    for folder in (run, *sorted((run / AVERAGES).iterdir())):
        for step, score in sorted(checkpoint_scores(folder).items()):
            mark = " (best)" if (folder, step) == best_model(run) else ""
            table.add_row(str(folder), str(step), f"{-score:.2f}{mark}")
    Console().print(table)


def _weights(run: Path, step: int) -> dict[str, Tensor]:
    folder = run / CHECKPOINTS / f"step_{step}" / "model"
    if len(list(folder.rglob("sdp_*.pt"))) != 1:
        raise RunError(f"{folder} is sharded over several processes; such weights are not averaged")
    state: dict[str, Tensor] = torch.load(folder / _SHARD, map_location="cpu", weights_only=True)
    return state


def _write(
    run: Path,
    name: str,
    step: int,
    state: Mapping[str, Tensor],
    score: float,
    *,
    made_from: Sequence[int],
) -> None:
    """Write weights as a run with one checkpoint, and the digests of those they are made from."""
    folder = run / AVERAGES / name
    new = folder.with_name(f"{name}.tmp")
    shutil.rmtree(new, ignore_errors=True)
    file = new / CHECKPOINTS / f"step_{step}" / "model" / _SHARD
    file.parent.mkdir(parents=True)
    torch.save(dict(state), file)
    for copied in (CONFIG_FILE, f"{CHECKPOINTS}/{MODEL_CARD}", f"{CHECKPOINTS}/{TOKENIZER}"):
        if (run / copied).is_file():
            shutil.copyfile(run / copied, new / copied)
    digests = {f"step_{each}": weights_digest(run, each) for each in made_from}
    publish_json(new / MADE_FROM, digests)
    publish_text(new / CHECKPOINTS / "scores" / f"step_{step}.txt", f"{score}\n")
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)


def _validation_score(config: AsrConfig, card: Mapping[str, Any], state: dict[str, Any]) -> float:
    """Score weights on the validation splits as training does; higher is better."""
    device = supported(get_default_device)
    gangs, assets = create_fake_gangs(device), Assets(config)
    family: Any = assets.model_family()
    settings = overridden(Wav2Vec2AsrConfig(), card["model_config"], "model")
    model = cast(Wav2Vec2AsrModel, new_model(family, settings, gangs, config.model.dtype))
    model.load_state_dict(state, strict=False)  # a masker is for training only
    tokenizer = assets.open_tokenizer(config.tokenizer, [])
    assert tokenizer is not None
    setup = ReaderSetup(configured_dataset(config), tokenizer, gangs, model_frames(settings))
    criterion = CtcCriterion(cast(Any, SimpleNamespace(module=model.eval(), base_module=model)))
    unit, reader = open_validation(setup, config, criterion)
    bag = MetricBag(device=device)
    unit.prepare_metric_bag(bag)
    amp = config.trainer.mixed_precision
    for batch in chain.from_iterable(reader):
        batch.to(device)
        autocast = torch.autocast(device.type, amp.dtype, enabled=amp.mode != "off")
        with torch.inference_mode(), autocast:
            unit.process_batch(batch, bag)
    values = cast(dict[str, Any], sync_and_compute_metrics(bag, gangs.root))
    unit.process_metric_values(values)
    return -float(values[cast(str, config.regime.score_metric)])
