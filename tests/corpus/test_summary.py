"""What a conversion says of what it read."""


def test_a_conversion_prints_what_it_read_from_which_column(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(tone(0.5, rate=8_000))
    table = tmp_path / "train.csv"
    table.write_text("path,text,Age,note\na.wav,ja,niogtyve,x\na.wav,ja,29,y\n")
    output = invoke("convert", table, "--out", tmp_path / "ds", "--name", "x")
    assert "age, read from Age: 1 rows, 1 distinct" in output
    assert "text, read from text: 2 rows, 1 distinct; most frequent: ja (2)" in output
    assert "not read: note (--column" in output
    assert "sample rate of the source: 8,000 Hz (2 rows)" in output
    assert pq.read_table(tmp_path / "ds/version=0")["age"].to_pylist() == [None, 29]


def test_a_conversion_prints_what_written_dialects_were_read_as(tmp_path: Path) -> None:
    births = ["DK", "Danmark", "Danmark", "se", "?", "mars"]
    rows = [coral_row(number, country_birth=birth) for number, birth in enumerate(births)]
    rows[5] |= {"validated": "rejected", "dialect": "månesk"}
    write_parquet(tmp_path / "in" / "train.parquet", rows)
    options = ("--corpus", "radio", "--out", tmp_path / "ds", "--name", "x", "--max-drop", 0.2)
    output = invoke("convert", tmp_path / "in", *options)
    assert f"dialect: {rows[3]['dialect']} is read as Non-native (1 rows)" in output
    assert "månesk is read" not in output
    dialects = pq.read_table(tmp_path / "ds" / "version=0")["dialect"].to_pylist()
    assert [name == "Non-native" for name in dialects] == [False, False, False, True, False]
