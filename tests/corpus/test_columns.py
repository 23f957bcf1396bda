"""Which columns of a source are read, and by which names."""


def test_other_columns_are_ignored_and_said_to_be_also_without_a_name(tmp_path: Path) -> None:
    """pandas writes its index so; spreadsheets have empty cells."""
    write_csv(tmp_path / "train.csv", ",path,text,note,id", "7,a.wav,ja,x,", "8,a.wav,ja,x,b")
    source = open_source(str(tmp_path), options())
    assert source.ignored == ("a column without a name", "note")
    assert source.rows["id"].to_pylist() == ["train.csv:0", "b"]
    assert source.columns == {"audio": "path", "text": "text", "id": "id"}


@pytest.mark.parametrize(
    ("times", "start", "seconds"),
    [
        ({"start": 1.5, "end": 4}, 1.5, 2.5),
        ({"start_time": "1", "end_time": "3.5", "duration": 2.45}, 1.0, 2.5),
        ({"offset": 2, "start": 7, "duration": 1}, 2.0, 1.0),
        ({"offset": "", "duration": None}, 0.0, None),
        ({"start": "1:02:03,5", "end": "01:02:04.0"}, 3723.5, 0.5),
        ({"start_ms": 1500, "end_ms": "4000"}, 1.5, 2.5),
        ({"Start": "1,5", "Slut": "4"}, 1.5, 2.5),
        ({"start": 1.5, "duration": float("nan")}, 1.5, None),
        ({"duration": 1.5, "weekend": 7}, 0.0, 1.5),
    ],
)
def test_times_are_read_in_any_of_their_forms(
    tmp_path: Path, times: dict[str, Any], start: float, seconds: float | None
) -> None:
    path = write_lines(tmp_path / "train.jsonl", [{"audio": "a", "text": "ja"} | times])
    (row,) = rows_of(path)
    assert (row["start"], row["seconds"]) == (start, seconds)


def test_columns_are_chosen_where_some_file_has_them(tmp_path: Path) -> None:
    row = '{"audio_filepath": "a", "text": "a", "sætning": "b", "køn": "f"}'
    (tmp_path / "train.jsonl").write_text(row, encoding="utf-8-sig")
    (tmp_path / "dev.jsonl").write_text(GOOD)
    columns = {"gender": "køn"}
    assert [row["gender"] for row in own_splits(tmp_path, columns=columns)] == [None, "female"]
    train = tmp_path / "train.jsonl"
    assert [row["text"] for row in rows_of(train, columns={"text": "sætning"})] == ["b"]
    with pytest.raises(SourceError, match="there is no sex; found"):
        rows_of(tmp_path, columns={"gender": "sex"})
    with pytest.raises(SourceError, match="no column sentence; found audio_filepath, text"):
        rows_of(tmp_path, columns={"text": "sentence"})
