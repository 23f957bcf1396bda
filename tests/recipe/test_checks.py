"""The checks of a run's numbers, its disk and its tokenizer; what it prints."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq2.device import CPU
from fairseq2.gang import FakeGang, create_parallel_gangs
from torch import nn

from danish_asr.base.errors import ConfigError, RunError
from danish_asr.recipe.config.schema import AsrConfig, DatasetSection, TokenizerSection
from danish_asr.recipe.data.reader import waveform_dtype
from danish_asr.recipe.data.targets import UnknownSymbols
from danish_asr.recipe.run.advice import loss_warning
from danish_asr.recipe.train.criterion import chance_loss
from danish_asr.recipe.train.readers import check_symbols
from danish_asr.recipe.train.record import check_free_space, checkpoint_space
from tests.forks import in_processes
from tests.recipe.running import arguments, copy_until, train_main


def test_chance_is_the_ctc_loss_of_equal_probabilities() -> None:
    targets = torch.tensor([[3, 3, 4, 3], [5, 1, 1, 1], [2, 2, 0, 0]])
    frames, lengths = torch.tensor([20, 2, 9]), torch.tensor([4, 2, 2])
    equal = torch.full((20, 3, 7), -math.log(7))
    loss = torch.nn.functional.ctc_loss(equal, targets, frames, lengths, reduction="sum")
    assert chance_loss(frames, targets, lengths, 7).item() == pytest.approx(loss.item())


@pytest.mark.parametrize(
    ("loss", "key"), [(10.5, "None"), (500.0, "dataset.asr_task_config.normalize_audio")]
)
def test_a_loss_above_chance_is_reported(loss: float, key: str) -> None:
    """TRAPS, training: a first loss of hundreds is a fault, and looks like bad luck."""
    assert key in str(loss_warning(loss, 9.0))  # that of a new head may be a little above


@pytest.mark.parametrize(
    ("parallelism", "processes", "mode", "is_full"),
    [
        ("ddp", 2, "static", True),
        ("fsdp", 2, "auto", True),
        ("fsdp", 2, "static", False),
    ],
)
def test_waveforms_come_in_full_precision_unless_parameters_take_nothing_else(
    parallelism: Any, processes: int, mode: Any, *, is_full: bool
) -> None:
    """TRAPS, training: upstream casts waveforms to bfloat16, which leaves 8 bits of a sample."""
    config = AsrConfig()
    config.trainer.data_parallelism = parallelism
    config.trainer.mixed_precision.mode = mode
    gangs = create_parallel_gangs(FakeGang(CPU, size=processes))
    assert waveform_dtype(gangs, config) is (torch.float32 if is_full else torch.bfloat16)


def test_a_disk_without_room_for_the_checkpoints_is_refused(tmp_path: Path) -> None:
    """TRAPS, training: a full quota ends a run without a message, hours after it began."""
    with pytest.raises(RunError, match=r"4 more checkpoints of .* GiB need .* GiB; free some"):
        check_free_space(tmp_path, nn.Linear(10**6, 10**7, device="meta"), AsrConfig())
    check_free_space(tmp_path, nn.Linear(2, 2), AsrConfig())


@pytest.mark.parametrize(
    ("last", "best", "every", "number"),
    [(2, 1, 2_000, 14), (10**9, 1, None, 21), (None, 1, None, 3), (None, None, None, 21)],
)
def test_room_is_for_the_checkpoints_that_are_kept_and_the_one_that_is_written(
    tmp_path: Path, last: int | None, best: int | None, every: int | None, number: int
) -> None:
    config = AsrConfig()
    config.regime.num_steps, config.regime.checkpoint_every_n_steps = 20_000, 1_000
    config.regime.keep_last_n_checkpoints = last
    config.regime.keep_best_n_checkpoints = best
    config.regime.keep_checkpoint_every_n_steps = every
    assert checkpoint_space(tmp_path, nn.Linear(2, 2), config).number == number


def test_unknown_symbols_are_named_and_refused_above_the_limit() -> None:
    """TRAPS, names: v1 maps capitals to UNK; nothing checks agreement."""
    unknown = UnknownSymbols(0.05, [("Æ", 3), ("1", 2)])
    section = DatasetSection(name="d", max_unknown_share=0.04)
    config = AsrConfig(dataset=section, tokenizer=TokenizerSection(name="t"))
    with pytest.raises(ConfigError, match=r"5.00% of the training text.*'t': 'Æ' '1'"):
        check_symbols(unknown, config)
    check_symbols(unknown._replace(share=0.04), config)


WANDB = "common.metric_recorders.wandb.enabled=true"


def test_wandb_records_a_run_and_continues_it(
    tmp_path: Path, dataset: Path, finished_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = copy_until(2, finished_run, tmp_path / "run")
    (run / "wandb_run_id").write_text("abc12345")
    in_processes(1, train_main, arguments(run, dataset, WANDB))
    assert len(list(run.glob("wandb/offline-run-*-abc12345/run-abc12345.wandb"))) == 1
