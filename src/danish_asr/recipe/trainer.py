"""fairseq2's trainer, made to stop well: it saves and leaves when it is asked to or out of time."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Final

from fairseq2.datasets import DataReader, Seq2SeqBatch
from fairseq2.gang import all_sum, broadcast_flag
from fairseq2.logging import log
from fairseq2.recipe.base import RecipeContext
from fairseq2.recipe.evaluator import EvalUnit
from fairseq2.recipe.internal.trainer import _RecipeTrainerFactory, _RecipeValidatorFactory
from fairseq2.recipe.trainer import Trainer, TrainUnit, _TrainerState
from fairseq2.runtime.dependency import wire_object
from typing_extensions import override

from danish_asr.cluster.cpus import usable_cpus
from danish_asr.errors import RunFailedError
from danish_asr.recipe.checks import little_memory_left, waiting_for_data
from danish_asr.recipe.config import AsrConfig
from danish_asr.recipe.early_stopping import patience_stopper
from danish_asr.recipe.readers import SplitsReader, ValidationInterrupted
from danish_asr.recipe.run_directory import last_validation_seconds, validated_steps

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


class StoppableTrainer(Trainer):  # type: ignore[misc] # final upstream; see the class docstring
    """Adds stops, and what they leave to be done, to fairseq2's state machine.

    Upstream looks at a stop request only if ``num_steps`` is not set, and validates before it
    leaves. Here a request ends the run after the step in hand, on all ranks together, with a
    checkpoint and without a validation that could outlast the time that is left. A validation that
    is under way is broken off; a run that continues begins with the one that is missing.
    """

    max_wall_seconds: float | None = None
    """Seconds after the start of the process at which the run must stop."""

    _asked = False
    """Whether this rank was asked to stop."""

    validation_seconds = 0.0
    """How long the last validation took, also one before the run continued."""

    validated: frozenset[int] = frozenset()
    """Steps after which the run was validated before it continued."""

    @override
    def run(self) -> None:
        restore = _on_stop_signals(self.request_stop)
        try:
            super().run()
        finally:
            restore()

    @override
    def request_stop(self) -> None:
        # Upstream's own mark is set when all ranks have agreed; it looks at it on each alone.
        self._asked = True

    @override
    def _maybe_restore_state(self) -> _TrainerState:
        state = super()._maybe_restore_state()
        validated = broadcast_flag(self._gangs.root, self._step_nr in self.validated)
        if self._step_nr == 0 or validated:
            return state
        # What was to happen after this step decides whether it was to be validated.
        finished = state is _TrainerState.STOPPED
        self._state = _TrainerState.END_OF_TRAINING if finished else _TrainerState.POST_STEP
        if not self._should_validate():
            return state
        log.info("The validation of step {} is made up for.", self._step_nr)
        try:
            score = self._validate()
        except ValidationInterrupted:
            if not self._any_rank(self._asked):
                raise RunFailedError(self._too_long_a_validation()) from None
            return self._stop_unfinished()
        stops = score is not None and self._maybe_request_early_stop(score)
        return _TrainerState.STOPPED if stops else state

    @override
    def _run_post_step(self) -> _TrainerState:
        done = self._max_num_steps is not None and self._step_nr >= self._max_num_steps
        # The end of an epoch is no step; a run that continues must get one further at least.
        stepped = self._state is _TrainerState.POST_STEP
        if stepped and not done and self._must_stop(self._seconds_of_validation_ahead()):
            self._maybe_publish_metrics()
            return self._stop_unfinished()
        try:
            return super()._run_post_step()
        except ValidationInterrupted:
            return self._stop_unfinished()

    @override
    def _stop(self) -> _TrainerState:
        try:
            return super()._stop()
        except ValidationInterrupted:
            return self._stop_unfinished()

    def _stop_unfinished(self) -> _TrainerState:
        """Save what the same command continues from, if it is not saved already."""
        self._stop_requested = True
        log.info("Stopping after step {}; the same command continues.", self._step_nr)
        self._maybe_complete_checkpoint_save_operation()
        # A regime that saves models only would leave nothing to continue from.
        self._save_model_only = False
        complete = self._checkpoint_manager.get_step_numbers(exclude_model_only=True)
        if not broadcast_flag(self._gangs.root, self._step_nr in complete):
            self._save_checkpoint(blocking=True)
        return _TrainerState.STOPPED

    @override
    def _validate(self) -> float | None:
        began = self._wall_watch.get_elapsed_time()
        score = super()._validate()
        self.validation_seconds = self._wall_watch.get_elapsed_time() - began
        return score

    @override
    def _publish_metrics(self) -> None:
        times = self._data_watch.get_elapsed_time(), self._compute_watch.get_elapsed_time()
        for warning in (
            waiting_for_data(*times, threads=usable_cpus()),
            little_memory_left(self._device_stat_tracker.get_stats()),
        ):
            if warning is not None:
                log.warning("{}", warning)
        super()._publish_metrics()

    @override
    def _early_stop(self) -> _TrainerState:
        state = super()._early_stop()
        # Upstream marks an early stop as a request; but the run is done, not interrupted.
        self._stop_requested = False
        return state

    def interrupts_validation(self) -> bool:
        """Whether a validation that is under way must be broken off."""
        return self._must_stop(0.0)

    def _seconds_of_validation_ahead(self) -> float:
        """How long the validation that is due will take, judged by the last one."""
        return self.validation_seconds if self._should_validate() else 0.0

    def _must_stop(self, ahead: float) -> bool:
        """Whether any rank was asked to stop, or has no ``ahead`` seconds left."""
        limit = self.max_wall_seconds
        late = limit is not None and self._wall_watch.get_elapsed_time() + ahead >= limit
        return self._any_rank(self._asked or late)

    def _any_rank(self, flag: bool) -> bool:
        return all_sum(self._gangs.root, int(flag)).item() > 0

    def _too_long_a_validation(self) -> str:
        return (
            f"the validation of step {self._step_nr} takes longer than trainer.max_wall_minutes "
            "allows for the whole run; raise it, or validate on fewer rows (dataset.valid_subset)"
        )


def _on_stop_signals(request_stop: Callable[[], None]) -> Callable[[], None]:
    """Ask for a stop at the first signal; a second Ctrl-C interrupts at once. Returns the undo."""

    def handle(number: int, _frame: FrameType | None) -> None:
        log.info("{} received; saving after this step.", signal.Signals(number).name)
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        request_stop()

    previous = {number: signal.signal(number, handle) for number in STOP_SIGNALS}

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    return restore


def create_trainer(
    context: RecipeContext,
    config: AsrConfig,
    unit: TrainUnit[Seq2SeqBatch],
    reader: DataReader[Seq2SeqBatch],
    *,
    valid_units: Sequence[EvalUnit[Seq2SeqBatch]],
    valid_readers: Sequence[SplitsReader],
) -> Trainer:
    """Create the trainer as fairseq2 does, of our class."""
    resolver = context.resolver
    validator = resolver.resolve(_RecipeValidatorFactory).create(valid_units, valid_readers)

    def inner_factory(**kwargs: Any) -> Trainer:
        stopper = patience_stopper(context.output_dir, config.regime)
        if stopper is not None:
            kwargs["early_stopper"] = stopper
        trainer = wire_object(resolver, StoppableTrainer, **kwargs)
        trainer.validation_seconds = last_validation_seconds(context.output_dir)
        trainer.validated = validated_steps(context.output_dir)
        for valid_reader in valid_readers:
            valid_reader.interrupted = trainer.interrupts_validation
        if config.trainer.max_wall_minutes is not None:
            trainer.max_wall_seconds = config.trainer.max_wall_minutes * 60
        return trainer

    factory = wire_object(resolver, _RecipeTrainerFactory, inner_factory=inner_factory)
    return factory.create(unit, reader, validator)
