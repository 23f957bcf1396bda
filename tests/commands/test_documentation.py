"""The pages of the documentation: their place in the site, and the tables that they show."""

import csv
import re
import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest
import soundfile
from typer.main import get_command

from danish_asr.base.config_tree import nested
from danish_asr.base.errors import ConfigError
from danish_asr.cli.app import app
from danish_asr.corpus.sources.voices import SyntheticSpeaker
from danish_asr.recipe.config.keys import defaults
from danish_asr.recipe.config.load import load
from tests.builders import tone
from tests.documented import PAGES, ROOT, blocks, check, commands, run
from tests.running import evaluate
from tests.speech import speak


def test_the_site_lists_each_page() -> None:
    listed = set(re.findall(r"- (\S+/\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert listed == {page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")}


@pytest.mark.parametrize("file", sorted(ROOT.glob("docs/**/*.tsv")), ids=lambda file: file.name)
def test_a_table_has_equal_rows_and_a_page(file: Path) -> None:
    with file.open(encoding="utf-8", newline="") as opened:
        widths = {len(row) for row in csv.reader(opened, delimiter="\t", quoting=csv.QUOTE_NONE)}
    assert len(widths) == 1
    shown = f"<!-- generated: {file.name} -->"
    assert any(shown in page.read_text(encoding="utf-8") for page in file.parent.glob("*.md"))


TWO_STEPS: Final = (
    *("regime.num_steps=2", "regime.publish_metrics_every_n_steps=1"),
    *("regime.validate_every_n_steps=1", "regime.checkpoint_every_n_steps=1"),
)

RUN: Final = {
    "danish-asr convert recordings.csv --split-by-speaker 60/20/20 --name mine --out data/mine": (),
    "danish-asr verify data/mine --page mine.html": (),
    "danish-asr train outputs/first --dataset data/mine": TWO_STEPS,
    "danish-asr evaluate outputs/first": (),
    "danish-asr report outputs/300m": (),
    "danish-asr score outputs/300m --by dialect,age_group": (),
    "danish-asr compare base=a.jsonl new=b.jsonl --by dialect --out table.tex --out forest.pdf": (),
    "danish-asr average OUTDIR --last 2": (),
    "danish-asr transcribe demo/run interviews --format srt,textgrid --out text": (),
    "danish-asr combine data/mine --without wrong.csv --name clean --out data/clean": (),
}
"""Lines of the pages that run, in this order, each with what is added to it."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, finished_run: Path, dataset: Path) -> Path:
    """A directory with runs, recordings, configurations and predictions of the pages' names."""
    root = tmp_path_factory.mktemp("files")
    for name in ("outputs/300m", "demo/run", "OUTDIR"):
        shutil.copytree(finished_run, root / name)
    assert evaluate(root / "outputs/300m", dataset) == 0
    for name in ("a.jsonl", "b.jsonl"):
        shutil.copy(root / "outputs/300m/eval/best/test/predictions.jsonl", root / name)
    for name in ("configs", "lsf"):
        (root / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "configs" / "demo.yaml", root / "FILE")
    (root / "wrong.csv").write_text("corpus,id\n,recordings.csv:3\n", encoding="utf-8")
    speaker = SyntheticSpeaker({}, "da+f2", 170, 50, 50, 60, 0)
    (speech,) = speak(("Jeg vil gerne have rødgrød med fløde", speaker))
    (root / "interviews").mkdir()
    soundfile.write(root / "interviews" / "anna.wav", speech, 16_000)
    _write_recordings(root)
    return root


def _write_recordings(root: Path) -> None:
    words = ("en", "to", "tre", "fire", "fem", "seks", "syv", "otte", "ni", "ti")
    with (root / "recordings.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["path", "sentence", "speaker", "dialect", "age", "gender"])
        for number, word in enumerate(words):
            path = root / "recordings" / f"speaker{number}" / "0001.wav"
            path.parent.mkdir(parents=True)
            path.write_bytes(tone(0.6 + number / 20, hertz=200.0 + number))
            name = path.relative_to(root)
            table.writerow([name, f"{word} og {word}", f"speaker{number}", "Fynsk", 29, "female"])


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory, files: Path, dataset: Path) -> Path:
    """``files`` with what the commands of the pages make."""
    root = tmp_path_factory.mktemp("complete") / "files"
    shutil.copytree(files, root, symlinks=True)
    (root / "data").mkdir()
    for name in ("mine", "norsk", "all"):
        (root / "data" / name).symlink_to(dataset)
    (root / "outputs/first").symlink_to("300m")
    return root


@pytest.mark.parametrize("page", PAGES)
def test_each_command_of_a_page_is_accepted(
    page: str, complete: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(complete)
    faults = []
    for language, lines in blocks(page):
        if language in {"python", "yaml"}:
            if named := re.search(r"[\w-]+\.(py|yaml)\b", lines[0]):
                (complete / named[0]).write_text("\n".join(lines), encoding="utf-8")
            continue
        for text, words in commands(lines):
            try:
                check(words)
            except Exception as error:  # noqa: BLE001 - all are collected
                faults.append(f"{text}\n{type(error).__name__}: {error}")
    assert not faults, "\n\n".join(faults)


def test_commands_of_the_pages_run_as_written(
    files: Path, dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    monkeypatch.setenv("DANISH_ASR_ASSETS", str(dataset / "cards"))
    lines = {
        " ".join(words): words
        for page in PAGES
        for language, lines in blocks(page)
        if language not in {"python", "yaml"}
        for _, words in commands(lines)
    }
    for text, added in RUN.items():
        run([*lines[text], *added])
    results = (
        *("mine.html", "outputs/first/eval/best/test/report.html", "outputs/300m/report.html"),
        *("outputs/300m/eval/best/test/scores.json", "table.tex", "forest.pdf"),
        *("OUTDIR-last-2/config.yaml", "text/anna.srt", "data/clean/manifest.json"),
    )
    assert [name for name in results if not (files / name).is_file()] == []


def faults_of(tree: Any) -> Sequence[str]:
    try:
        load(tree, where="the table")
    except ConfigError as error:
        return error.faults
    return ()


def test_each_key_command_and_file_of_the_guides_table_exists() -> None:
    text = (ROOT / "docs" / "reference" / "guides.tsv").read_text(encoding="utf-8")
    sections = "|".join(dict.fromkeys(key.split(".")[0] for key in defaults()))
    keys = re.findall(rf"`((?:{sections})\.[\w.]+)`", text)
    assert len(keys) > 80
    for key in keys:
        assert not any("is not a key" in fault for fault in faults_of(nested(key, None))), key
    programs: Any = get_command(app)
    for line in re.findall(r"`danish-asr ([^`]+)`", text):
        name, *words = line.split()
        options = {name for option in programs.commands[name].params for name in option.opts}
        assert {word for word in words if word.startswith("--")} <= options, line
    for file in re.findall(r"`((?:configs|lsf)/[^`]+)`", text):
        assert (ROOT / file).is_file(), file
    for module in re.findall(r"`python -m ([\w.]+)`", text):
        assert find_spec(module), module


def test_each_test_of_the_table_of_traps_exists() -> None:
    text = (ROOT / "docs" / "background" / "traps.tsv").read_text(encoding="utf-8")
    named = re.findall(r"`((?:[a-z0-9_]+/)*test_\w+\.py)(?:::(\w+))?`", text)
    assert len(named) > 40
    for file, test in named:
        content = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert f"def {test}" in content, f"{file}::{test}"


def test_each_name_of_the_table_of_changes_is_a_file_or_in_a_file_of_its_row() -> None:
    kinds = {".py", ".html", ".jinja", ".md", ".toml", ".tsv", ".sh", ".env"}
    tops = ("src", "tests", "docs", "data", "lsf")
    files = [file for top in tops for file in ROOT.glob(f"{top}/**/*.*")]
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for row in re.findall(r"(?m)^\| .+ \|$", page):
        text, names = "", list[str]()
        for name in re.findall(r"`([\w./]+)`", row):
            named = [f for f in files if f.suffix in kinds and f"/{name.strip('/')}/" in f"{f}/"]
            text += "".join(file.read_text(encoding="utf-8") for file in named)
            names += [] if named else name.split(".")
        assert {*names} <= {*re.findall(r"\w+", text)}, row
