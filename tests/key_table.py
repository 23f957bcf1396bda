"""What ``keys.tsv`` has to hold, made of the sections' types, defaults and docstrings.

A key of this project is described by the string below its field. What a section or a key of
fairseq2 or of upstream does is written in ``keys.tsv`` alone.
"""

import ast
import enum
import inspect
import json
import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import torch

from danish_asr.base.config_tree import Tree, join
from danish_asr.decoding.beam import BeamDecoder
from danish_asr.recipe.config.config import AsrConfig
from danish_asr.recipe.config.keys import Key, table
from danish_asr.recipe.config.loading import unstructure
from danish_asr.recipe.data.settings import TRANSFORMS

_WORDS: Final = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    Path: "path",
    torch.dtype: "float32, float16 or bfloat16",
    type(None): "null",
}


def described() -> Iterator[Key]:
    """Each section, its keys, the settings of the beam search, and the transforms."""
    config, written = AsrConfig(), {row.key: row.effect for row in table()}
    defaults: Any = unstructure(config)
    for section in fields(config):
        value = getattr(config, section.name)
        about = _first_paragraph(type(value)) if _is_ours(type(value)) else ""
        yield Key(section.name, "", "", about or written.get(section.name, ""))
        yield from _keys(value, defaults[section.name], section.name, written)
        if section.name == "dataset":
            yield from _transforms()
        if section.name == "decoder":
            yield from _beam()


def _is_ours(kind: type) -> bool:
    return kind.__module__.startswith("danish_asr")


def _keys(section: Any, defaults: Tree, path: str, written: Mapping[str, str]) -> Iterator[Key]:
    hints, docs = get_type_hints(type(section)), _strings_below_fields(type(section))
    for field in fields(section):
        dotted, value = join(path, field.name), getattr(section, field.name)
        if is_dataclass(value) and fields(value):
            yield from _keys(value, defaults[field.name], dotted, written)
            continue
        effect = docs.get(field.name) or written.get(dotted, "")
        yield Key(dotted, _as_text(defaults[field.name]), _words(hints[field.name]), effect)


def _as_text(value: object) -> str:
    """Return a value as one writes it after KEY=."""
    return value if isinstance(value, str) and value else json.dumps(value, default=str)


def _words(hint: Any) -> str:
    """A type in words: ``int | None`` is "whole number or null"."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return ", ".join(sorted(arguments))  # typing has one order for all that are equal
    if origin in {Union, types.UnionType}:
        return " or ".join(dict.fromkeys(map(_words, arguments)))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return ", ".join(member.name for member in hint)
    if hint in _WORDS:
        return _WORDS[hint]
    name = (origin or hint).__name__
    kinds = {"Mapping": "mapping", "dict": "mapping", "object": "any"}
    return kinds.get(name, "list" if origin else "mapping")


def _strings_below_fields(section: type) -> dict[str, str]:
    found: dict[str, str] = {}
    for kind in filter(_is_ours, section.__mro__):
        (body,) = ast.parse(inspect.getsource(kind)).body
        lines = body.body if isinstance(body, ast.ClassDef) else []
        for field, below in pairwise(lines):
            if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
                name, text = ast.unparse(field.target), ast.literal_eval(below.value)
                found.setdefault(name, _plain(text))
    return found


def _first_paragraph(kind: type) -> str:
    return _plain((inspect.getdoc(kind) or "").split("\n\n")[0])


def _plain(text: str) -> str:
    return " ".join(text.replace("``", "`").split())


def _beam() -> Iterator[Key]:
    effects = dict(_arguments(inspect.getdoc(BeamDecoder) or ""))
    for name, parameter in inspect.signature(BeamDecoder).parameters.items():
        if name != "tokenizer":
            words = _words(get_type_hints(BeamDecoder.__init__)[name])
            dotted = f"decoder.config.{name}"
            yield Key(dotted, _as_text(parameter.default), words, f"beam: {effects[name]}")


def _arguments(doc: str) -> Iterator[tuple[str, str]]:
    for line in doc.partition("Args:\n")[2].partition("\n\n")[0].splitlines():
        name, _, effect = line.strip().partition(": ")
        yield name, _plain(effect).replace("None", "null")


def _transforms() -> Iterator[Key]:
    for name, kind in TRANSFORMS.items():
        settings = [
            field.name if field.default is MISSING else f"{field.name}: {_as_text(field.default)}"
            for field in fields(kind)  # type: ignore[arg-type] # each is a dataclass
        ]
        yield Key(f"dataset.transforms.{name}", ", ".join(settings), "", _first_paragraph(kind))
