"""Recordings by their names."""


@pytest.mark.parametrize("there", ["NFD", "NFC"])
@pytest.mark.parametrize("folder", ["in", "in/øre å", "ude"])
@pytest.mark.parametrize("is_absolute", [True, False])
def test_a_name_in_another_unicode_form_is_that_file(
    tmp_path: Path, there: Any, folder: str, *, is_absolute: bool
) -> None:
    audio = tmp_path / normalize(there, f"{folder}/blå bær.wav")
    audio.parent.mkdir(parents=True, exist_ok=True)
    audio.write_bytes(tone(0.2))
    named = normalize("NFC" if there == "NFD" else "NFD", f"{folder}/blå bær.wav")
    name = tmp_path / named if is_absolute else Path("..", named)
    (row,) = rows_of(write_csv(tmp_path / "in" / "train.csv", "path,text", f"{name},ja"))
    assert row["audio"].samefile(audio)


def test_a_name_is_that_of_a_recording_in_some_folder_unless_there_are_two(tmp_path: Path) -> None:
    for name in ("audios/0.wav", "a/1.wav", "b/1.wav", "b\\c.wav", "a/2.flac", "a/2.wav"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(tone(0.2))
    expected = {
        "0.wav": "audios/0.wav",
        "0": "audios/0.wav",
        "a/1": "a/1.wav",
        "2": "a/2.wav",
        "audios\\0.wav": "audios/0.wav",  # as on Windows
        "b\\c.wav": "b\\c.wav",
        "b/0.wav": "b/0.wav",  # missing: that of another folder is another recording
        "x" * 300: "x" * 300,
    }
    path = write_csv(tmp_path / "train.csv", "path,text", *(f"{name},ja" for name in expected))
    assert [row["audio"] for row in rows_of(path)] == [
        tmp_path / name for name in expected.values()
    ]
    write_csv(path, "path,text", "1,ja")
    assert str(rows_of(path)[0]["audio"]) == "several recordings of this name"
