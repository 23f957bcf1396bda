from danish_asr.base.next_step import next_step


def test_a_next_command_is_quoted_for_a_shell() -> None:
    assert next_step("verify", "my data", 3, why="find faults").startswith(
        "Next: danish-asr verify 'my data' 3 "
    )
    launcher = "danish_asr.base.cluster --nproc-per-node 4 -m danish_asr train OUTDIR"
    assert launcher in next_step("train", "OUTDIR", why="measures", processes=4)
