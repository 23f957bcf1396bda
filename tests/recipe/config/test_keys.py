"""What is known of each key, for help and for what an unknown key may mean."""

import pytest

from danish_asr.recipe.config.keys import Key, defaults, help_text, near_keys, table


def test_each_section_stands_before_its_keys_and_each_key_is_described_once() -> None:
    rows = table()
    # A setting of several schedules is described for each of them.
    names = [row.key for row in rows if not row.key.startswith("lr_scheduler.config.")]
    assert len({*names}) == len(names)
    assert all(row.effect for row in rows)
    sections = [row.key for row in rows if not row.values]
    assert sections[:3] == ["model", "pretrained_encoder", "masking"]
    section = ""
    for row in rows:
        section = section if row.values else row.key
        assert row.key.partition(".")[0] == section
    assert defaults() == {row.key: row.value for row in rows if row.values}


def test_the_settings_of_each_schedule_say_whose_they_are() -> None:
    effects = {row.key: row.effect for row in table()}
    assert effects["lr_scheduler.config.stage_ratio"].startswith("tri_stage: ")
    assert effects["lr_scheduler.config.start_lr"].startswith("myle: ")


@pytest.mark.parametrize(
    ("value", "written"), [("a", "a"), ("", '""'), (None, "null"), ([1], "[1]"), (True, "true")]
)
def test_a_default_is_written_as_one_gives_it(value: object, written: str) -> None:
    assert Key("a.b", value, "x", "y").default == written


def test_the_help_of_a_key_a_part_and_a_section_names_values_and_defaults() -> None:
    text = help_text("regime.num_steps")
    first, *effect = text.splitlines()
    assert first == "regime.num_steps  (whole number, from 1 or null; default: 20000)"
    assert all(line.startswith("    ") for line in effect)
    part = help_text("optimizer.config", width=40)
    assert [line.split()[0] for line in part.splitlines() if line and line[0] != " "] == [
        *(f"optimizer.config.{name}" for name in ("lr", "betas", "eps", "weight_decay"))
    ]
    assert max(len(line) for line in part.splitlines() if line.startswith(" ")) <= 40
    assert help_text("optimizer").splitlines()[0] == "The optimizer."
    assert help_text("optim") == ""


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("trainer.num_stepz", ["regime.num_steps"]),
        ("trainer.max_grad", ["trainer.max_grad_norm"]),
        ("optimizer.lr", ["optimizer.config.lr"]),
        ("decoder.amp", ["evaluator.amp"]),
        ("lr_scheduler.config.start_lr", ["lr_scheduler.config.start_lr_scale"]),
        ("trainer.qqqqq", []),
    ],
)
def test_a_wrong_key_may_mean_one_of_a_similar_name(key: str, near: list[str]) -> None:
    assert near_keys(key) == near
