"""Combined datasets: whole, without copied audio, and the same whatever was there before."""

import random
import re
import shutil
import signal
import subprocess
import sys
import time
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from danish_asr.base.errors import EXIT_STOPPED, DatasetError
from danish_asr.base.excluded import read_excluded
from danish_asr.corpus.combine import Combination, CombineOptions, combine
from danish_asr.corpus.command import combine_command
from danish_asr.corpus.shards import find_shards, read_inventory
from danish_asr.corpus.verify import verify
from danish_asr.recipe.data.index import DanishAsrDataset
from danish_asr.scoring.references import read_references
from tests.builders import tree
from tests.parts import build_part
from tests.spoiled import change_manifest, content, copy, faults_of, read_rows, text, write_rows

TRAIN = "version=0/corpus={0}/split=train/language=dan_Latn/{0}~part-00000-of-00001.parquet"
TSV = "language_distribution_0.tsv"


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the datasets a, b and c."""
    folder = tmp_path_factory.mktemp("parts")
    for name in ("a", "b", "c"):
        build_part(folder / name)
    return folder


def combined(parts: Path, names: Sequence[str], out: Path, **options: Any) -> Combination:
    roots = [parts / name for name in names]
    return combine(roots, out, name="all", options=CombineOptions(**options))


def inodes(root: Path) -> dict[str, tuple[int, int]]:
    paths = [shard.path for shard in find_shards(root)]
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths}


@pytest.mark.parametrize("copied", [False, True])
def test_a_combined_dataset_has_no_faults_and_links_its_shards_unless_copies_are_asked_for(
    parts: Path, tmp_path: Path, copied: bool
) -> None:
    inventory = combined(parts, "ab", tmp_path / "all", copy=copied).inventory
    assert verify(tmp_path / "all").faults == []
    assert inventory.rows == 22
    assert [part["name"] for part in inventory.parts] == ["a", "b"]
    own = {path.stat().st_ino for path in (parts / "a").rglob("*.parquet")}
    links = {ino for name, (ino, _) in inodes(tmp_path / "all").items() if name.startswith("a~")}
    assert links.isdisjoint(own) == copied
    combined(parts, "ab", tmp_path / "all", copy=True)
    assert own.isdisjoint(ino for ino, _ in inodes(tmp_path / "all").values())
    lines = (tmp_path / "all" / TSV).read_text().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["corpus", "a", "b"]


def test_the_order_of_the_parts_and_what_was_there_before_do_not_matter(
    parts: Path, tmp_path: Path
) -> None:
    combined(parts, "abc", tmp_path / "all")
    three, before = tree(tmp_path / "all"), inodes(tmp_path / "all")
    combined(parts, "ba", tmp_path / "all")
    combined(parts, "ab", tmp_path / "two")
    assert tree(tmp_path / "all") == tree(tmp_path / "two")
    combined(parts, "cab", tmp_path / "all")
    assert tree(tmp_path / "all") == three
    assert inodes(tmp_path / "all") == before


def test_a_moved_dataset_is_read_without_its_parts(parts: Path, tmp_path: Path) -> None:
    shutil.copytree(parts / "a", tmp_path / "a")
    combined(tmp_path, "a", tmp_path / "all")
    shutil.rmtree(tmp_path / "a")
    moved = (tmp_path / "all").rename(tmp_path / "moved")
    index = DanishAsrDataset(moved).read_index("train")
    assert len(index) == 6
    assert index.audio.read(5)[:4] == b"fLaC"
    assert re.fullmatch(
        "cards/all.yaml: .* a moved dataset needs its new path there", faults_of(moved)
    )
    assert verify(moved).advice == []


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (content(TRAIN.format("a"), lambda old: old[:99] + b"x" + old[100:]), "a~part.* sha256"),
        (lambda root: (root / TRAIN.format("b")).unlink(), "b~part-00000.*: is missing"),
        (content(TSV, lambda old: old.replace(b"a\t", b"b\t")), f"{TSV}: differs"),
        (content(TSV, lambda old: old.replace(b"0.0", b"7.0", 1)), f"{TSV}: differs"),
        (content("excluded.csv", lambda old: old + b"a_train_1,\n"), "excluded.csv: its sha256"),
        (lambda root: (root / "excluded.csv").unlink(), "a~part.*: 0 of its rows .*says 1"),
        (copy(TRAIN.format("a"), TRAIN.format("a").replace("a~", "x~")), "x~part.*not in manifest"),
        (text("cards/all.yaml", "name: other"), "cards/all.yaml: expected"),
        (text("ledger.parquet", "x"), "ledger.parquet: its sha256"),
    ],
)
def test_verify_finds_each_damage(
    parts: Path, tmp_path: Path, spoil: Callable[[Path], object], fault: str
) -> None:
    (tmp_path / "ids.txt").write_text("a_train_0\n")
    combined(parts, "ab", tmp_path / "all", copy=True, without=(tmp_path / "ids.txt",))
    assert faults_of(tmp_path / "all") == ""
    spoil(tmp_path / "all")
    assert re.search(fault, faults_of(tmp_path / "all")), faults_of(tmp_path / "all")


@pytest.mark.parametrize(
    ("file", "listed"),
    [
        ("ids.txt", "a_train_1\nb_test_0\nnobody\n"),
        ("ids.csv", "kind,id\nwrong text,a_train_1\ncut,b_test_0\ncut,nobody\n"),
        (
            "ids.jsonl",
            '{"id": "a_train_1"}\n{"id": "b_test_0", "reason": "cut"}\n{"id": "nobody"}\n',
        ),
    ],
)
def test_listed_rows_are_left_out_of_all_that_reads_the_dataset(
    parts: Path, tmp_path: Path, file: str, listed: str
) -> None:
    (tmp_path / file).write_text(listed)
    inventory = combined(parts, "ab", tmp_path / "all", without=(tmp_path / file,)).inventory
    assert "1 of 3 ids of --without are in no part" in inventory.notes
    dataset = DanishAsrDataset(tmp_path / "all")
    ids = {split: dataset.read_index(split).rows["id"].to_list() for split in ("train", "test")}
    assert "a_train_1" not in ids["train"]
    assert len(ids["train"]) == 11
    assert sorted(ids["test"]) == sorted(row["id"] for row in read_references(tmp_path / "all"))
    assert len(ids["test"]) == 5
    checked = verify(tmp_path / "all")
    assert checked.faults == []
    assert "2 rows of the shards are left out; excluded.csv has reasons" in checked.notes
    hours = sum(value for (split, _), value in checked.hours.items() if split == "train")
    lines = (tmp_path / "all" / TSV).read_text().splitlines()[1:]
    assert sum(float(line.split("\t")[2]) for line in lines) == pytest.approx(hours, abs=2e-6)
    shutil.copytree(tmp_path / "all", tmp_path / "again")
    nested = combine([tmp_path / "again"], tmp_path / "nested", name="nested")
    assert sum(shard.excluded_rows for shard in nested.inventory.shards) == 2
    assert not any("--without" in note for note in nested.inventory.notes)


def test_an_empty_list_and_rows_that_come_back_are_named(
    parts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ids.txt").write_text("a_train_1\na_test_0\n")
    combined(parts, "a", tmp_path / "all", without=(tmp_path / "ids.txt",))
    (tmp_path / "none.csv").write_text("id,reason\n")
    options = CombineOptions(without=(tmp_path / "none.csv",))
    combine_command([parts / "a"], out=tmp_path / "all", name="all", options=options, workers=1)
    printed = capsys.readouterr().out
    assert "none.csv: has no ids\n2 rows that were left out before come back\n" in printed


def test_of_several_lists_a_written_reason_is_kept(parts: Path, tmp_path: Path) -> None:
    for file, ids in (
        ("1.txt", "a_dev_0"),
        ("2.csv", "id,reason\na_dev_0,cut"),
        ("3.txt", "a_dev_0"),
    ):
        (tmp_path / file).write_text(f"{ids}\n")
    lists = tuple(tmp_path / file for file in ("1.txt", "2.csv", "3.txt"))
    combined(parts, "a", tmp_path / "all", without=lists)
    assert read_excluded(tmp_path / "all") == {"a_dev_0": "cut"}


def test_the_command_and_the_readme_count_the_rows_that_are_used(
    parts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ids.txt").write_text("a_train_1\na_test_0\n")
    options = CombineOptions(without=(tmp_path / "ids.txt",))
    combine_command(
        [parts / "a", parts / "b"], out=tmp_path / "all", name="all", options=options, workers=1
    )
    printed = capsys.readouterr().out
    assert re.search(r"^all: 20 rows, .*; 2 more are left out$", printed, re.MULTILINE)
    assert re.search(r"│ a +│ +9 ", printed)
    assert "1 rows of test are left out" in printed
    readme = (tmp_path / "all" / "README.md").read_text()
    assert "20 utterances" in readme
    assert re.search(r"^\| all \| 11 .* \| 4 .* \| 5 ", readme, re.MULTILINE)


@pytest.mark.parametrize("split", ["train", "dev"])
def test_a_split_keeps_a_row(parts: Path, tmp_path: Path, split: str) -> None:
    (tmp_path / "ids.txt").write_text("".join(f"a_{split}_{number}\n" for number in range(6)))
    with pytest.raises(DatasetError, match=f"leave no row of {split}; .*--split-by-speaker"):
        combined(parts, "a", tmp_path / "all", without=(tmp_path / "ids.txt",))
    assert not (tmp_path / "all").exists()


def test_leaks_between_parts_are_named_and_can_be_left_out(parts: Path, tmp_path: Path) -> None:
    rows = {"train": 4, "test": 2}
    build_part(tmp_path / "d", text="a test {letter}", rows=rows)
    shutil.copytree(parts / "a", tmp_path / "a")
    found = combined(tmp_path, "ad", tmp_path / "all").leaks
    assert {(leak.kind, leak.split, len(leak.ids)) for leak in found} == {("sentences", "train", 3)}
    assert "train and test share 3 sentences" in faults_of(tmp_path / "all")
    combined(tmp_path, "ad", tmp_path / "all", drop_shared=("sentences",))
    assert faults_of(tmp_path / "all") == ""
    assert len(DanishAsrDataset(tmp_path / "all").read_index("test")) == 5


def started(parts: Path, names: Sequence[str], out: Path) -> subprocess.Popen[bytes]:
    listen = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{listen}; from danish_asr.cli import main; main()"
    roots = [str(parts / name) for name in names]
    arguments = ["combine", *roots, "--out", str(out), "--name", "all", "--workers", "1"]
    return subprocess.Popen([sys.executable, "-c", program, *arguments], stderr=subprocess.PIPE)


def mark_of(out: Path) -> int:
    try:
        return (out / ".combine").stat().st_mtime_ns
    except FileNotFoundError:
        return 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_combination_stopped_at_any_moment_ends_with_the_same_files(
    parts: Path, tmp_path: Path, number: signal.Signals
) -> None:
    moments = random.Random(int(number))
    rows = {"train": 60, "test": 3}
    build_part(tmp_path / "many", text="{part} {split}", rows=rows, shard_rows=1)
    shutil.copytree(parts / "a", tmp_path / "a")
    roots, out = [tmp_path / "a", tmp_path / "many"], tmp_path / "all"
    combine(roots[:1], out, name="all")
    for _ in range(3):
        before = mark_of(out)
        process = started(tmp_path, ("a", "many"), out)
        while process.poll() is None and mark_of(out) in {0, before}:
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 0.03))
        process.send_signal(number)
        _, output = process.communicate(timeout=60)
        stopped = {signal.SIGINT: 130, signal.SIGTERM: EXIT_STOPPED}.get(number, -number)
        assert process.returncode in {stopped, 0}
        assert b"Traceback" not in output
        finished = (out / "manifest.json").exists()
        assert finished or (out / ".combine").exists()
    combine(roots, out, name="all")
    combine(roots, tmp_path / "undisturbed", name="all")
    assert tree(out) == tree(tmp_path / "undisturbed")


@pytest.mark.parametrize(
    ("names", "options", "reason"),
    [
        (("a", "a"), {}, "have the same name 'a'"),
        (("a", "none"), {}, "none: not a finished dataset"),
        (("a", "copy"), {}, "a and copy share 11 ids: a_dev_0, .* the audio of 11 of them"),
        (("a", "norsk"), {}, "one language.*a has dan_Latn, norsk has nob_Latn"),
        (("a", "damaged"), {}, "damaged: is damaged .*sha256.*verify"),
        (("a", "all"), {}, "all: is one of the parts"),
        (("a", "b"), {"without": ("unknown.txt",)}, "--without: none of the 1 ids .* 'nobody'"),
        (
            ("a", "b"),
            {"without": ("column.csv",)},
            "column.csv:2: expected a column id; found name",
        ),
        (("a", "b"), {"without": ("none.csv",)}, "none.csv: cannot be read"),
    ],
)
def test_what_cannot_be_combined_is_refused_and_nothing_is_written(
    parts: Path,
    tmp_path: Path,
    names: tuple[str, ...],
    options: dict[str, tuple[str, ...]],
    reason: str,
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).symlink_to(parts / name)
    shutil.copytree(parts / "a.source", tmp_path / "a.source")
    if "norsk" in names:
        build_part(tmp_path / "norsk", language="nob_Latn")
    if "copy" in names:
        shutil.copytree(parts / "a", tmp_path / "copy")
        change_manifest(tmp_path / "copy", lambda manifest: manifest.update(name="copy"))
    if "damaged" in names:
        shutil.copytree(parts / "b", tmp_path / "damaged")
        content(TRAIN.format("b").replace("b~", ""), lambda old: old[:99] + b"x" + old[100:])(
            tmp_path / "damaged"
        )
    (tmp_path / "unknown.txt").write_text("nobody\n")
    (tmp_path / "column.csv").write_text("name\na_train_0\n")
    lists = {key: tuple(tmp_path / file for file in files) for key, files in options.items()}
    with pytest.raises(DatasetError, match=reason):
        combined(tmp_path, names, tmp_path / "all", **lists)
    assert not (tmp_path / "all").exists()


def test_a_directory_that_holds_something_else_is_refused_and_kept(
    parts: Path, tmp_path: Path
) -> None:
    shutil.copytree(parts / "a", tmp_path / "a")
    with pytest.raises(DatasetError, match="holds the dataset 'a' of `danish-asr convert`"):
        combined(parts, "bc", tmp_path / "a")
    assert faults_of(tmp_path / "a").count("\n") == 0  # the card has another path
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "README.md").write_text("mine")
    with pytest.raises(DatasetError, match=r"holds README\.md, which"):
        combined(parts, "bc", tmp_path / "other")
    (tmp_path / "recordings").mkdir()
    (tmp_path / "recordings" / "radio.wav").write_text("mine")
    with pytest.raises(DatasetError, match=r"holds radio\.wav, which is not part of a dataset"):
        combined(parts, "bc", tmp_path / "recordings")
    with pytest.raises(DatasetError, match=r"a/sub: is inside .*/a; choose another --out"):
        combined(tmp_path, "a", tmp_path / "a" / "sub")
    with pytest.raises(DatasetError, match="--name a: is the name of the part"):
        combine([parts / "a", parts / "b"], tmp_path / "new", name="a")
    combined(parts, "ab", tmp_path / "all")
    with pytest.raises(DatasetError, match="holds the combined dataset 'all'"):
        combine([parts / "c"], tmp_path / "all", name="everything")
    assert read_inventory(tmp_path / "all").rows == 22


def test_shards_that_cannot_be_linked_are_copied_only_if_asked_for(
    parts: Path, tmp_path: Path
) -> None:
    other = Path("/dev/shm")  # noqa: S108
    if not other.is_dir() or other.stat().st_dev == parts.stat().st_dev:
        pytest.skip("needs a second file system in /dev/shm")
    out = other / f"danish-asr-{tmp_path.name}"
    try:
        with pytest.raises(
            DatasetError, match=r"a: its shards cannot be linked .* --copy \(0.0 GB\)"
        ):
            combined(parts, "ab", out)
        combined(parts, "ab", out, copy=True)
        assert faults_of(out) == ""
    finally:
        shutil.rmtree(out, ignore_errors=True)


@pytest.mark.parametrize(
    ("other", "advice"),
    [
        ("{part} {split} {letter}", "the transcripts of all parts follow the same conventions"),
        ("{part} {split} Århus {letter}.", "the transcripts differ; .*=coral or danish makes them"),
        ("{part} {split} 21 {letter}", "the transcripts differ; .*=coral or danish makes them"),
    ],
)
def test_conventions_of_the_texts_are_compared(
    parts: Path, tmp_path: Path, other: str, advice: str
) -> None:
    build_part(tmp_path / "other", text=other)
    result = combine([parts / "a", tmp_path / "other"], tmp_path / "all", name="all")
    assert re.search(advice, result.conventions.advice())
    assert result.conventions.shares["a"] == dict.fromkeys(("capitals", "digits", "punctuation"), 0)


def test_labels_in_several_spellings_are_named(parts: Path, tmp_path: Path) -> None:
    """A reader of one's own may give labels that `convert` would have mapped."""
    shutil.copytree(parts / "a", tmp_path / "a")
    place = TRAIN.format("a").replace("a~", "")
    rows = read_rows(tmp_path / "a" / place)
    rows[0] |= {"gender": "mand", "dialect": "Århus", "country_birth": "Åland"}
    rows[1] |= {"gender": "male", "dialect": unicodedata.normalize("NFD", "Århus")}
    write_rows(tmp_path / "a", rows, place)
    notes = "\n".join(combined(tmp_path, "a", tmp_path / "all").inventory.notes)
    assert re.search("gender: may be one .*'mand'", notes)
    assert r"'\xc5rhus', 'A\u030arhus'" in notes


def test_a_corpus_whose_training_rows_are_all_left_out_has_no_hours(
    parts: Path, tmp_path: Path
) -> None:
    (tmp_path / "ids.txt").write_text("".join(f"a_train_{number}\n" for number in range(6)))
    combined(parts, "ab", tmp_path / "all", without=(tmp_path / "ids.txt",))
    _, *lines = (tmp_path / "all" / TSV).read_text(encoding="utf-8").splitlines()
    assert [line.partition("\t")[0] for line in lines] == ["b"]
    assert faults_of(tmp_path / "all") == ""


def test_two_parts_of_one_corpus_are_one_corpus(parts: Path, tmp_path: Path) -> None:
    build_part(tmp_path / "a-1", corpus="a")
    result = combine([parts / "a", tmp_path / "a-1"], tmp_path / "all", name="all")
    assert "corpus a is in a and a-1: they are one corpus" in result.inventory.notes
    assert faults_of(tmp_path / "all") == ""
    assert len(DanishAsrDataset(tmp_path / "all").read_index("train_a")) == 12
