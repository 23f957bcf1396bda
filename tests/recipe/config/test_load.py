"""Configurations are read, merged and refused with every fault at once."""

import subprocess
import sys
from typing import Any

import pytest

from danish_asr.base.config_tree import flatten, merge, nested, parse_override
from danish_asr.base.errors import ConfigError
from danish_asr.recipe.config.keys import defaults
from danish_asr.recipe.config.load import ONLY_DEFAULT, ineffective_keys, load, unstructure

SOUND = {"model": {"name": "m"}, "dataset": {"name": "d"}}
STORAGE = "dataset.mixture_parquet_storage_config"
TASK = "dataset.asr_task_config"


def faults_of(*trees: dict[str, Any]) -> list[str]:
    try:
        load(merge(SOUND, *trees), where="the test")
    except ConfigError as error:
        return list(error.faults)
    return []


def test_an_unknown_key_a_wrong_type_and_a_bound_are_reported_at_once() -> None:
    faults = faults_of(
        nested("trainer.freeze_encoder_for_n_step", 3),
        nested("optimizer.config.lr", "fast"),
        nested("lr_scheduler.config.start_lr_scale", -1),
        nested(f"{TASK}.remove_unknown", value=True),
    )
    assert {fault.split()[0] for fault in faults} == {
        "trainer.freeze_encoder_for_n_step",
        "optimizer.config.lr",
        "lr_scheduler.config.start_lr_scale",
        f"{TASK}.remove_unknown",
    }


def test_faults_are_found_without_pytorch() -> None:
    program = """
import sys
from danish_asr.base.errors import ConfigError
from danish_asr.recipe.config.load import load
try:
    load({"regime": {"num_steps": 0}}, where="the test")
except ConfigError:
    sys.exit("torch" in sys.modules)
sys.exit("no fault")
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


@pytest.mark.parametrize(
    "values",
    [
        "regime.num_steps=null; lr_scheduler.name=passthrough",
        "regime.validate_every_n_steps=50; regime.validate_every_n_data_epochs=1",
        "regime.validate_every_n_steps=null; regime.checkpoint_every_n_steps=null",
        "regime.validate_every_n_steps=null; regime.keep_best_n_checkpoints=null",
        "model={name: null, path: run, head: danish}",
        "evaluator={where: age > 3, label: old}",
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
    written = unstructure(load(tree, where="the test"))
    assert unstructure(load(written, where="the test")) == written
    assert dict(flatten(tree)).items() <= dict(flatten(written)).items()


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("trainer.qqqqq", "--help-keys trainer"),
        ("trainer.num_stepz", "regime.num_steps"),
    ],
)
def test_an_unknown_key_is_refused_with_what_may_be_meant(key: str, meant: str) -> None:
    (fault,) = faults_of(nested(key, 1))
    assert fault.startswith(key)
    assert meant in fault
