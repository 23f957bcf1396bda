"""Configurations with every key of upstream's own files load, and keep their meaning.

Upstream's YAML files are not part of its wheel; their keys and values are listed here.
"""

from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq2.recipe import config as base

from danish_asr.base.config_tree import flatten, merge, nested
from danish_asr.base.files import from_yaml, to_yaml
from danish_asr.recipe.config.fairseq2 import sections_of
from danish_asr.recipe.config.load import ONLY_DEFAULT, ineffective_keys, load, unstructure
from danish_asr.scoring.predictions import read_predictions
from tests.running import evaluate

Tree = dict[str, Any]

NAMED: Tree = {"model": {"name": "omniASR_CTC_300M"}}
PLAIN: Tree = from_yaml("""
dataset:
  name: example_dataset
  train_split: train
  valid_split: dev
  storage_mode: MIXTURE_PARQUET
  task_mode: ASR
  mixture_parquet_storage_config:
    dataset_summary_path: /path/to/your/dataset/language_distribution_0.tsv
    beta_corpus: 0.5
    beta_language: 0.5
    fragment_loading: {cache: True}
  asr_task_config:
    min_audio_len: 32_000
    max_audio_len: 960_000
    max_num_elements: 960_000
    batch_shuffle_window: 1
    example_shuffle_window: 1
    normalize_audio: True
tokenizer: {name: omniASR_tokenizer_v1}
optimizer: {config: {lr: 5e-05}}
trainer:
  freeze_encoder_for_n_steps: 0
  mixed_precision: {dtype: torch.bfloat16}
  grad_accumulation: {num_batches: 4}
regime:
  num_steps: 20_000
  validate_after_n_steps: 0
  validate_every_n_steps: 1000
  checkpoint_every_n_steps: 1000
  publish_metrics_every_n_steps: 200
""")
RECOMMENDED = from_yaml("""
dataset: {asr_task_config: {example_shuffle_window: 0}}
regime:
  validate_after_n_steps: 1000
  checkpoint_after_n_steps: 1000
  publish_metrics_after_n_steps: 1000
""")
FROM_ENCODER = from_yaml("""
model: {family: wav2vec2_asr, arch: 300m}
pretrained_encoder: {name: omniASR_W2V_300M}
trainer: {freeze_encoder_for_n_steps: 10_000}
""")
EVALUATION = from_yaml("""
model: {name: omniASR_LLM_300M_v2}
tokenizer: {name: omniASR_tokenizer_written_v2}
dataset:
  _del_: [train_split]
  mixture_parquet_storage_config:
    fragment_loading: {cache: True, num_parallel_fragments: 2, nb_prefetch: 2}
  asr_task_config:
    max_audio_len: 320_000
    max_num_elements: 320_000
    example_shuffle_window: 1
""")
FILES = {
    "ctc-finetune": NAMED | PLAIN,
    "ctc-finetune-recommendation": merge(NAMED, PLAIN, RECOMMENDED),
    "ctc-from-encoder": merge(PLAIN, FROM_ENCODER),
    "evaluation": merge({"dataset": PLAIN["dataset"]}, EVALUATION),
}


@pytest.mark.parametrize("name", FILES)
def test_every_key_of_a_file_is_used(name: str) -> None:
    tree = FILES[name]
    config = load(tree, where=name)
    dtypes = {"torch.bfloat16": "bfloat16"}
    expected = {key: dtypes.get(str(value), value) for key, value in flatten(tree)}
    unused = {*ineffective_keys(tree), *ONLY_DEFAULT}
    used = {key: value for key, value in expected.items() if key not in unused}
    assert used.items() <= dict(flatten(unstructure(config))).items()


def test_sections_have_the_values_of_the_keys_and_what_a_run_fixes() -> None:
    own: Tree = {
        "model.name": "m",
        "model.config_overrides": {"a": 1},
        "gang.timeout": 7,
        "trainer.max_grad_norm": 3.0,
        "trainer.mixed_precision.mode": "auto",
        "trainer.grad_accumulation.num_batches": 5,
        "optimizer.config.lr": 0.25,
        "optimizer.config.weight_decay": 0.5,
        "lr_scheduler.config.start_lr_scale": 0.5,
        "regime.num_steps": 300,
        "common.seed": 9,
        "common.torch.num_threads": 2,
        "common.metric_recorders.wandb.enabled": True,
        "common.metric_recorders.wandb.entity": "us",
        "common.metric_recorders.wandb.project": "ours",
    }
    epochs = {"regime.num_data_epochs": 3, "regime.validate_every_n_data_epochs": 0.5}
    keys = {"dataset.name": "d"} | own | epochs
    sections = sections_of(load(merge(*(nested(*pair) for pair in keys.items())), where=""))
    expected = own | {
        "model.family": "wav2vec2_asr",
        "optimizer.config.impl": "fused" if torch.cuda.is_available() else "auto",
        "regime.num_data_epochs": None,
        "regime.validate_every_n_data_epochs": None,
        "common.cluster": "none",
        "common.no_sweep_dir": True,
        "common.metric_recorders.wandb.resume_mode": "allow",
    }
    assert {key: attrgetter(key)(sections) for key in expected} == expected
    assert sections.optimizer is not None
    assert isinstance(sections.optimizer.config, base.AdamWConfig)
    assert sections.lr_scheduler is not None
    assert isinstance(sections.lr_scheduler.config, base.TriStageLRConfig)


def test_an_optimizer_of_ours_takes_our_settings_and_a_constant_rate_none() -> None:
    own = from_yaml("""
dataset: {name: d}
optimizer: {name: adamw_offload, config: {lr: 0.25}}
lr_scheduler: {name: passthrough}
""")
    config = load(own, where="")
    sections = sections_of(config)
    assert sections.asr is config
    assert sections.optimizer is not None
    assert (sections.optimizer.name, sections.optimizer.config) == (
        *("adamw_offload", config.optimizer.config),
    )
    assert sections.lr_scheduler is not None
    assert (sections.lr_scheduler.name, sections.lr_scheduler.config) == ("passthrough", None)


@pytest.mark.slow
def test_the_evaluation_file_scores_the_rows_that_a_condition_names(
    tmp_path: Path, dataset: Path, finished_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TRAPS, data reading: upstream ignores its partition filters outside training."""
    monkeypatch.setenv("DANISH_ASR_ASSETS", str(finished_run / "cards"))
    own = [
        *("model.name=finished", "model.config_overrides=null", "tokenizer.name=finished"),
        *("evaluator.where=corpus = 'coral_read_aloud'", "evaluator.label=read_aloud"),
        *("evaluator.amp=false", "evaluator.checkpoint=none", "evaluator.split=dev"),
    ]
    file, run = tmp_path / "upstream.yaml", tmp_path / "run"
    file.write_text(to_yaml(FILES["evaluation"]))
    assert evaluate(run, dataset, *own, config=file) == 0
    (written,) = run.glob("eval/finished/dev/**/predictions.jsonl")
    predictions = read_predictions(written)
    assert {*predictions["corpus"]} == {"coral_read_aloud"}
    assert len(predictions) == 6
