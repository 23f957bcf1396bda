"""Configurations are read, merged and refused with every fault at once."""

import math
import re
from pathlib import Path
from typing import Any

import pytest

from danish_asr.base.config_tree import flatten, merge, read_yaml
from danish_asr.recipe.config.config import AsrConfig
from danish_asr.recipe.config.keys import key_faults
from danish_asr.recipe.config.loading import load_with_faults, unstructure
from danish_asr.recipe.entry import Request, read_configuration

SOUND = {"model": {"name": "m"}, "dataset": {"name": "d"}}


def tree_of(key: str, value: object) -> dict[str, Any]:
    for name in reversed(key.split(".")):
        value = {name: value}
    assert isinstance(value, dict)
    return value


def faults_of(*trees: dict[str, Any]) -> list[str]:
    return load_with_faults(AsrConfig, merge(SOUND, *trees))[1]


def test_an_unknown_key_a_wrong_type_and_a_broken_rule_are_reported_at_once() -> None:
    unknown, kind, rule = faults_of(
        tree_of("trainer.freeze_encoder_for_n_step", 3),
        tree_of("optimizer.config.lr", "fast"),
        tree_of("regime.num_steps", 0),
    )
    assert unknown.startswith("trainer.freeze_encoder_for_n_step is not a key")
    assert unknown.endswith("did you mean freeze_encoder_for_n_steps?")
    assert kind == "optimizer.config.lr must be a number, but is 'fast'"
    assert rule == "regime.num_steps must be greater than or equal to 1, but is 0"


def test_steps_below_0_are_no_fault_of_the_stages() -> None:
    (fault,) = faults_of(tree_of("regime.num_steps", -1))
    assert fault.startswith("regime.num_steps must be greater than or equal to 1")


STORAGE = "dataset.mixture_parquet_storage_config"


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("model", 3, "must be a mapping of keys, but is 3"),
        (
            "dataset.transforms",
            ["speed"],
            "a list, each entry a mapping as in {key: value}, but is",
        ),
        ("trainer.fp16_loss_scale", 3, "must be [a number, a number], but is 3"),
        ("model.keep_layers", "1", "must be a list, each entry a whole number, but is '1'"),
        ("regime.score_metric", "werr", "must be one of wer, cer, worst_group_wer"),
        (
            "optimizer.config.groups",
            [{"parms": "x"}],
            "groups[0].parms is not a key of this configuration; did you mean params?",
        ),
        # More nanoseconds than 64 bits hold.
        ("gang.timeout", 10**10, "must be at most 10000000 (minutes), but is 10000000000"),
        ("regime.num_steps", None, "must be given for this schedule, but is None"),
        # Torch finds these when the optimizer is made or takes a step, in a traceback.
        ("optimizer.config.lr", 1e300, "must be at most 1000, but is 1e+300"),
        ("optimizer.config.betas", [1.0, 1.0], "must be below 1, but is"),
        ("optimizer.config.betas", [0.9, 1], "must be below 1, but is"),
        ("optimizer.config.groups", [{"params": "x", "lr": 1e300}], "at most 1000, but is 1e+300"),
        ("optimizer.config.groups", [{"params": "x", "betas": [1, 0]}], "below 1, but is (1.0, 0"),
        ("optimizer.config.differentiable", True, "must be false, but is True"),
        ("optimizer.config.capturable", True, "must be false, but is True"),
        ("common.seed", 2**32, "must be below 4000000000, but is 4294967296"),
        # TRAPS, training: fairseq2 finds it in the middle of the run, in a traceback.
        ("lr_scheduler.config.final_lr_scale", 0, "must be above 0, but is 0.0"),
        ("lr_scheduler.config.final_lr_scale", 1e300, "must be at most 1000, but is 1e+300"),
        ("dataset.valid_max_num_elements", "x3", "or a multiple such as 3x, but is 'x3'"),
        ("dataset.valid_max_num_elements", "0x", "or a multiple such as 3x, but is '0x'"),
        ("model.keep_layers", [2, 0], "from 0 on and ascending, but is [2, 0]"),
        ("model.keep_layers", [1, 1], "from 0 on and ascending, but is [1, 1]"),
        ("regime.validate_every_n_data_epochs", 1.5, "must be a whole number, or below 1"),
        ("trainer.unfreeze", {0: "head", "1 epoch": "top 1", 9: "all"}, "or 0 and epochs"),
        ("trainer.unfreeze", {0: "head", "soon": "all"}, "or 0 and epochs"),
        (
            "trainer.stages",
            {0: {"lr": 1}},
            "must be steps above 0, each with subset and lr above 0",
        ),
        (
            "trainer.stages",
            {5: {"lr": 0}},
            "must be steps above 0, each with subset and lr above 0",
        ),
        ("trainer.stages", {"five": {"lr": 1}}, "a mapping, each key a whole number, each value a"),
        ("trainer.stages", {5: {"rate": 1}}, ".5.rate is not a key of this configuration"),
        ("trainer.stages", {5: {"lr": "high"}}, ".5.lr must be a number or null, but is 'high'"),
        ("trainer.stages", {5: 3}, ".5 must be a mapping of keys, but is 3"),
        ("trainer.stages", {90_000: {"lr": 1}}, "must begin before regime.num_steps"),
        ("dataset.max_unknown_share", 2, "must be 0 to 1, but is 2"),
        (f"{STORAGE}.beta_corpus", 2, "to 1 (shares by hours), but is 2"),
    ],
)
def test_a_fault_names_key_rule_and_value(key: str, value: object, rule: str) -> None:
    assert any(f.startswith(key) and rule in f for f in faults_of(tree_of(key, value)))


@pytest.mark.parametrize("section", ["trainer", "regime", "dataset", "optimizer.config"])
def test_an_unknown_key_is_refused_without_a_list_of_all(section: str) -> None:
    (fault,) = key_faults(tree_of(f"{section}.qqqq", 1))
    assert fault.startswith(f"{section}.qqqq")
    assert f"--help-keys {section}" in fault
    assert len(fault) < 160


@pytest.mark.parametrize(
    ("key", "value", "other", "refused"),
    [
        ("model.dtype", "bfloat16", ("common.seed", 1), True),
        ("model.dtype", "float32", ("common.seed", 1), False),
        # Both were tracebacks after the model was loaded.
        ("regime.validate_at_start", True, ("dataset.valid_split", None), True),
        ("regime.validate_at_start", True, ("dataset.valid_split", "dev"), False),
        (
            *("regime.keep_checkpoint_every_n_steps", 2000),
            *(("regime.validate_every_n_data_epochs", 0.5), True),
        ),
        # An epoch that a stage cuts short would count as a pass over the data.
        ("regime.num_data_epochs", 2, ("trainer.stages", {5: {"subset": 9}}), True),
        ("regime.num_data_epochs", 2, ("common.seed", 1), False),
    ],
)
def test_what_would_fail_or_mislead_later_is_refused(
    key: str, value: object, other: tuple[str, object], *, refused: bool
) -> None:
    faults = faults_of(tree_of(key, value), tree_of(*other))
    assert [fault.split()[0] for fault in faults] == [key] * refused


@pytest.mark.parametrize(
    ("timeout", "rank", "minutes"),
    [(1440, 0, []), (86_400, 0, ["1440"]), (86_400, 1, []), (3_601, 0, ["61"])],
)
def test_a_time_out_of_more_than_a_day_is_noted_once_in_minutes(
    timeout: int,
    rank: int,
    minutes: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """TRAPS, training: gang.timeout is in minutes; 86400 was meant as the seconds of a day."""
    monkeypatch.setenv("RANK", str(rank))
    tree = read_configuration(Request(output_dir=None, overrides=[f"gang.timeout={timeout}"]))
    assert not faults_of(tree)
    suggested = re.findall(r"write gang.timeout=(\d+)", capsys.readouterr().err)
    assert suggested == minutes


@pytest.mark.parametrize("value", [-1, 0, 2.5, math.nan, True, "x", [1], {"a": 1}, None])
def test_every_value_of_every_key_is_accepted_or_refused(value: object) -> None:
    """None ends in another error; NaN and wrong types are refused."""
    for key, default in flatten(unstructure(AsrConfig())):
        tree = merge(SOUND, tree_of(key, value))
        _, faults = load_with_faults(AsrConfig, tree)
        assert set(key_faults(tree)) <= set(faults)
        not_finite = isinstance(value, float) and not math.isfinite(value)
        wrong_type = isinstance(default, int | float) and isinstance(value, str | list | dict)
        lists = ("start_lr_scale", "final_lr_scale")
        if not_finite or (wrong_type and not key.endswith(lists)):
            assert any(key in fault for fault in faults), key


def test_a_path_may_be_relative_to_its_file(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("# regime:\n")
    assert read_yaml(file) == {}
    file.write_text("model: {path: '${dir}/run'}")
    assert read_yaml(file) == {"model": {"path": f"{tmp_path}/run"}}
