"""Claim a directory for a conversion, so that two of them never mix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from danish_asr.conversion.shard import WORK_DIR
from danish_asr.conversion.work_units import WorkPlan
from danish_asr.errors import DatasetError
from danish_asr.files import publish_first
from danish_asr.schema import MANIFEST_FILE, VERSION_DIR

_PLAN_FILE: Final = "plan.json"


def claim(out: Path, plan: WorkPlan) -> int:
    """Claim ``out`` for a plan, or check that it was begun with this very plan.

    Any number of processes may do so at the same moment; they all go by the plan that the first of
    them has left.

    Returns:
        When the conversion was begun, in nanoseconds, as files have it.

    Raises:
        DatasetError: Something else is there, or was begun there.
        DanishAsrError: ``out`` cannot be written.
    """
    # Looked at first: whoever makes shards has left a plan before, so shards without one are
    # not ours. The other way round, those of a process that begins just now would be taken so.
    shards = (out / VERSION_DIR).exists()
    path = out / WORK_DIR / _PLAN_FILE
    ours = {"key": plan.key, "rows": plan.rows, "shards": len(plan.units)}
    if not path.is_file():
        if (out / MANIFEST_FILE).is_file():
            raise DatasetError(f"{out}: was finished just now; run the same command again")
        if shards:
            raise DatasetError(
                f"{out}: holds a dataset that this program did not begin; choose another --out"
            )
        publish_first(path, json.dumps(ours))
    begun = _read(path, out)
    if begun != ours:
        raise DatasetError(
            f"{out}: a conversion of {begun.get('rows')} rows was begun here, and since then the "
            f"source or the options have changed (it has {plan.rows} rows now), or this program; "
            "restore them to continue it, or delete the directory to begin anew"
        )
    return path.stat().st_mtime_ns


def _read(path: Path, out: Path) -> dict[str, Any]:
    try:
        begun: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        int(begun["rows"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DatasetError(
            f"{path}: not the plan that a conversion leaves ({error}); what was begun cannot be "
            f"told any more, so delete {out} to begin anew"
        ) from error
    return begun
