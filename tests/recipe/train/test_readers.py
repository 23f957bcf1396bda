"""What the readers of a run report of their rows, and what they refuse."""

from pathlib import Path

import pytest
from fairseq2.data.tokenizers import Tokenizer

from danish_asr.base.errors import ConfigError
from danish_asr.recipe.config.schema import AsrConfig, DatasetSection, TokenizerSection
from danish_asr.recipe.config.training_sections import StageConfig
from danish_asr.recipe.data.index import DanishAsrDataset, Index
from danish_asr.recipe.data.reader import ReaderSetup
from danish_asr.recipe.data.targets import FrameCount, UnknownSymbols
from danish_asr.recipe.extension import tiny
from danish_asr.recipe.train.readers import (
    any_row_has_loss,
    check_symbols,
    check_text,
    model_frames,
    splits_reader,
    training_reader,
)
from tests.shards import gangs, task, utterance, write_shard


def test_unknown_symbols_are_named_and_refused_above_the_limit() -> None:
    """TRAPS, names: v1 maps capitals to UNK; nothing checks agreement."""
    unknown = UnknownSymbols(0.05, [("Æ", 3), ("1", 2)])
    section = DatasetSection(name="d", max_unknown_share=0.04)
    config = AsrConfig(dataset=section, tokenizer=TokenizerSection(name="t"))
    with pytest.raises(ConfigError, match=r"5.00% of the training text.*'t': 'Æ' '1'"):
        check_symbols(unknown, config)
    check_symbols(unknown._replace(share=0.04), config)
    check_symbols(UnknownSymbols(0.05, []), config)


@pytest.fixture
def setup(tokenizer: Tokenizer) -> ReaderSetup:
    return ReaderSetup(tokenizer, gangs(), FrameCount())


@pytest.fixture
def config() -> AsrConfig:
    return AsrConfig(dataset=DatasetSection(name="d", asr_task_config=task()))


def index_of(root: Path, *texts: str, profile: str = "coral") -> Index:
    write_shard(root, [utterance(number, text=text) for number, text in enumerate(texts)])
    return DanishAsrDataset(root).read_index("train").with_targets(profile)


@pytest.mark.parametrize(
    ("texts", "score", "has_loss", "counts"),
    [
        (["hej", "god dag"], "loss", True, ()),
        (["hej", "?!", "..."], "loss", True, ("2 of 3 rows", "2 with an empty", "0 with fewer")),
        (["?!", "a" * 999], "wer", False, ("2 of 2 rows", "1 with an empty", "1 with fewer")),
        (["?!", "a" * 999], "loss", None, ()),
    ],
)
def test_rows_without_a_loss_are_counted_and_refused_where_it_is_the_score(
    tmp_path: Path,
    setup: ReaderSetup,
    config: AsrConfig,
    logged: list[str],
    *,
    texts: list[str],
    score: str,
    has_loss: bool | None,
    counts: tuple[str, ...],
) -> None:
    config.regime.score_metric = score  # type: ignore[assignment]
    indices = {"dev": index_of(tmp_path, *texts)}
    if has_loss is None:
        with pytest.raises(ConfigError, match=r"regime\.score_metric"):
            any_row_has_loss(setup, config, indices)
        return
    assert any_row_has_loss(setup, config, indices) is has_loss
    assert len(logged) == bool(counts)
    assert all(count in logged[0] for count in counts)


@pytest.mark.parametrize(("size", "warns"), [("4.9x", False), ("5x", True), (None, False)])
def test_a_validation_with_batches_of_five_times_the_size_is_warned_of(
    tmp_path: Path,
    setup: ReaderSetup,
    config: AsrConfig,
    logged: list[str],
    size: str | None,
    *,
    warns: bool,
) -> None:
    config.dataset.valid_max_num_elements = size
    splits_reader(setup, config, {"dev": index_of(tmp_path, "hej")})
    assert (logged != []) is warns


def test_rows_by_a_condition_and_symbols_of_a_training_are_reported(
    tmp_path: Path, tokenizer: Tokenizer, config: AsrConfig, logged: list[str]
) -> None:
    config.dataset.train_where, config.dataset.max_unknown_share = "age > 1", 0.9
    check_text(index_of(tmp_path, "hej", "på 7", profile="raw"), tokenizer, config)
    assert "2 rows of train where age > 1" in logged[0]
    assert "'7'" in logged[-1]
    logged.clear()
    config.dataset.train_where = None
    check_text(index_of(tmp_path, "hej"), tokenizer, config)
    assert logged == []


def test_each_stage_of_a_training_has_its_rows_and_a_plain_one_its_epochs(
    tmp_path: Path, setup: ReaderSetup, config: AsrConfig, logged: list[str]
) -> None:
    index = index_of(tmp_path, *["hej med dig"] * 12)
    config.regime.num_steps, config.trainer.grad_accumulation.num_batches = 10, 1
    config.dataset.asr_task_config.max_num_elements = 64_000
    epoch = training_reader(setup, config, {0: index}).epoch_size()
    assert epoch.steps > 1
    size = f"Audio per step: {60 * epoch.hours / epoch.steps:.3g} minutes"
    assert size in logged[-1]
    assert logged[-1].endswith(f"10 steps are {10 / epoch.steps:.1f} epochs")
    logged.clear()
    config.trainer.stages = {3: StageConfig(subset=6)}
    training_reader(setup, config, {0: index, 3: index})
    begun = [line for line in logged if line.startswith("The stage")]
    assert begun == [f"The stage that begins after step {first}:" for first in (0, 3)]
    assert "epochs" not in logged[-1]


def test_the_frames_of_a_model_are_those_of_its_convolutions() -> None:
    frames = model_frames(tiny())
    assert [frames(samples) for samples in (0, 16_000, 16_320)] == [0, 48, 49]
