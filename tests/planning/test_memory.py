import pytest

from tests.plans import GIB, planned, preset


@pytest.mark.parametrize(
    ("size", "files", "gib"),
    [
        ("300M", ["standard"], 15.11),
        ("300M", ["standard", "a100-80"], 31.19),
        ("300M", ["standard", "lean"], 5.18),
        ("1B", ["standard"], 35.32),
        ("1B", ["standard", "lean"], 5.18),
        ("3B", ["standard"], 70.02),
        ("3B", ["standard", "lean"], 9.35),
    ],
)
def test_the_formula_is_near_a_trace_of_the_models_own_code(
    size: str, files: list[str], gib: float
) -> None:
    """The bytes beside weights, gradients and moments, in docs/background/measurements.md."""
    plan = planned(preset(*files), {"model": {"name": f"omniASR_CTC_{size}_v2"}})
    parts = dict(plan.memory)
    for name in ("weights", "gradients", "optimizer's moments"):
        parts.pop(name)
    traced = sum(size for name, size in parts.items() if "assumed" not in name)
    assert gib * 0.99 < traced / GIB < gib * 1.11
