"""A configuration as YAML and overrides have it, merged key by key."""

from pathlib import Path
from typing import Any

import pytest

from danish_asr.base.config_tree import (
    flatten,
    join,
    merge,
    nested,
    parse_override,
    read_yaml,
    short_names,
    value_of,
)
from danish_asr.base.errors import ConfigError

BELOW = {"a": {"b": 1, "c": {"d": 2}}, "e": 3}


@pytest.mark.parametrize(
    ("override", "merged"),
    [
        ("a.b=5", {"a": {"b": 5, "c": {"d": 2}}, "e": 3}),
        (" set:a.b = 5", {"a": {"b": 5, "c": {"d": 2}}, "e": 3}),
        ("a.c={f: 1e-5}", {"a": {"b": 1, "c": {"f": 1e-5}}, "e": 3}),
        ("a={}", {"a": {}, "e": 3}),
        ("e=", {**BELOW, "e": None}),
        ("e.x=1", {**BELOW, "e": {"x": 1}}),
        ("g=x=y", {**BELOW, "g": "x=y"}),
        ("del:a.b", {"a": {"c": {"d": 2}}, "e": 3}),
        ("del:a", {"e": 3}),
        ("del:a.x", BELOW),
    ],
)
def test_an_override_replaces_or_removes_a_value_or_a_section(
    override: str, merged: dict[str, Any]
) -> None:
    assert merge(BELOW, parse_override(override)) == merged


@pytest.mark.parametrize("override", ["a", "del:a=1", "a=[", "a={b: 1"])
def test_what_is_no_override_is_refused(override: str) -> None:
    with pytest.raises(ValueError, match=override.replace("[", r"\[")):
        parse_override(override)


def test_later_trees_win_and_sections_are_merged() -> None:
    assert merge(BELOW, {"a": {"c": {"x": 1}}}, {"e": 4, "a": {"b": 7}}) == {
        "a": {"b": 7, "c": {"d": 2, "x": 1}},
        "e": 4,
    }
    assert merge({"a": 1}, {"a": {"b": 2}}, {"a": 3}) == {"a": 3}


def test_a_value_has_a_dotted_key() -> None:
    leaves = {"a.b": 1, "a.c.d": 2, "e": 3}
    assert dict(flatten(BELOW)) == leaves
    assert {key: value_of(BELOW, key) for key in leaves} == leaves
    assert value_of(BELOW, "a.x.y") is value_of(BELOW, "e.x") is None
    assert merge(*(nested(key, value) for key, value in leaves.items())) == BELOW
    assert (join("", "a"), join("a", 2)) == ("a", "a.2")
    assert short_names(["a.b", "c.b", "c.d"]) == {"a.b": "a.b", "c.b": "c.b", "c.d": "d"}


@pytest.mark.parametrize("content", [b"- a", b"a: [", b"\xff", b"a: 2020-13-01"])
def test_a_file_without_a_mapping_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "own.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=str(file)):
        read_yaml(file)


def test_a_file_of_comments_is_empty_and_a_shipped_one_is_found_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.yaml").write_text("# a: 1\n")
    assert read_yaml(Path("own.yaml")) == {}
    demo = Path("configs", "demo.yaml")
    assert "model" in read_yaml(demo)
    for missing in (Path("demo.yaml"), Path("configs", "none.yaml")):
        with pytest.raises(ConfigError, match=str(missing)):
            read_yaml(missing)
    demo.parent.mkdir()
    demo.write_text("a: 1")
    assert read_yaml(demo) == {"a": 1}
