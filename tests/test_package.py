"""What ``from danish_asr import ...`` gives."""

import subprocess
import sys
from pathlib import Path

import danish_asr
from danish_asr import convert
from danish_asr.corpus import ConvertOptions
from tests.builders import tone

LIGHT = """
import sys, danish_asr
assert set(danish_asr.__all__) <= set(dir(danish_asr))
heavy = {'torch', 'numpy', 'pandas', 'pyarrow', 'rich'} & sys.modules.keys()
assert not heavy, heavy
for name in danish_asr.__all__:
    if name != 'load_model':
        assert getattr(danish_asr, name).__doc__
assert 'torch' not in sys.modules
"""


def test_the_package_is_light_and_only_models_need_torch() -> None:
    subprocess.run([sys.executable, "-c", LIGHT], check=True)
    assert danish_asr.load_model.__doc__


def test_a_table_is_converted_with_the_options_of_the_command(tmp_path: Path) -> None:
    lines = ["audio,words,speaker"]
    for number in range(8):
        (tmp_path / f"{number}.wav").write_bytes(tone(0.5 + number / 10))
        lines.append(f"{number}.wav,ja tak,s{number % 4}")
    table = tmp_path / "own.csv"
    table.write_text("\n".join(lines))
    inventory = convert(
        table,
        tmp_path / "own",
        ConvertOptions(
            name="own", split="train", columns={"text": "words"}, split_by_speaker="50/25/25"
        ),
    )
    assert inventory.rows == 8
    assert {shard.partition("split") for shard in inventory.shards} == {"train", "dev", "test"}
