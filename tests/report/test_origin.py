"""What a number is of."""

from pathlib import Path

from danish_asr import __version__
from danish_asr.base.files import sha256_of
from danish_asr.report.origin import about_of, origin, origin_columns, origin_lines
from tests.parts import build_part
from tests.score_rows import four_rows, write_evaluation, write_rows


def test_a_file_without_an_evaluation_is_of_the_dataset_in_which_it_was_looked_up(
    tmp_path: Path,
) -> None:
    files = [tmp_path / name / "predictions.jsonl" for name in "ab"]
    for file in files:
        file.parent.mkdir()
        write_rows(file, four_rows())
    write_evaluation(files[0], dataset="mine")
    build_part(tmp_path / "data", rows={"test": 3}, name="yours")
    (tmp_path / "no_inventory").mkdir()
    for root, name in (("data", "yours"), ("no_inventory", "no_inventory")):
        document = origin(files, tmp_path / root)
        assert [own["dataset"] for own in document["files"]] == ["mine", name]
    assert about_of(four_rows(), tmp_path / "data") == {"dataset": "yours"}
    assert about_of(four_rows()) == about_of(files[1]) == {}


def test_each_file_has_its_hash_and_what_its_evaluation_says(tmp_path: Path) -> None:
    files = [tmp_path / name / "predictions.jsonl" for name in "abc"]
    for file in files:
        file.parent.mkdir()
        write_rows(file, four_rows())
    own = {"model": "300m", "checkpoint": "best", "step": 4, "dataset": "mine", "where": "age > 9"}
    write_evaluation(files[0], rows_in_split={"test": 4, "dev": 1}, other=1, **own)
    write_evaluation(files[1], model="300m", dataset="yours", step=0)
    document = origin(files)
    digest = sha256_of(files[0])
    of_files = [{"file": str(file), "predictions_sha256": digest} for file in files]
    nothing = dict.fromkeys(own)
    assert document == {
        "version": __version__,
        "files": [
            of_files[0] | own | {"splits": ["dev", "test"]},
            of_files[1] | nothing | {"model": "300m", "dataset": "yours", "step": 0, "splits": []},
            of_files[2] | nothing | {"splits": []},
        ],
    }
    assert origin_columns(document) == {
        "version": __version__,
        "file": ", ".join(map(str, files)),
        "predictions_sha256": digest,
        "model": "300m",
        "checkpoint": "best",
        "dataset": "mine, yours",
    }
    first, *lines = origin_lines(document)
    assert __version__ in first
    known = [
        "model 300m, checkpoint best, step 4, dataset mine, where age > 9, ",
        "model 300m, step 0, dataset yours, ",
        "",
    ]
    assert lines == [
        f"{file}: {about}predictions_sha256 {digest}"
        for file, about in zip(files, known, strict=True)
    ]
