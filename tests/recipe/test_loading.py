"""Configurations are read, merged and refused with every fault at once."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from danish_asr.errors import ConfigError
from danish_asr.recipe.config import AsrConfig, AsrEvalConfig
from danish_asr.recipe.loading import (
    defaults,
    flatten,
    inspect,
    merge,
    read_yaml,
    structure,
    unstructure,
)
from danish_asr.recipe.sections import StorageMode

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
    assert faults[2] == "regime.num_steps must be greater than or equal to 1, but is 0"


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
        ({"trainer": {"max_grad_norm": -1.0}}, "max_grad_norm must be 0 or more, but is -1.0"),
        ({"trainer": {"max_grad_norm": 0}}, "max_grad_norm must be above 0, or null, but is 0"),
        ({"optimizer": {"config": {"lr": 0}}}, "optimizer.config.lr must be above 0, but is 0"),
        ({"optimizer": {"config": {"betas": [0.9, 1]}}}, "betas must be below 1, but are [0.9, 1"),
        (
            {"optimizer": {"config": {"groups": [{"params": "x", "lr": -1}]}}},
            "optimizer.config.groups must be 0 or more",
        ),
        (
            {"optimizer": {"config": {"groups": [{"parms": "x"}]}}},
            "optimizer.config.groups must be a list of mappings with params, lr, betas",
        ),
        ({"common": {"assets": {"extra_paths": "cards"}}}, "must be a list, but is 'cards'"),
        ({"model": {"config_overrides": 3}}, "model.config_overrides must be a mapping of keys"),
        ({"model": {"dtype": "float16"}}, "model.dtype must be float32"),
        ({"gang": {"tensor_parallel_size": 2}}, "gang.tensor_parallel_size must be 1"),
        ({"regime": {"validate_every_n_steps": 0}}, "validate_every_n_steps must be at least 1"),
        ({"regime": {"export_hugging_face": True}}, "regime.export_hugging_face must be false"),
        (
            {"regime": {"num_steps": None, "num_data_epochs": 2}},
            "regime.num_steps must be given for the schedule tri_stage",
        ),
        (
            {"lr_scheduler": {"name": "noam", "config": {"num_warmup_steps": 2.5}}},
            "num_warmup_steps must be an integer, but is 2.5",
        ),
        (
            {"lr_scheduler": {"name": "polynomial_decay", "config": {"num_warmup_steps": 30_000}}},
            "num_warmup_steps must be below regime.num_steps (20000), but is 30000",
        ),
        ({"dataset": {"valid_split": "dev,dev"}}, "valid_split must name each split once"),
        ({"dataset": {"max_unknown_share": 1.5}}, "max_unknown_share must be at most 1"),
        (
            {"dataset": {"mixture_parquet_storage_config": {"beta_corpus": 2}}},
            "beta_corpus: expected 0 (all alike) to 1 (as much of each as there is), found 2",
        ),
        ({"dataset": {"text_profile": "dansk"}}, "must be one of raw, coral, rye, but is dansk"),
        (
            {"dataset": {"asr_task_config": {"max_num_elements": 1000}}},
            "dataset.asr_task_config.max_num_elements must hold the longest utterance",
        ),
        (
            {"dataset": {"asr_task_config": {"min_audio_len": 9, "max_audio_len": 8}}},
            "min_audio_len: expected at most max_audio_len (8), found 9",
        ),
    ],
)
def test_a_fault_names_key_rule_and_value(tree: dict[str, object], fault: str) -> None:
    assert any(fault in found for found in faults_of(tree))


def test_a_timeout_that_was_meant_in_seconds_is_refused() -> None:
    """TRAPS, training: gang.timeout is in minutes, and 86400 were meant as a day of seconds."""
    (fault,) = faults_of({"gang": {"timeout": 86_400}})
    assert fault == "gang.timeout must be at most 1440, for it is in minutes, but is 86400"


@pytest.mark.parametrize("section", ["trainer", "dataset", "model", "regime", "optimizer"])
def test_a_faulty_section_causes_no_second_fault(section: str) -> None:
    assert len(faults_of({section: "fast"})) == 1


@pytest.mark.parametrize("value", [-1, 0, 2.5, math.nan, math.inf, True, "x", [1], {"a": 1}, None])
def test_whatever_stands_under_a_key_is_taken_or_refused(value: object) -> None:
    """No value of any key ends in another error, and no number is infinite or none."""
    for key, default in flatten(defaults(AsrConfig)):
        tree: dict[str, Any] = {}
        section = tree
        *path, last = key.split(".")
        for name in path:
            section = section.setdefault(name, {})
        section[last] = value
        _, faults = inspect(AsrConfig, merge(SOUND, tree))
        no_number = isinstance(value, float) and not math.isfinite(value)
        wrong_type = isinstance(default, int | float) and isinstance(value, str | list | dict)
        lists = ("start_lr_scale", "final_lr_scale")
        if no_number or (wrong_type and last not in lists):
            assert any(key in fault for fault in faults), key


def test_another_component_starts_from_its_own_defaults() -> None:
    config = structure(
        AsrConfig, merge(SOUND, {"optimizer": {"name": "adafactor"}}), where="test.yaml"
    )
    assert dict(flatten(unstructure(config)))["optimizer.config.lr"] == 1e-2


@pytest.mark.parametrize("section", ["optimizer", "lr_scheduler"])
def test_the_usual_component_named_is_the_usual_component(section: str) -> None:
    usual = defaults(AsrConfig)
    named = merge(SOUND, {section: {"name": usual[section]["name"]}})
    config = unstructure(structure(AsrConfig, named, where="test.yaml"))
    assert config[section] == usual[section]


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
        ("a: 2024-13-45", "is not YAML"),
        (b"\xef\xff", "is no text in UTF-8"),
        ("- a\n- b\n", "must hold a mapping of sections"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(
    tmp_path: Path, content: str | bytes | None, message: str
) -> None:
    file = tmp_path / "config.yaml"
    if content is not None:
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ConfigError, match=message):
        read_yaml(file)
