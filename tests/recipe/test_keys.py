"""Each key of the configuration acts: how a run with it differs from one without it.

A key that the schema has, and this file has not, fails.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
import pytest
import torch

from danish_asr.base.config_tree import read_yaml, value_of
from danish_asr.base.files import to_yaml
from danish_asr.corpus.cards import build_char_tokenizer
from danish_asr.corpus.inventory import share_people_of
from danish_asr.recipe.config.keys import defaults
from danish_asr.recipe.data.index import DanishAsrDataset, Index
from danish_asr.recipe.data.sampler import RandomStream
from danish_asr.recipe.extension import tiny
from danish_asr.recipe.run.advice import LOSS
from danish_asr.recipe.run.run import Run
from danish_asr.recipe.train.criterion import AsrTrainUnit
from danish_asr.recipe.train.validation import AsrValidationUnit
from danish_asr.scoring.predictions import read_predictions
from danish_asr.text.profiles import normalizer
from tests.random_models import CHARACTERS
from tests.running import changed, evaluate, metrics, saved_optimizer, small, train, weights

ROWS = (
    *("dataset.train_split=train_coral_read_aloud", "common.seed=7"),
    "dataset.weights=[{where: dialect = 'Bornholmsk', factor: 3}]",
    *("dataset.asr_task_config.min_audio_len=8001", "dataset.quadratic_seconds=1"),
    *(f"dataset.asr_task_config.max_{key}" for key in ("audio_len=12800", "num_elements=40000")),
    *("dataset.asr_task_config.min_samples_per_char=450", "dataset.speed_factors=[1.05, 1.1]"),
    *("dataset.asr_task_config.normalize_audio=false", "dataset.text_profile=plain"),
    *("dataset.valid_split='dev, test_coral_read_aloud'", "dataset.valid_subset=2"),
    *("dataset.valid_where=gender = 'male'", "dataset.valid_max_num_elements=15000"),
    *("masking={time: 0.5, time_span: 3, channel: 0.25, channel_span: 5}",),
    *("trainer.freeze_encoder_layers=1", "trainer.grad_accumulation.num_batches=5"),
    "optimizer.config={lr: 0.002, betas: [0.5, 0.6], eps: 1e-3, weight_decay: 0.25}",
    "lr_scheduler.config={stage_ratio: [0.5, 0, 0.5], start_lr_scale: 0.5, final_lr_scale: 0.1}",
    *(f"regime.{name}_after_n_steps=2" for name in ("validate", "checkpoint")),
    *(f"regime.{name}_every_n_steps=1" for name in ("validate", "checkpoint")),
    *("regime.keep_last_n_checkpoints=null", "regime.keep_best_n_checkpoints=null"),
    *("regime.score_metric=loss", "common.torch.num_threads=2"),
    *("evaluator.amp=true", "evaluator.amp_dtype=float16"),
)
"""Four steps, which are an epoch of 20 batches of a row."""

ORDER = (
    *("dataset.train_subset=40", "dataset.asr_task_config.max_num_elements=14400"),
    *(f"dataset.asr_task_config.{name}_shuffle_window=1" for name in ("example", "batch")),
    *("trainer.grad_accumulation.num_batches=8", "trainer.freeze_feature_extractor=true"),
    *("trainer.activation_checkpointing={mode: layerwise, every_nth_layer: 2}",),
    *(small(num_encoder_layers=2), "tokenizer.name=letters", "lr_scheduler.name=passthrough"),
    *("regime.num_steps=null", "regime.num_data_epochs=1", "regime.save_model_only=true"),
    *("regime.validate_every_n_data_epochs=0.3", "regime.publish_metrics_after_n_steps=2"),
)
"""An epoch of four steps of eight batches of a row."""

MIXTURE = (
    *("dataset.train_where=corpus = 'coral_read_aloud' or gender = 'male'",),
    *("dataset.train_share=0.8", "dataset.mixture_parquet_storage_config.beta_corpus=0"),
    *("dataset.asr_task_config.num_seqs_multiple_of=5", "dataset.asr_task_config.spec_aug_p=1"),
    *("dataset.asr_task_config.max_num_elements=100000", "trainer.effective_audio_minutes=0.20833"),
    "lr_scheduler={name: myle, config: {num_warmup_steps: 2, start_lr: 1e-4}}",
    *("regime.num_steps=4", "regime.checkpoint_every_n_steps=1", "regime.validate_every_n_steps=1"),
    *("regime.keep_last_n_checkpoints=1", "regime.keep_best_n_checkpoints=null"),
    *("regime.keep_checkpoint_every_n_steps=2", "regime.publish_metrics_every_n_steps=1"),
)
"""Four steps of two batches with rows of two corpora in balance."""

EVALUATION = (
    *("evaluator.checkpoint=last", "evaluator.split=dev", "evaluator.label=beams"),
    *("evaluator.where=gender = 'male'", "decoder={name: beam, config: {beam: 3}}"),
)


class Trained(NamedTuple):
    """The traces of a training."""

    folder: Path
    train: pl.DataFrame
    """The rows that were trained on, as `examples` has them, in their order."""
    valid: pl.DataFrame
    threads: set[int]
    modules: Mapping[str, int]
    """How many modules of each class the model has."""

    def rates(self) -> list[float]:
        return [row["Learning Rate"] for row in metrics(self.folder, "train")]

    def steps(self, kind: str) -> list[int]:
        return [row["Step"] for row in metrics(self.folder, kind)]

    def card(self, key: str) -> Any:
        return value_of(read_yaml(self.folder / "checkpoints" / "model.yaml"), key)

    def batches(self) -> pl.DataFrame:
        """The rows, and the samples of the longest one, of each batch of training."""
        return self.train.group_by("batch").agg(pl.len().alias("rows"), pl.col("length").max())


class Runs(NamedTuple):
    """Three trainings, each of many keys, one of none, and an evaluation of that."""

    dataset: DanishAsrDataset
    plain: Path
    rows: Trained
    order: Trained
    mixture: Trained
    evaluation: Path

    def index_of(self, split: str = "train", where: str | None = None) -> Index:
        return self.dataset.read_index(split, where)

    def evaluated(self, key: str) -> Any:
        return value_of(read_yaml(self.evaluation / "evaluation.json"), key)


def examples(batch: Any, number: int) -> pl.DataFrame:
    """The rows of a batch: their texts, the samples that are played, and the waves' deviation."""
    return pl.DataFrame(batch.example).with_columns(
        pl.Series("length", batch.source_seq_lens),
        pl.Series("level", batch.source_seqs.std(dim=1).tolist()),
        batch=pl.lit(number),
        padded=pl.lit(batch.source_seqs.numel()),
    )


def traced(folder: Path, dataset: Path, *overrides: str) -> Trained:
    """Train, and record what the batches and the model are."""
    read: dict[Any, list[pl.DataFrame]] = {AsrTrainUnit: [], AsrValidationUnit: []}
    threads, modules = set[int](), Counter[str]()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("OMP_NUM_THREADS", raising=False)  # it goes before common.torch.num_threads
        for unit, into in read.items():
            process = unit.process_batch

            def record(
                self: Any, batch: Any, bag: Any, *, process: Any = process, into: Any = into
            ) -> Any:
                into.append(examples(batch, len(into)))
                threads.add(torch.get_num_threads())
                if not modules:
                    modules.update(type(module).__name__ for module in self.model.module.modules())
                return process(self, batch, bag)

            patch.setattr(unit, "process_batch", record)
        assert train(folder, dataset, *overrides) == 0
    trained, validated = (pl.concat(into, how="vertical_relaxed") for into in read.values())
    return Trained(folder, trained, validated, threads, modules)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, dataset: Path, finished_run: Path) -> Runs:
    folder, threads = tmp_path_factory.mktemp("runs"), torch.get_num_threads()
    cards = tmp_path_factory.mktemp("cards")
    (cards / "letters.model").write_bytes(build_char_tokenizer(CHARACTERS))
    card = {"name": "letters", "tokenizer_family": "char_tokenizer", "tokenizer": "letters.model"}
    (cards / "letters.yaml").write_text(to_yaml(card))
    paths = f"common.assets.extra_paths=[{dataset}/cards, {cards}]"
    rows, order, mixture = (
        traced(folder / name, dataset, paths, *overrides)
        for name, overrides in (("rows", ROWS), ("order", ORDER), ("mixture", MIXTURE))
    )
    torch.set_num_threads(threads)
    plain = shutil.copytree(finished_run, folder / "plain")
    assert evaluate(plain, dataset, *EVALUATION) == 0
    written = plain / "eval" / "last" / "dev" / "beams" / "beam"
    return Runs(DanishAsrDataset(dataset), finished_run, rows, order, mixture, written)


def speeds(runs: Runs, seed: int) -> bool:
    """Whether the rows were played at the speeds that the seed draws."""
    index = runs.index_of("train_coral_read_aloud")
    drawn = RandomStream.SPEEDS.generator(seed, 0).integers(0, 2, len(index), np.uint8)
    lengths = np.rint(index.lengths / np.array([1.05, 1.1])[drawn]).astype(int)
    expected = dict(zip(index.rows["id"], lengths, strict=True))
    return all(expected[name] == n for name, n in runs.rows.train.select("id", "length").rows())


def corpora_follow_each_other(runs: Runs) -> bool:
    """Whether the rows after the largest ones of two steps come corpus by corpus."""
    corpora = runs.order.train["corpus"][16:].to_list()
    return sum(map(str.__ne__, corpora, corpora[1:])) <= 2  # in three row groups


def share_of_conversation(rows: pl.DataFrame) -> float:
    """Of the samples of an epoch."""
    own = rows.filter(corpus="coral_conversation")
    return float(sum(own["audio_size"]) / sum(rows["audio_size"]))


def times(runs: Runs, dialect: str) -> set[int]:
    """How often the rows of a dialect come in an epoch."""
    return {*runs.rows.train.filter(dialect=dialect)["id"].value_counts()["count"]}


def ids(*indices: Index, above: int = 0) -> set[str]:
    """The rows that have more samples."""
    return {
        name for index in indices for name in index.rows.filter(pl.col("_samples") > above)["id"]
    }


def largest_cost(run: Trained) -> float:
    """Of a batch, if a row of L samples counts as L + L²/16,000."""
    cost = pl.col("length") + pl.col("length") ** 2 / 16_000
    return float(run.batches().select((pl.col("rows") * cost).max()).item())


def adamw(runs: Runs) -> dict[str, Any]:
    return dict(saved_optimizer(runs.rows.folder, 4)["param_groups"][0])


READ_OR_MEN: Final = "corpus = 'coral_read_aloud' or gender = 'male'"
INNER: Final = "encoder.layers.0.ffn.inner_proj.weight"
HEAD: Final = "final_proj.weight"
TASK: Final = "dataset.asr_task_config"

HELD: dict[str, Callable[[Runs], Any]] = {
    "dataset.train_split": lambda r: {*r.rows.train["corpus"]} == {"coral_read_aloud"},
    "dataset.train_where": lambda r: (
        {*r.mixture.train.filter(corpus="coral_conversation")["gender"]} == {"male"}
    ),
    "dataset.train_subset": lambda r: (
        # Of 0.5 s the texts do not fit the frames.
        {*r.order.train["id"]} == ids(r.index_of().subset(40), above=8_000)
    ),
    "dataset.train_share": lambda r: (
        {*r.mixture.train["id"]}
        <= ids(r.index_of(where=READ_OR_MEN).share(0.8, 2, share_people_of(r.dataset.path)))
    ),
    "dataset.weights": lambda r: (times(r, "Bornholmsk"), times(r, "Københavnsk")) == ({3}, {1}),
    "dataset.valid_split": lambda r: {*r.rows.valid["split"]} == {"dev", "test_coral_read_aloud"},
    "dataset.valid_where": lambda r: {*r.rows.valid["gender"]} == {"male"},
    "dataset.valid_subset": lambda r: (
        {*r.rows.valid["id"]}
        == ids(
            r.index_of("dev", "gender = 'male'").subset(2),
            r.index_of("test_coral_read_aloud", "gender = 'male'").subset(2),
        )
    ),
    "dataset.quadratic_seconds": lambda r: largest_cost(r.rows) <= 40_000,
    "dataset.valid_max_num_elements": lambda r: max(r.rows.valid["padded"]) <= 15_000,
    "dataset.mixture_parquet_storage_config.beta_corpus": lambda r: (
        abs(share_of_conversation(r.mixture.train) - 0.5) < 0.1
    ),
    f"{TASK}.min_audio_len": lambda r: min(r.rows.train["audio_size"]) > 8_000,
    f"{TASK}.max_audio_len": lambda r: max(r.rows.train["audio_size"]) == 12_800,
    f"{TASK}.max_num_elements": lambda r: {*r.order.batches()["rows"]} == {1},
    f"{TASK}.num_seqs_multiple_of": lambda r: (
        {*r.mixture.batches().filter(pl.col("length") > 9_600)["rows"]} == {5}
    ),
    f"{TASK}.min_samples_per_char": lambda r: "Bo læser en gammel avis" not in r.rows.train["text"],
    f"{TASK}.normalize_audio": lambda r: max(r.rows.train["level"]) < 0.5,
    f"{TASK}.spec_aug_p": lambda r: np.median(r.mixture.train["level"]) < 0.98,
    f"{TASK}.example_shuffle_window": corpora_follow_each_other,
    f"{TASK}.batch_shuffle_window": corpora_follow_each_other,
    "dataset.text_profile": lambda r: (
        [*r.rows.train["target_size"]]
        == [len(normalizer("plain")(t)) for t in r.rows.train["text"]]
    ),
    "dataset.speed_factors": lambda r: speeds(r, 7),
    "tokenizer.name": lambda r: len(weights(r.order.folder, 4)[HEAD]) == len({*CHARACTERS}) + 5,
    "common.seed": lambda r: speeds(r, 7) and not speeds(r, 2),
    "common.torch.num_threads": lambda r: (r.rows.threads, r.order.threads) == ({2}, {1}),
    "common.assets.extra_paths": lambda r: (
        len(weights(r.order.folder, 4)[HEAD]) != len(weights(r.plain, 4)[HEAD])
    ),
    "masking.time": lambda r: r.rows.card("model_config.max_temporal_mask_prob") == 0.5,
    "masking.time_span": lambda r: r.rows.card("model_config.temporal_mask_span_len") == 3,
    "masking.channel": lambda r: r.rows.card("model_config.max_spatial_mask_prob") == 0.25,
    "masking.channel_span": lambda r: r.rows.card("model_config.spatial_mask_span_len") == 5,
    "trainer.grad_accumulation.num_batches": lambda r: 3 * 5 < len(r.rows.batches()) <= 4 * 5,
    "trainer.effective_audio_minutes": lambda r: 3 * 2 < len(r.mixture.batches()) <= 4 * 2,
    "trainer.activation_checkpointing.mode": lambda r: (
        r.order.modules["CheckpointWrapper"] > r.rows.modules["CheckpointWrapper"]
    ),
    "trainer.activation_checkpointing.every_nth_layer": lambda r: (
        r.order.modules["CheckpointWrapper"] == 1  # of two layers
    ),
    "trainer.freeze_encoder_layers": lambda r: (
        not any("layers.0" in name for name in changed(r.rows.folder, 3, 4))
    ),
    "trainer.freeze_feature_extractor": lambda r: (
        not any("feature_extractor" in name for name in changed(r.order.folder, 3, 4))
        and any("feature_extractor" in name for name in changed(r.plain, 2, 4))
    ),
    "model.arch": lambda r: len(weights(r.plain, 4)[INNER]) == tiny().encoder_config.ffn_inner_dim,
    "model.config_overrides": lambda r: weights(r.plain, 4)[INNER].shape[1] == 32,
    "optimizer.config.lr": lambda r: max(r.rows.rates()) == pytest.approx(0.002),
    "optimizer.config.betas": lambda r: [*adamw(r)["betas"]] == [0.5, 0.6],
    "optimizer.config.eps": lambda r: adamw(r)["eps"] == 1e-3,
    "optimizer.config.weight_decay": lambda r: adamw(r)["weight_decay"] == 0.25,
    "lr_scheduler.name": lambda r: r.order.rates() == pytest.approx([0.003] * 2),
    "lr_scheduler.config.stage_ratio": lambda r: r.rows.rates()[2] == pytest.approx(0.002),
    "lr_scheduler.config.start_lr_scale": lambda r: r.rows.rates()[0] == pytest.approx(0.001),
    "lr_scheduler.config.final_lr_scale": lambda r: (
        r.rows.rates()[3] == pytest.approx(0.002 * 0.1**0.5)
    ),
    "lr_scheduler.config.num_warmup_steps": lambda r: r.mixture.rates()[2] == pytest.approx(0.003),
    "lr_scheduler.config.start_lr": lambda r: r.mixture.rates()[0] == pytest.approx(0.0001),
    "regime.num_steps": lambda r: r.mixture.steps("train")[-1] == 4,
    "regime.num_data_epochs": lambda r: r.order.steps("train")[-1] == 4,
    "regime.validate_after_n_steps": lambda r: r.rows.steps("valid") == [3, 4],
    "regime.validate_every_n_steps": lambda r: r.mixture.steps("valid") == [1, 2, 3, 4],
    "regime.validate_every_n_data_epochs": lambda r: r.order.steps("valid") == [1, 2, 3, 4],
    "regime.score_metric": lambda r: (
        Run(r.rows.folder).scores
        == pytest.approx({row["Step"]: -row[LOSS] for row in metrics(r.rows.folder, "valid")})
    ),
    "regime.checkpoint_after_n_steps": lambda r: Run(r.rows.folder).steps == [3, 4],
    "regime.checkpoint_every_n_steps": lambda r: 3 in Run(r.rows.folder).steps,
    "regime.save_model_only": lambda r: (
        not [*r.order.folder.glob("checkpoints/*/trainer")]
        and bool([*r.rows.folder.glob("checkpoints/*/trainer")])
    ),
    "regime.keep_last_n_checkpoints": lambda r: 3 not in Run(r.mixture.folder).steps,
    "regime.keep_checkpoint_every_n_steps": lambda r: Run(r.mixture.folder).steps == [2, 4],
    "regime.publish_metrics_after_n_steps": lambda r: r.order.steps("train") == [3, 4],
    "regime.publish_metrics_every_n_steps": lambda r: r.mixture.steps("train") == [1, 2, 3, 4],
    "evaluator.amp": lambda r: (
        r.rows.card("danish_asr.amp_dtype") is not None
        and r.order.card("danish_asr.amp_dtype") is None
    ),
    "evaluator.amp_dtype": lambda r: r.rows.card("danish_asr.amp_dtype") == "float16",
    "evaluator.checkpoint": lambda r: r.evaluated("step") == 4,
    "evaluator.split": lambda r: (r.evaluation / "predictions.jsonl").is_file(),
    "evaluator.label": lambda r: r.evaluation.parent.name == "beams" and r.evaluation.is_dir(),
    "evaluator.where": lambda r: (
        {*read_predictions(r.evaluation / "predictions.jsonl")["gender"]} == {"male"}
    ),
    "decoder.name": lambda r: r.evaluated("decoder.name") == "beam",
    "decoder.config": lambda r: r.evaluated("decoder.config.beam") == 3,
}
"""What there is to see of each key in the runs."""

ELSEWHERE: dict[str, str] = {
    "model.name": "models/test_cards.py: a_later_run_starts_from_the_finished_model_by_name",
    "model.path": "models/test_cards.py: a_finished_run_and_each_of_its_checkpoints_is_a",
    "model.head": "train/test_record.py: whatever_takes_a_run_takes_a_sliced_one",
    "model.keep_layers": "train/test_record.py: a_smaller_model_has_the_layers_that_it_keeps",
    "pretrained_encoder.name": "models/test_cards.py: a_pretrained_encoder_gives_its_weights",
    "dataset.name": "train/test_preflight.py: what_cannot_be_used_is_refused_with_what_could",
    "dataset.config_overrides": "train/test_training.py: a_dataset_of_upstreams_tools_trains",
    "dataset.transforms": "data/test_transforms.py: the_transform_of_the_documentation_acts",
    "dataset.max_unknown_share": "train/test_readers.py: unknown_symbols_are_named_and_refused",
    "tokenizer.path": "models/test_cards.py: a_tokenizer_that_does_not_fit_the_head_is_refused",
    "gang.timeout": "train/test_ending.py: a_process_that_fails_ends_an_evaluation",
    "trainer.data_parallelism": "train/test_learning.py: two_processes_freeze_what_one_does",
    "trainer.mixed_precision.mode": "data/test_reader.py: waveforms_come_in_full_precision",
    "trainer.max_grad_norm": "train/test_training.py: gradients_are_clipped_unless_a_run_says",
    "trainer.freeze_encoder_for_n_steps": "models/test_cards.py: a_later_run_starts_from",
    "trainer.unfreeze": "train/test_learning.py: first_the_head_learns_then_the_layers_above",
    "trainer.stages": "train/test_learning.py: a_stage_has_its_share_of_the_rate",
    "trainer.max_wall_minutes": "evaluate/test_recipe.py: a_time_limit_stops_an_evaluation",
    "optimizer.name": "train/test_learning.py: offloaded_steps_are_those_of_pytorch",
    "regime.score_profile": "train/test_validation.py: the_character_error_rate_is_that_of_a_named",
    "regime.early_stopping_patience": "train/test_validation_stops.py: a_training_stops_at_its",
    "regime.keep_best_n_checkpoints": "train/test_training.py: a_longer_run_keeps_the_best_and",
    "common.metric_recorders.wandb.enabled": "train/test_training.py: wandb_records_a_run_and",
    "common.metric_recorders.wandb.entity": "config/test_fairseq2.py: sections_have_the_values",
    "common.metric_recorders.wandb.project": "config/test_fairseq2.py: sections_have_the_values",
    "common.assets.prev_checkpoint_dir": "train/test_preflight.py: what_cannot_be_used_is_refused",
}
"""The tests of keys that need a run, a model or processes of their own."""

NEEDS_A_GPU: Final = {"trainer.mixed_precision.dtype"}  # tests/gpu/test_gpu.py


def test_each_key_of_the_schema_is_held_once() -> None:
    assert sorted([*HELD, *ELSEWHERE, *NEEDS_A_GPU]) == sorted(defaults())


@pytest.mark.parametrize("key", ELSEWHERE)
def test_a_key_that_is_held_elsewhere_has_a_test_there(key: str) -> None:
    file, name = ELSEWHERE[key].split(": ")
    assert f"def test_{name}" in (Path(__file__).parent / file).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("key", HELD)
def test_a_key_acts_in_a_run(runs: Runs, key: str) -> None:
    assert HELD[key](runs)
