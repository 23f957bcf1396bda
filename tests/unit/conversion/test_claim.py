from __future__ import annotations

import multiprocessing
import random
import time
from pathlib import Path

import pytest

from danish_asr.base.errors import DatasetError
from danish_asr.corpus.convert import convert
from danish_asr.corpus.sources import open_source
from danish_asr.corpus.tasks import claim
from tests.builders import build_source


def claim_slowly(out: Path, key: str, results: multiprocessing.Queue[str]) -> None:
    """Claim a directory, and let time pass between finding no file and creating it."""
    is_file = Path.is_file

    def look(path: Path) -> bool:
        if not (there := is_file(path)):
            time.sleep(random.random() / 2)
        return there

    Path.is_file = look  # type: ignore[method-assign, assignment]
    try:
        claim(out, key)
    except DatasetError as error:
        results.put(str(error))
    else:
        results.put("claimed")


@pytest.mark.parametrize("theirs", ["README.md", "cards/tiny.yaml", "ledger.parquet"])
def test_files_that_no_conversion_wrote_are_not_overwritten(tmp_path: Path, theirs: str) -> None:
    (tmp_path / "cards").mkdir(parents=True)
    (tmp_path / theirs).write_text("theirs")
    with pytest.raises(DatasetError, match=f"holds .*{theirs.partition('/')[0]}.* another --out"):
        convert(open_source(str(build_source(tmp_path / "in"))), tmp_path, name="tiny")
    assert (tmp_path / theirs).read_text() == "theirs"
    assert not (tmp_path / "version=0").exists()


@pytest.mark.parametrize(("keys", "claimed"), [(["same"] * 6, 6), (list("abcdef"), 1)])
def test_of_conversions_that_begin_at_the_same_moment_those_with_one_key_go_on(
    tmp_path: Path, keys: list[str], claimed: int
) -> None:
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    racers = [
        context.Process(target=claim_slowly, args=(tmp_path / "ds", key, results)) for key in keys
    ]
    for racer in racers:
        racer.start()
    found = [results.get(timeout=60) for _ in racers]
    for racer in racers:
        racer.join()
    assert found.count("claimed") == claimed
    assert sum("unfinished conversion" in result for result in found) == 6 - claimed
