"""Training that stops at a signal or at its time limit, on all ranks after the same step, saved.

fairseq2's own trainer looks at a stop request only if ``num_steps`` is not set, and validates
before it exits. Here the data reader calls ``_before_step``, which may end the run, and
``_StoppingValidator`` interrupts a validation.
"""

import time
from functools import partial
from math import inf
from typing import NoReturn, final

from fairseq2.checkpoint import CheckpointManager
from fairseq2.datasets import Seq2SeqBatch
from fairseq2.early_stopper import EarlyStopper
from fairseq2.gang import GangError, broadcast_flag
from fairseq2.optim.lr_schedulers import LRScheduler
from fairseq2.recipe.base import RecipeContext
from fairseq2.recipe.task import TaskStopException
from fairseq2.recipe.trainer import TrainUnit
from fairseq2.recipe.validator import Validator
from torch.cuda import OutOfMemoryError
from typing_extensions import override

from danish_asr.base import fairseq2_private
from danish_asr.base.errors import DanishAsrError, RunFailedError
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.data.reader import BatchReader, SplitsReader, ValidationInterrupted
from danish_asr.recipe.run.continuing import way_on
from danish_asr.recipe.run.run import Run
from danish_asr.recipe.train.console import log, step_line
from danish_asr.recipe.train.ending import StoppableTask, close_in_time, in_words, on_stop_signals
from danish_asr.recipe.train.validation import AsrValidationUnit


@final
class StoppableTraining(StoppableTask):
    """Runs fairseq2's trainer; a validation that was interrupted runs when the run continues."""

    def __init__(
        self,
        context: RecipeContext,
        config: AsrConfig,
        unit: TrainUnit[Seq2SeqBatch],
        reader: BatchReader,
        validation: tuple[AsrValidationUnit, SplitsReader] | None,
        *,
        stopper: EarlyStopper | None,
    ) -> None:
        super().__init__(context, config.trainer)
        resolver, section, self._regime = context.resolver, config.trainer, config.regime
        self._run = Run(context.output_dir)
        self._checkpoints = resolver.resolve(CheckpointManager)
        fairseq2_private.load_states_as_values(self._checkpoints)
        self._saved_step = self._checkpoints.maybe_get_last_step_number(exclude_model_only=True)
        self._scheduler = resolver.resolve(LRScheduler)
        self._schedule = self._scheduler.state_dict()
        lr = config.optimizer.config.lr
        self._lr_factors = {n: (stage.lr or lr) / lr for n, stage in section.stages.items()}
        self._stopper = stopper
        self.validator: _StoppingValidator | None = None
        self._model, self._reader = unit.model, reader
        self._stopped, self._has_loaded, self._step_began = False, False, inf
        # The largest batches come first in each of these: the time of the second step is reported,
        # when the third begins, as the first one also allocates.
        beginnings = (self._saved_step or 0, *section.stages, *reader.frees_layers)
        self._measured_steps = {beginning + 2 for beginning in beginnings}
        reader.before_step = self._before_step

        units, readers = ([validation[0]], [validation[1]]) if validation else (None, None)
        self._trainer = context.create_trainer(unit, reader, units, readers)
        if stopper is not None:
            fairseq2_private.stop_early_by(self._trainer, stopper)
        if validation is not None:
            fairseq2_private.wrap_validator(self._trainer, partial(_StoppingValidator, self))
            validation[1].interrupted = self.must_stop
        fairseq2_private.delete_together(self._trainer, self._checkpoints, self._gang)

    @override
    def run(self) -> None:
        with on_stop_signals(self.request_stop):
            try:
                if self._saved_step is not None and self._is_over(self._saved_step):
                    return
                self._trainer.run()
            except TaskStopException:
                # fairseq2 raises it after an early stop as well, but then the run is complete.
                if self._stopped:
                    self._gangs.close()
                    raise
            except (DanishAsrError, GangError, OutOfMemoryError):
                raise
            except Exception as error:
                if self._saved_step is None or self._has_loaded:
                    raise
                raise RunFailedError(f"{in_words(error)}\n{way_on(self._run)}") from error

    @override
    def close(self) -> None:
        if self._gang.size == 1:
            # It may take longer than recorders have.
            self._checkpoints.maybe_complete_save_operation(blocking=True)
        else:
            # After an error the others may have ended, so nothing here may wait for them.
            fairseq2_private.publish_written(self._run.checkpoints, self._gangs)
        close_in_time(self._trainer.close)

    @property
    @override
    def step_nr(self) -> int:
        return self._trainer.step_nr

    def _is_over(self, step: int) -> bool:
        """Return whether the run that continues at a step is complete, with its last validation."""
        if self._regime.num_data_epochs:
            self._checkpoints.load_data_reader_state(step, self._reader)
        stops = self._skipped_validation_stops(step)
        if self._has_read_all:
            fix = "a larger regime.num_data_epochs trains it longer"
            log.info("The run is complete, with {} epochs; {}.", self._regime.num_data_epochs, fix)
        return stops or self._has_read_all

    def _skipped_validation_stops(self, step: int) -> bool:
        """Run the validation that the last checkpoint lacks; return whether to stop early."""
        if self.validator is None:
            return False
        done = [row["Step"] for row in self._run.validations()]
        regime = self._regime
        is_missing = step not in done and self._is_due(
            step, regime.validate_every_n_steps, after=regime.validate_after_n_steps
        )
        if not broadcast_flag(self._gang, is_missing):
            return False
        log.info("Running the validation that was skipped at step {}.", step)
        self._checkpoints.load_model_state(step, self._model)
        self._model.module.eval()
        # At the time limit too: else each start would end here.
        limit, self._max_seconds = self._max_seconds, inf
        with self._model.summon_full_parameters():
            score = self.validator.run(step)
        self.validator.reset()
        self._max_seconds = limit
        if score is None:
            return False
        if self._is_due(
            step, regime.checkpoint_every_n_steps, after=regime.checkpoint_after_n_steps
        ):
            self._checkpoints.save_score(step, score)
        stops = False
        if self._stopper is not None and self._gang.rank == 0:  # only the first rank has the score
            stops = self._stopper.should_stop(step, score)
        return broadcast_flag(self._gang, stops)

    def _is_due(self, step: int, every: int | None, *, after: int) -> bool:
        """Whether what is done every so many steps ``after`` one, and at the end, is due now."""
        is_last = step == self._regime.num_steps or self._has_read_all
        return is_last or (every is not None and step > after and step % every == 0)

    @property
    def _has_read_all(self) -> bool:
        return self._reader.epochs_read >= (self._regime.num_data_epochs or inf)

    @property
    def began(self) -> bool:
        """Whether this process has taken a step, also of a run that was continued."""
        return self.step_nr > (self._saved_step or 0)

    def _before_step(self) -> None:
        step, self._has_loaded = self.step_nr, True
        last_epoch = self._regime.num_data_epochs
        fairseq2_private.set_data_epoch(self._trainer, self._reader.epoch + 1, last_epoch)
        self._reader.step = step
        if step in self._lr_factors or (self._saved_step is not None and not self.began):
            self._follow_schedule(step)
        now = time.monotonic()
        if step in self._measured_steps and self.began:
            log.info("{}", step_line(step, now - self._step_began, self._gang.device))
            self._measured_steps.remove(step)  # the reader is asked again if an epoch ended here
        self._step_began = now
        # At the time limit, a run that continues takes one step at least.
        if not self._has_read_all and self.began and self.must_stop():
            self.stop()

    def _follow_schedule(self, step: int) -> None:
        """Follow the schedule of the stage and of the configuration, not the saved one."""
        saved, position = self._scheduler.state_dict(), {"last_epoch", "_step_count", "_last_lr"}
        new = {key: value for key, value in self._schedule.items() if key not in position}
        begun = [first for first in self._lr_factors if first <= step]
        factor = self._lr_factors[max(begun)] if begun else 1
        new["base_lrs"] = [factor * rate for rate in new["base_lrs"]]
        for end in ("start", "final"):  # which tri_stage keeps as parts of the highest rate
            if scales := new.get(f"{end}_lr_scales"):
                rates = zip(scales, new["base_lrs"], strict=True)
                new[f"{end}_lrs"] = [scale * rate for scale, rate in rates]
        if any(saved.get(key) != value for key, value in new.items()):
            before = saved["last_epoch"] - 1
            self._scheduler.load_state_dict({**saved, **new, "last_epoch": before})
            self._scheduler.step()  # sets the rate of this step
            text = "The learning rate follows the schedule of {} steps, at most {:g}."
            log.info(text, self._regime.num_steps, max(new["base_lrs"]))

    def stop(self) -> NoReturn:
        """End the run with a checkpoint of its last step, and TaskStopException."""
        step = max(self.step_nr, self._saved_step or 0)
        log.info("Stopping after step {}.", step)
        self._stopped = True
        fairseq2_private.report_rest(self._trainer)
        self._checkpoints.maybe_complete_save_operation(blocking=True)
        # A regime that saves only models would leave nothing to continue from.
        complete = step in self._checkpoints.get_step_numbers(exclude_model_only=True)
        if self.began and not broadcast_flag(self._gang, complete):
            fairseq2_private.save_between_steps(self._trainer)
        raise TaskStopException


@final
class _StoppingValidator(Validator):
    """Runs fairseq2's validator, and may stop the run within a validation."""

    def __init__(self, training: StoppableTraining, inner: Validator) -> None:
        self._training, self._inner, self._interrupted = training, inner, False
        training.validator = self

    @override
    def run(self, train_step_nr: int) -> float | None:
        try:
            return self._inner.run(train_step_nr)
        except ValidationInterrupted:
            self._interrupted = True
            return None

    @override
    def reset(self) -> None:
        self._inner.reset()
        # The trainer has restored its random state and its parameters only now.
        if self._interrupted:
            self._training.stop()
