from typing import Any

from danish_asr.base.config_tree import merge, read_yaml
from danish_asr.planning.gpus import card_of
from danish_asr.planning.plan import Plan, make_plan
from tests.running import ROOT

GIB = 2**30


def planned(*trees: dict[str, Any], card: str | None = None, gpus: int = 1) -> Plan:
    name = {"model": {"name": "omniASR_CTC_300M_v2"}, "dataset": {"name": "none"}}
    return make_plan(
        merge(name, *trees), where="x", card=card_of(card) if card else None, gpus=gpus
    )


def preset(*names: str) -> dict[str, Any]:
    return merge(*(read_yaml(ROOT / "configs" / f"{name}.yaml") for name in names))
