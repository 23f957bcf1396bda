"""Configurations are read, merged and refused with every fault at once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from danish_asr.errors import ConfigError
from workflows.recipes.wav2vec2.asr.config import AsrConfig, AsrEvalConfig
from workflows.recipes.wav2vec2.asr.loading import (
    flatten,
    merge,
    read_yaml,
    structure,
    unstructure,
)
from workflows.recipes.wav2vec2.asr.sections import StorageMode

SOUND = {"model": {"name": "m"}, "dataset": {"name": "d"}}


def faults_of(tree: dict[str, object]) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        structure(AsrConfig, merge(SOUND, tree), where="test.yaml")
    return caught.value.faults


def test_three_faults_of_three_kinds_are_told_at_once() -> None:
    faults = faults_of(
        {
            "trainer": {"freeze_encoder_for_n_step": 3},
            "optimizer": {"config": {"lr": "fast"}},
            "regime": {"num_steps": 0},
        }
    )
    assert len(faults) == 3
    assert "trainer.freeze_encoder_for_n_step is no key" in faults[0]
    assert "did you mean freeze_encoder_for_n_steps?" in faults[0]
    assert faults[1] == "optimizer.config.lr must be a number, but is 'fast'"
    assert "regime: `num_steps` must be greater than or equal to 1" in faults[2]


@pytest.mark.parametrize(
    ("tree", "fault"),
    [
        ({"model": 3}, "model must be a mapping of keys, but is 3"),
        ({"model": {"name": None, "family": "wav2vec2_llama"}}, "CTC models and no LLM models"),
        ({"model": {"compile": True}}, "model.compile must be false"),
        ({"regime": {"score_metric": "werr"}}, "must be one of wer, cer, worst_group_wer"),
        (
            {"trainer": {"mixed_precision": {"dtype": "float12"}}},
            "must be float32, bfloat16 or float16, but is 'float12'",
        ),
        ({"dataset": {"storage_mode": "DISK"}}, "one of MANIFEST, MIXTURE_PARQUET"),
        ({"dataset": {"asr_task_config": {"normalize_audio": "no"}}}, "must be true or false"),
        ({"optimizer": {"name": "sgd"}}, "optimizer.name must be one of adafactor, adamw"),
        ({"lr_scheduler": {"config": {"stage_ratio": [0.1, 0.1, 0.1]}}}, "must be 1.0"),
        ({"trainer": {"max_grad_norm": -1.0}}, "`max_grad_norm` must be above 0, but is -1.0"),
        ({"dataset": {"text_profile": "dansk"}}, "must be one of raw, coral, rye, but is dansk"),
        (
            {"dataset": {"asr_task_config": {"max_num_elements": 1000}}},
            "`asr_task_config.max_num_elements` must hold the longest utterance",
        ),
        (
            {"dataset": {"asr_task_config": {"min_audio_len": 9, "max_audio_len": 8}}},
            "min_audio_len: expected at most max_audio_len (8), found 9",
        ),
    ],
)
def test_a_fault_names_key_rule_and_value(tree: dict[str, object], fault: str) -> None:
    assert any(fault in found for found in faults_of(tree))


def test_a_faulty_section_causes_no_second_fault() -> None:
    assert len(faults_of({"trainer": "fast"})) == 1


def test_another_component_starts_from_its_own_defaults() -> None:
    config = structure(
        AsrConfig, merge(SOUND, {"optimizer": {"name": "adafactor"}}), where="test.yaml"
    )
    assert dict(flatten(unstructure(config)))["optimizer.config.lr"] == 1e-2


def test_a_window_of_zero_is_a_value() -> None:
    """TRAPS, data reading: 0 is upstream's documented default and is asserted away there."""
    task = {"example_shuffle_window": 0, "batch_shuffle_window": 0}
    config = structure(
        AsrConfig, merge(SOUND, {"dataset": {"asr_task_config": task}}), where="test.yaml"
    )
    assert config.dataset.asr_task_config.example_shuffle_window == 0


def test_an_upstream_style_file_is_read_with_its_meaning(tmp_path: Path) -> None:
    file = tmp_path / "upstream.yaml"
    file.write_text(
        "model: {name: omniASR_CTC_300M}\n"
        "dataset:\n"
        "  name: x\n"
        "  storage_mode: MIXTURE_PARQUET\n"
        "  mixture_parquet_storage_config:\n"
        "    dataset_summary_path: ${dir}/language_distribution_0.tsv\n"
        "    fragment_loading: {cache: True}\n"
        "  asr_task_config: {max_audio_len: 960_000, max_num_elements: 7_680_000}\n"
        "trainer: {mixed_precision: {dtype: torch.bfloat16}}\n"
    )
    config = structure(AsrConfig, read_yaml(file), where="upstream.yaml")
    storage = config.dataset.mixture_parquet_storage_config
    assert config.dataset.storage_mode is StorageMode.MIXTURE_PARQUET
    assert config.dataset.asr_task_config.max_num_elements == 7_680_000
    assert storage.dataset_summary_path == f"{tmp_path}/language_distribution_0.tsv"
    assert storage.fragment_loading.cache is True
    assert config.trainer.mixed_precision.dtype is torch.bfloat16


def test_the_evaluation_takes_a_training_configuration() -> None:
    tree = merge(SOUND, {"regime": {"num_steps": 7}, "trainer": {"max_grad_norm": 2.0}})
    assert structure(AsrEvalConfig, tree, where="test.yaml").model.name == "m"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        ("a: [1", "is not YAML"),
        ("- a\n- b\n", "must hold a mapping of sections"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(
    tmp_path: Path, content: str | None, message: str
) -> None:
    file = tmp_path / "config.yaml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigError, match=message):
        read_yaml(file)
