"""Whether an evaluation would write over the results of another one, and what differs."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from danish_asr.decoding.decoders import GREEDY
from danish_asr.recipe.run.run_directory import EVALUATION, read_evaluation

if TYPE_CHECKING:
    from danish_asr.recipe.evaluate.selection import Selection


def faults_of_replacing(selection: "Selection") -> list[str]:
    """Refuse to write over the results of another decoder, part of the rows, or other runs."""
    file, config = selection.output_dir / EVALUATION, selection.config
    if not file.is_file():
        return []
    about = read_evaluation(file)
    decoder = about.get("decoder", {"name": GREEDY, "config": {}})
    differences = []
    if decoder["name"] != config.decoder.name:
        differences.append(f"the decoder {decoder['name']}, not {config.decoder.name}")
    elif decoder["config"] != config.decoder.config:
        then, now = json.dumps(decoder["config"]), json.dumps(config.decoder.config, default=str)
        differences.append(f"decoder.config={then}, not {now}")
    where = about.get("where")
    if where != config.evaluator.where:
        differences.append(f"{_rows(where)}, not {_rows(config.evaluator.where)}")
    members, others = about.get("with", []), [other.as_member() for other in selection.others]
    if len(members) != len(others) or not all(map(_is_same_run, members, others)):
        differences.append(f"{_further(members)}, not {_further(others)}")
    if not differences:
        return []
    fault = (
        f"evaluator.label: {file.parent} has the results of {' and '.join(differences)}; set "
        "evaluator.label=NAME for another directory, or delete this one"
    )
    return [fault]


def _rows(where: str | None) -> str:
    return f"the rows with {where}" if where else "all rows"


def _is_same_run(member: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two entries of ``with`` are of one run, which may have been moved."""
    moved = other["weights"] is not None and member.get("weights") == other["weights"]
    return moved or bool(member["run"] == other["run"])


def _further(members: Sequence[Mapping[str, Any]]) -> str:
    return f"--with {' '.join(member['run'] for member in members)}" if members else "no --with"
