"""Configurations are read, merged and refused with every fault at once."""

import subprocess
import sys
from typing import Any

import pytest

from danish_asr.base.config_tree import flatten, merge, nested, parse_override
from danish_asr.base.errors import ConfigError
from danish_asr.recipe.config.keys import defaults
from danish_asr.recipe.config.load import (
    ONLY_DEFAULT,
    in_steps,
    ineffective_keys,
    load,
    named_code,
    top_layers,
    unstructure,
)
from danish_asr.recipe.config.training_sections import MyleLRConfig

SOUND = {"model": {"name": "m"}, "dataset": {"name": "d"}}
STORAGE = "dataset.mixture_parquet_storage_config"
TASK = "dataset.asr_task_config"


def faults_of(*trees: dict[str, Any]) -> list[str]:
    try:
        load(merge(SOUND, *trees), where="the test")
    except ConfigError as error:
        return list(error.faults)
    return []


def test_unknown_keys_a_wrong_type_and_a_bound_are_reported_at_once() -> None:
    faults = faults_of(
        nested("trainer.num_stepz", 3),
        nested("trainer.qqqqq", 3),
        nested("optimizer.config.lr", "fast"),
        nested("lr_scheduler.config.start_lr_scale", -1),
        nested(f"{TASK}.remove_unknown", value=True),
    )
    expected = {
        "trainer.num_stepz": "regime.num_steps",
        "trainer.qqqqq": "--help-keys trainer",
        "optimizer.config.lr": '"fast"',
        "lr_scheduler.config.start_lr_scale": "-1",
        f"{TASK}.remove_unknown": "true",
    }
    by_key = {fault.split()[0]: fault for fault in faults}
    assert by_key.keys() == expected.keys()
    assert all(part in by_key[key] for key, part in expected.items())


def test_a_configuration_is_checked_without_pytorch() -> None:
    program = f"""
import sys
from danish_asr.recipe.config.load import load
load({SOUND}, where="the test")
sys.exit("torch" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("model", "model=3"),
        ("dataset.name", "dataset.name=null"),
        ("model.head", "model={name: null, arch: tiny, head: danish}"),
        ("regime.score_metric", "regime.score_metric=null"),
        ("regime.num_steps", "regime.num_steps=2.5"),
        ("regime.num_steps", "regime.num_steps=null"),
        ("regime.num_steps", "regime.num_steps=null; lr_scheduler.name=tri_stage"),
        ("optimizer.config.betas[0]", "optimizer.config.betas=[1.0, 0.9]"),
        ("optimizer.name", "optimizer.name=adamw_8bit; trainer.data_parallelism=fsdp"),
        # TRAPS, training: fairseq2 finds it in the middle of the run, in a traceback.
        ("lr_scheduler.config.final_lr_scale", "lr_scheduler.config.final_lr_scale=0"),
        ("lr_scheduler.config.stage_ratio", "lr_scheduler.config.stage_ratio=[0.1, 0.1, 0.1]"),
        ("lr_scheduler.config.stage_ratio", "lr_scheduler={name: myle, config: {stage_ratio: 1}}"),
        ("model.path", "model.path=''"),
        ("dataset.config_overrides.root", "dataset.config_overrides={root: x}"),
        ("dataset.transforms[0]", "dataset.transforms=[speed]"),
        ("dataset.speed_factors[1]", "dataset.speed_factors=[1, 2.1]"),
        ("dataset.weights[0].where", "dataset.weights=[{factor: 1}]"),
        ("trainer.unfreeze", "trainer.unfreeze={9: all}"),
        ("trainer.unfreeze", "trainer.unfreeze={0: all}; trainer.freeze_encoder_for_n_steps=1"),
        ("trainer.unfreeze.soon", "trainer.unfreeze={0: head, soon: all}"),
        ("trainer.stages.5.rate", "trainer.stages={5: {rate: 1}}"),
        ("evaluator.label", "evaluator.where=age > 3"),
        ("regime.validate_every_n_steps", "regime.validate_every_n_steps=50"),
        ("regime.checkpoint_every_n_steps", "regime.checkpoint_every_n_steps=1500"),
        ("regime.keep_checkpoint_every_n_steps", "regime.keep_checkpoint_every_n_steps=1500"),
        ("regime.keep_best_n_checkpoints", "regime.validate_every_n_steps=null"),
        # A traceback after the model was loaded.
        (
            "regime.keep_checkpoint_every_n_steps",
            "regime.keep_checkpoint_every_n_steps=2000; regime.validate_every_n_data_epochs=1",
        ),
        # An epoch that a stage cuts short would count as a pass over the data.
        ("regime.num_data_epochs", "regime.num_data_epochs=2; trainer.stages={5: {subset: 9}}"),
    ],
)
def test_a_fault_begins_with_the_key(key: str, values: str) -> None:
    (fault,) = faults_of(*map(parse_override, values.split("; ")))
    assert fault.startswith(f"{key} ")
    assert "Section" not in fault, "the name of a class says nothing to a user"


@pytest.mark.parametrize(
    "values",
    [
        "regime.num_steps=null; lr_scheduler.name=passthrough",
        "regime.validate_every_n_steps=50; regime.validate_every_n_data_epochs=1",
        "regime.validate_every_n_steps=null; regime.checkpoint_every_n_steps=null",
        "regime.validate_every_n_steps=null; regime.keep_best_n_checkpoints=null",
        "model={name: null, path: run, head: danish}",
        "evaluator={where: age > 3, label: old}",
        "optimizer.name=adamw_8bit; trainer.unfreeze={0: all}; regime.num_data_epochs=2",
        "trainer.freeze_encoder_for_n_steps=1; trainer.stages={5: {subset: 9}}",
        "trainer.data_parallelism=fsdp; regime.keep_checkpoint_every_n_steps=2000",
    ],
)
def test_a_rule_between_keys_refuses_nothing_else(values: str) -> None:
    assert not faults_of(*map(parse_override, values.split("; ")))


@pytest.mark.parametrize(("key", "only"), ONLY_DEFAULT.items(), ids=ONLY_DEFAULT)
def test_a_key_of_upstream_that_few_set_is_refused_but_for_its_default(
    key: str, only: object
) -> None:
    """TRAPS, data reading: upstream ignores `no_padding`."""
    assert not faults_of(nested(key, only))
    assert [fault.split()[0] for fault in faults_of(nested(key, "other"))] == [key]


def test_keys_of_upstream_without_effect_are_accepted_and_named() -> None:
    tree = merge(
        nested(f"{STORAGE}.dataset_summary_path", "x.tsv"),
        nested(f"{STORAGE}.fragment_loading.cache", value=True),
        nested(f"{TASK}.batching_strategy", "LENGTH"),
        nested("model.compile_options.dynamic", value=False),
    )
    assert not faults_of(tree)
    assert ineffective_keys(tree) == [
        f"{STORAGE}.dataset_summary_path",
        f"{STORAGE}.fragment_loading.cache",
        "model.compile_options.dynamic",
    ]


def test_the_default_of_each_key_is_sound() -> None:
    chosen = ("dataset.name", "lr_scheduler.config.")  # by the user, by the name
    keys = (nested(*row) for row in defaults().items() if not row[0].startswith(chosen))
    assert not faults_of(*keys)


def test_a_configuration_that_was_written_is_read_as_the_same() -> None:
    stages = nested("trainer.unfreeze", {0: "head", 5: "all"})
    schedule = nested("lr_scheduler", {"name": "myle", "config": {"start_lr": 1e-6}})
    tree = merge(SOUND, stages, schedule, nested("optimizer.name", "adamw_8bit"))
    config = load(tree, where="the test")
    assert config.lr_scheduler.config == MyleLRConfig(start_lr=1e-6)
    written = unstructure(config)
    assert unstructure(load(written, where="the test")) == written
    assert dict(flatten(tree)).items() <= dict(flatten(written)).items()


def test_a_name_with_a_module_is_code_where_a_key_may_have_it() -> None:
    keys = ("dataset.text_profile", "regime.score_profile", "decoder.name", "model.name")
    transforms = [{"name": "noise"}, {"name": "mine:Hum"}]
    trees = [nested(key, "mine:code") for key in (*keys, "decoder.config.text_profile")]
    code = named_code(merge(*trees, nested("dataset.transforms", transforms)))
    assert code.pop("dataset.transforms") == transforms
    assert code == dict.fromkeys((*keys[:3], "decoder.config.text_profile"), "mine:code")
    plain = nested("dataset", {"text_profile": "raw", "transforms": transforms[:1]})
    assert named_code(merge(plain, nested("decoder.name", "beam"))) == {}
    assert named_code({"dataset": {"transforms": None}}) == {}


def test_a_stage_of_unfreezing_says_how_many_layers_learn_after_how_many_steps() -> None:
    assert [top_layers(learning) for learning in ("head", "top 12", "all")] == [0, 12, None]
    assert [in_steps(first, 100) for first in (7, "1 epoch", "2.5 epochs")] == [7, 100, 250]
