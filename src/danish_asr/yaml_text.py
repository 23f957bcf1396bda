"""YAML as fairseq2 reads it (YAML 1.2, where ``1e-05`` is a number), to and from text."""

from __future__ import annotations

import io
from typing import Any

from ruamel.yaml import YAML


def from_yaml(text: str) -> Any:
    """Parse a YAML text into plain dicts, lists and values; raises ``YAMLError`` of ruamel.yaml."""
    return YAML(typ="safe", pure=True).load(text)


def to_yaml(tree: dict[str, Any]) -> str:
    """Return a mapping as YAML, its keys in their order and long lines not folded."""
    yaml = YAML(pure=True)
    yaml.width = 1 << 20
    text = io.StringIO()
    yaml.dump(tree, text)
    return text.getvalue()
