"""What ``from danish_asr import ...`` gives."""

import subprocess
import sys

import danish_asr

LIGHT = """
import sys, danish_asr
heavy = {'torch', 'numpy', 'pandas', 'pyarrow', 'rich'} & sys.modules.keys()
assert not heavy, heavy
from danish_asr import compare, normalize, score
assert 'torch' not in sys.modules
"""


def test_the_package_is_light_and_scores_need_no_torch() -> None:
    subprocess.run([sys.executable, "-c", LIGHT], check=True)


def test_each_name_of_the_package_is_listed_and_documented() -> None:
    assert {*danish_asr.__all__} <= {*dir(danish_asr)}
    assert all(getattr(danish_asr, name).__doc__ for name in danish_asr.__all__)
    assert not hasattr(danish_asr, "no_such_name")
