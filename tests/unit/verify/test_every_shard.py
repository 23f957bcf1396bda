from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from danish_asr.conversion.verify.every_shard import spread, watch
from danish_asr.conversion.verify.shard import ShardFindings


@given(st.lists(st.integers(0, 2000)), st.none() | st.integers(0, 10_000))
def test_a_sample_is_spread_evenly_over_the_shards(rows: list[int], sample: int | None) -> None:
    decoded = spread(rows, sample)
    share = sum(rows) if sample is None else min(sample, sum(rows))
    assert sum(decoded) == share
    for shard, count in zip(rows, decoded, strict=True):
        assert abs(count - shard * share / max(1, sum(rows))) <= 1


def test_a_log_gets_a_plain_line_now_and_then() -> None:
    told = io.StringIO()
    findings = [ShardFindings(path=str(number)) for number in range(3)]
    assert list(watch(findings, 3, console=Console(file=told), interval=0)) == findings
    assert told.getvalue().splitlines()[-1] == "verified 3/3 shards  ETA 0 s"
