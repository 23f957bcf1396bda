"""Configurations are read, merged and refused with every fault at once."""

import math
from pathlib import Path
from typing import Any

import pytest
from fairseq2.recipe.config import AdamWConfig

from danish_asr.base.config_tree import flatten, merge, read_yaml
from danish_asr.base.errors import ConfigError
from danish_asr.decoding.decoders import DECODERS
from danish_asr.recipe.config.config import AsrConfig
from danish_asr.recipe.config.keys import key_faults
from danish_asr.recipe.config.loading import SCHEDULES, inspect, unstructure
from danish_asr.recipe.config.optimizers import OPTIMIZERS, OptimizerKind

SOUND = {"model": {"name": "m"}, "dataset": {"name": "d"}}


def tree_of(key: str, value: object) -> dict[str, Any]:
    for name in reversed(key.split(".")):
        value = {name: value}
    assert isinstance(value, dict)
    return value


def faults_of(*trees: dict[str, Any]) -> list[str]:
    return inspect(AsrConfig, merge(SOUND, *trees))[1]


def test_an_unknown_key_a_wrong_type_and_a_broken_rule_are_reported_at_once() -> None:
    unknown, kind, rule = faults_of(
        tree_of("trainer.freeze_encoder_for_n_step", 3),
        tree_of("optimizer.config.lr", "fast"),
        tree_of("regime.num_steps", 0),
    )
    assert unknown.startswith("trainer.freeze_encoder_for_n_step is not a key")
    assert unknown.endswith("did you mean freeze_encoder_for_n_steps?")
    assert kind == "optimizer.config.lr must be float, but is 'fast'"
    assert rule == "regime.num_steps must be greater than or equal to 1, but is 0"


TASK = "dataset.asr_task_config"
STORAGE = "dataset.mixture_parquet_storage_config"
OPTIMIZER = "optimizer.config"


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("model", 3, "must be a mapping of keys, but is 3"),
        ("model", {"name": None, "family": "wav2vec2_llama"}, "CTC models, not LLM models"),
        ("model.compile", True, "must be false"),
        ("regime.score_metric", "werr", "must be one of wer, cer, worst_group_wer"),
        ("trainer.mixed_precision.dtype", "float12", "float32, bfloat16 or float16"),
        ("dataset.storage_mode", "DISK", "must be one of MANIFEST, MIXTURE_PARQUET"),
        (f"{TASK}.normalize_audio", "no", "must be bool, but is 'no'"),
        ("optimizer.name", "sgd", "must be one of adafactor, adamw, adamw_8bit, adamw_offload"),
        ("lr_scheduler.config", {"stage_ratio": [0.1, 0.1, 0.1]}, "must be 1.0"),
        ("optimizer.config.groups", [{"parms": "x"}], "must be Sequence["),
        ("common.assets.extra_paths", "cards", "must be Sequence[Path], but is 'cards'"),
        ("gang.tensor_parallel_size", 2, "must be 1"),
        # TRAPS, training: gang.timeout is in minutes; 86400 was meant as the seconds of a day.
        ("gang.timeout", 86_400, "must be at most 1440 (minutes), but is 86400"),
        ("regime.validate_every_n_steps", 0, "must be above 0, but is 0"),
        ("regime.num_steps", None, "must be given for this schedule, but is None"),
        ("evaluator.amp_dtype", "int32", "float32, bfloat16 or float16"),
        (f"{OPTIMIZER}.betas", [0.9], "must be tuple[float, float], but is [0.9]"),
        # TRAPS, training: fairseq2 finds it in the middle of the run, in a traceback.
        ("lr_scheduler.config.final_lr_scale", 0, "must be above 0, but is 0.0"),
        ("lr_scheduler.config.stage_ratio", [1.5, -0.5, 0.0], "must be 0 or more"),
        ("common.no_sweep_dir", False, "must be true: OUTDIR is the directory of one run"),
        ("dataset.max_unknown_share", 2, "must be 0 to 1, but is 2"),
        ("regime.export_hugging_face", True, "must be false"),
        ("dataset.text_profile", "dansk", "must be one of coral, raw, rye"),
        (f"{STORAGE}.beta_corpus", 2, "to 1 (shares by hours), but is 2"),
        (f"{TASK}.batch_shuffle_window", -1, "must be 0 or more, but is -1"),
    ],
)
def test_a_fault_names_key_rule_and_value(key: str, value: object, rule: str) -> None:
    assert any(f.startswith(key) and rule in f for f in faults_of(tree_of(key, value)))


EARLY = [
    ("optimizer", {"name": "adafactor", "config": {"lr": 1, "d": 2.0}}, None),
    ("optimizer.config.lrr", 1, "did you mean lr?"),
    ("regime.num_stpes", 3, "did you mean num_steps?"),
    ("regiem", {}, "did you mean regime?"),
    ("regime", "fast", "must be a mapping of keys"),
    ("decoder.config", {"threshold": 1}, None),
]


@pytest.mark.parametrize(("key", "value", "fault"), EARLY)
def test_keys_are_checked_without_fairseq2(key: str, value: object, fault: str | None) -> None:
    faults = key_faults(tree_of(key, value))
    assert len(faults) == (fault is not None)
    assert all((fault or "") in text for text in faults)
    assert set(faults) <= set(faults_of(tree_of(key, value)))


@pytest.mark.parametrize(
    ("section", "table", "entry"),
    [
        ("optimizer", OPTIMIZERS, OptimizerKind(AdamWConfig)),
        ("lr_scheduler", SCHEDULES, AdamWConfig),
    ],
)
def test_the_refusal_of_a_component_lists_those_that_exist(
    section: str, table: dict[str, object], entry: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(table, "novel", entry)
    (fault,) = faults_of({section: {"name": "novell"}})
    assert fault.startswith(f"{section}.name")
    assert "novel" in fault.partition("but is")[0]
    config, faults = inspect(AsrConfig, merge(SOUND, {section: {"name": "novel"}}))
    assert not faults
    assert isinstance(getattr(config, section).config, AdamWConfig)


def test_early_stopping_needs_validation() -> None:
    patience = tree_of("regime.early_stopping_patience", 3)
    never = {"regime": {"validate_every_n_steps": None, "keep_best_n_checkpoints": None}}
    for missing in (tree_of("dataset.valid_split", None), never):
        (fault,) = faults_of(patience, missing)
        assert fault.startswith("regime.early_stopping_patience must be null without validation")
    assert not faults_of(patience)


@pytest.mark.parametrize("name", ["publish_metrics", "validate", "checkpoint"])
def test_a_faulty_interval_causes_no_fault_of_those_that_are_compared_with_it(name: str) -> None:
    others = {f"{other}_every_n_steps": 150 for other in ("validate", "checkpoint")}
    key = f"{name}_every_n_steps"
    regime = others | {"publish_metrics_every_n_steps": 50, key: 2.5, "num_steps": 900}
    (fault,) = faults_of({"regime": regime})
    assert fault == f"regime.{key} must be int | None, but is 2.5"


@pytest.mark.parametrize("value", [-1, 0, 2.5, math.nan, True, "x", [1], {"a": 1}, None])
def test_every_value_of_every_key_is_accepted_or_refused(value: object) -> None:
    """None ends in another error; NaN and wrong types are refused."""
    for key, default in flatten(unstructure(AsrConfig())):
        tree = merge(SOUND, tree_of(key, value))
        _, faults = inspect(AsrConfig, tree)
        assert set(key_faults(tree)) <= set(faults)
        not_finite = isinstance(value, float) and not math.isfinite(value)
        wrong_type = isinstance(default, int | float) and isinstance(value, str | list | dict)
        lists = ("start_lr_scale", "final_lr_scale")
        if not_finite or (wrong_type and not key.endswith(lists)):
            assert any(key in fault for fault in faults), key


def test_parameters_of_decoders_may_be_negative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DECODERS, "own", lambda tokenizer, threshold: (tokenizer, threshold))
    own = {"decoder": {"name": "own", "config": {"threshold": -10.0}}}
    config, faults = inspect(AsrConfig, merge(SOUND, own))
    assert not faults
    assert config.decoder.config == {"threshold": -10.0}


def test_another_component_starts_from_its_own_defaults() -> None:
    config, _ = inspect(AsrConfig, merge(SOUND, {"optimizer": {"name": "adafactor"}}))
    assert dict(flatten(unstructure(config)))["optimizer.config.lr"] == 1e-2


def test_naming_the_default_component_keeps_this_recipes_defaults() -> None:
    defaults = unstructure(AsrConfig())
    named = merge(SOUND, {"optimizer": {"name": defaults["optimizer"]["name"]}})
    assert unstructure(inspect(AsrConfig, named)[0])["optimizer"] == defaults["optimizer"]


def test_a_path_may_be_relative_to_its_file(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("# regime:\n")
    assert read_yaml(file) == {}
    file.write_text("model: {path: '${dir}/run'}")
    assert read_yaml(file) == {"model": {"path": f"{tmp_path}/run"}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        (b"a: [1", "cannot be read as YAML"),
        (b"a: 1\na: 2", 'duplicate key "a"'),
        (b"a: 2024-13-45", "cannot be read as YAML"),
        (b"\xef\xff", "cannot be read as YAML"),
        (b"- a\n- b\n", "must hold a mapping of sections"),
    ],
)
def test_a_file_without_a_configuration_is_refused(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    file = tmp_path / "config.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        read_yaml(file)
