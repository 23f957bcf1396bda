import re
from types import SimpleNamespace

import pytest

from danish_asr.base.errors import ConfigError
from danish_asr.planning.gpus import CARDS, Card, card_of, here, preset_for
from danish_asr.planning.memory import half_precision
from tests.plans import GIB, planned, preset


@pytest.mark.parametrize("name", ["t4", "12GB", "24GB", "rtx3090", "v100-32", "a100-40", "a100-80"])
def test_the_preset_of_a_card_fits_it(name: str) -> None:
    files, _ = preset_for(card_of(name))
    plan = planned(preset(*(file.stem for file in files)), card=name)
    assert plan.fits
    assert (half_precision(plan.config) == "bfloat16") is card_of(name).bfloat16


def test_a_card_that_is_too_small_for_every_preset_is_told_what_fits_it() -> None:
    files, reason = preset_for(CARDS["rtx3060ti"])
    (elements,) = re.findall(r"max_num_elements=([\d_]+)", reason)
    smaller = {"dataset": {"asr_task_config": {"max_num_elements": int(elements)}}}
    tree = preset(*(file.stem for file in files))
    assert not planned(tree, card="rtx3060ti").fits
    assert planned(tree, smaller, card="rtx3060ti").fits


@pytest.mark.parametrize(
    ("gib", "names"),
    [
        (None, ["demo"]),
        (23.0, ["standard", "lean"]),
        (9.8, ["standard", "lean"]),
        (9.9, ["standard", "lean"]),
        (23.1, ["standard"]),
        (37.9, ["standard"]),
        (38, ["standard", "a100"]),
        (69.9, ["standard", "a100"]),
        (70, ["standard", "a100-80"]),
    ],
)
def test_the_preset_is_that_of_the_memory(gib: float | None, names: list[str]) -> None:
    files, reason = preset_for(None if gib is None else Card("a card", gib))
    assert [file.stem for file in files] == names
    assert gib is None or f"{gib:.1f}" in reason
    assert ("exceeds" in reason) == (gib == 9.8)


SOLD_WITH = {
    "v100-32": (32, 125, 900),
    "t4": (16, 65, 320),
    "l4": (24, 121, 300),
    "a10": (24, 125, 600),
    "a40": (48, 150, 696),
    "l40s": (48, 362, 864),
    "a100-40": (40, 312, 1_555),
    "a100-80": (80, 312, 2_039),
    "h100": (80, 989, 3_350),
    "h200": (141, 989, 4_800),
    "b200": (192, 2_250, 8_000),
    "rtx3060-12": (12, 25, 360),
    "rtx3060ti": (8, 32, 448),
    "rtx3090": (24, 71, 936),
    "rtx4070": (12, 58, 504),
    "rtx4090": (24, 165, 1_008),
    "rtx5090": (32, 210, 1_792),
}


def test_a_card_has_the_speed_that_it_is_sold_with_and_a_little_less_memory() -> None:
    shares = {name: CARDS[name].gib / size for name, (size, *_) in SOLD_WITH.items()}
    assert shares.keys() == CARDS.keys()
    assert [[own.tflops, own.bandwidth] for own in CARDS.values()] == [
        speeds for _, *speeds in SOLD_WITH.values()
    ]
    assert not {name: share for name, share in shares.items() if not 0.9 < share < 1}


def test_a_card_is_named_or_has_a_size() -> None:
    assert card_of("RTX3090") == CARDS["rtx3090"]
    assert card_of("12.5 GB") == Card("12.5 GB", 12.5 * 0.97)
    for text in ("12", "GB", "h99", "12GBx"):
        with pytest.raises(ConfigError, match="h100.*'" + text):
            card_of(text)


@pytest.mark.parametrize(("major", "bfloat16"), [(7, False), (8, True)])
def test_the_card_of_this_machine_has_its_memory_and_type(
    monkeypatch: pytest.MonkeyPatch, major: int, bfloat16: bool
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert here() is None
    card = SimpleNamespace(name="V100", total_memory=32 * GIB, major=major)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda _: card)
    assert here() == Card("V100", 32, bfloat16=bfloat16)
