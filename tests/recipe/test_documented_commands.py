"""Every command of the documentation exists, and runs as written where this machine can run it."""

import csv
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import chdir
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from typer.main import get_command

from danish_asr.base.errors import ConfigError
from danish_asr.cli.app import app
from danish_asr.corpus.sources.voices import SyntheticSpeaker
from danish_asr.recipe.config.keys import defaults
from danish_asr.recipe.config.load import load
from danish_asr.scoring.predictions import read_predictions
from tests.builders import tone
from tests.documented import MODULES, PAGES, ROOT, blocks, check, commands, run
from tests.recipe.running import copy_until, evaluate
from tests.speech import speak

ONLY_CHECKED = {
    "danish-asr sweep": "minutes; recipe/test_sweep.py",
    "outputs/1b": "a second run of the reader",
    "outputs/fold-": "minutes; unit/report/test_score.py",
    "danish-asr doctor": "what it finds depends on the machine; unit/test_doctor.py",
    "danish-asr fetch": "network; recipe/test_fetch.py",
    "danish-asr audit": "the tests' model is too weak to judge; unit/report/test_audit.py",
    "outputs/even": "as above",
    "outputs/odd": "as above",
    "audit.csv": "as above",
    "wrong.csv": "of the reader; unit/conversion/test_combine.py",
    " serve ": "runs until Ctrl-C; unit/serve/test_serve.py",
    "hf:": "network",
    "--speakers": "turns of a diarizer; unit/transcription/test_speakers.py",
    "omniASR_": "network",
    "configs/standard.yaml": "hours on a GPU",
    "ctc-finetune-danish.yaml": "hours on a GPU; recipe/test_guide.py",
    "FILE": "a synopsis",
    "convert interviews": "the tests' model writes no text to convert; unit/test_own_data.py",
    "data/interviews": "as above",
    "data/own": "as above",
    "outputs/before": "network: the model that a training on a GPU starts from",
    "outputs/forget": "minutes; recipe/test_data_options.py",
    "data/radio/dataset": "the tests' model writes no text; unit/transcription/test_harvest.py",
    "lm tune": "half a minute; recipe/test_tuning.py",
    "data/both": "the recordings above; unit/test_own_data.py",
    "/work3/": "a directory of DTU's cluster",
    "train.jsonl": "a corpus of the reader; unit/test_convert.py",
    "FOLDER": "a corpus of the reader; unit/sources",
    "SOURCE": "a corpus of the reader; unit/conversion/test_command.py",
    "verify DIR": "a corpus of the reader; unit/test_verify.py",
    "verify data/parquet": "splits of the tests' dataset share sentences; unit/test_verify.py",
    "python -c": "upstream's pipeline; recipe/test_after_run.py",
}
"""What a command contains that is not run, and why."""

TWO_STEPS = [f"regime.{key}_steps=1" for key in ("validate_every_n", "checkpoint_every_n")]
TWO_STEPS += ["regime.num_steps=2", "regime.publish_metrics_every_n_steps=1"]
"""Over the preset that a training on a dataset takes."""

TEXTS = ("en", "to", "tre", "fire", "fem", "seks", "syv", "otte", "ni", "ti", "elleve", "tolv")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, finished_run: Path, dataset: Path) -> Path:
    """A directory with the files that the documentation names."""
    root = tmp_path_factory.mktemp("files")
    shutil.copytree(finished_run, root / "outputs" / "300m")
    assert evaluate(root / "outputs" / "300m", dataset) == 0
    with chdir(root):
        _write_predictions(Path("outputs/300m/eval/best/test/predictions.jsonl"))
        _write_recordings()
        Path("short.txt").write_text("jeg vil gerne\nhave rødgrød\n", encoding="utf-8")
        Path("names.txt").write_text("Anna\n", encoding="utf-8")
        Path("wrong.txt").write_text("recordings.csv:3\n", encoding="utf-8")
        links = dict.fromkeys(
            ("outputs/even", "outputs/odd", "demo/run", "OUTDIR", "RUN_DIR"),
            "outputs/300m",
        )
        shutil.copy(ROOT / "configs" / "demo.yaml", "FILE")
        links |= {"data/parquet": str(dataset), "fits.yaml": "FILE"}
        links |= {name: str(ROOT / name) for name in ("configs", "lsf")}
        for name, target in links.items():
            Path(name).parent.mkdir(exist_ok=True)
            Path(name).symlink_to(Path(*[".."] * name.count("/"), target))
        convert = "danish-asr convert recordings.csv --corpus demo --name demo --out demo/dataset"
        run([*convert.split(), "--split", "train", "--split-by-speaker", "60/20/20"])
        shutil.copytree("outputs/300m", "outputs/v2")
        for name, step in (("a", 4), ("b", 2)):
            copy_until(step, finished_run, root / "outputs" / name)
        build = "danish-asr lm build --dataset demo/dataset --profile coral --out lm"
        run(build.split())
    return root


def _write_predictions(predictions: Path) -> None:
    for name in ("predictions", "a/predictions", "b/predictions", "a1", "a2", "b1", "b2"):
        Path(name).parent.mkdir(exist_ok=True)
        shutil.copy(predictions, f"{name}.jsonl")
    rows = list(read_predictions(predictions))
    tables: dict[str, list[tuple[str, ...]]] = {
        "whisper.csv": [("id", "hypothesis"), *((row.id, row.hypothesis) for row in rows)],
        "clips.csv": [
            ("clip", "sentence", "whisper"),
            *((row.id, row.reference, row.hypothesis) for row in rows),
        ],
    }
    for name, lines in tables.items():
        with Path(name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(lines)
    for name, column in (("whisper.trn", "hypothesis"), ("references.trn", "reference")):
        texts = [f"{getattr(row, column)} (s-{row.id})\n" for row in rows]
        Path(name).write_text("".join(texts), encoding="utf-8")


def _write_recordings() -> None:
    speaker = SyntheticSpeaker({}, "da+f2", 170, 50, 50, 60, 0)
    (speech,) = speak(("Jeg vil gerne have rødgrød med fløde", speaker))
    speech = 0.5 * speech / np.abs(speech).max()
    names = ("interviews/anna.wav", "interviews/bo.wav", "rows/1.wav", "rows/2.wav", "hello.wav")
    for name in (*names, "short.flac", "speech.flac", "meeting.mp3"):
        Path(name).parent.mkdir(exist_ok=True)
        soundfile.write(name, speech, 16_000)
    soundfile.write("call.wav", np.stack([speech, speech[::-1]], axis=1), 16_000)
    Path("turns").mkdir()
    turn = "SPEAKER meeting 1 0 9 <NA> <NA> anna <NA> <NA>\n"
    Path("turns/meeting.rttm").write_text(turn, encoding="utf-8")
    with Path("recordings.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["path", "sentence", "speaker", "dialect", "age", "gender"])
        for number, text in enumerate(TEXTS):
            path = Path(f"recordings/speaker{number:02}/0001.wav")
            path.parent.mkdir(parents=True)
            path.write_bytes(tone(0.6 + number / 20, hertz=200.0 + number))
            path.with_suffix(".txt").write_text(f"{text} og {text}")
            table.writerow([path, f"{text} og {text}", path.parent.name, "Fynsk", 29, "female"])


@pytest.fixture
def here(tmp_path: Path, files: Path, dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a copy of ``files`` the current directory."""
    shutil.copytree(files, tmp_path / "here", symlinks=True)
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.syspath_prepend(tmp_path / "here")
    monkeypatch.setenv("DANISH_ASR_ASSETS", str(dataset / "cards"))


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("page", PAGES)
def test_each_command_of_a_page_exists_and_runs_as_written(
    page: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    faults = []
    for language, lines in blocks(page):
        if lines[0].startswith("from danish_asr import"):
            exec("\n".join(lines), {})  # noqa: S102
        elif language in {"python", "yaml"}:
            if named := re.search(r"[\w-]+\.(py|yaml)\b", lines[0]):
                Path(named[0]).write_text("\n".join(lines), encoding="utf-8")
            continue
        for text, words in commands(lines):
            try:
                _follow(text, words, monkeypatch)
            except (AssertionError, Exception) as error:  # noqa: BLE001 - all are collected
                faults.append(f"{text}\n{type(error).__name__}: {error}\n{capfd.readouterr().err}")
            capfd.readouterr()
    assert not faults, "\n\n".join(faults)


def _follow(text: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    check(words)
    if any(part in shlex.join(words) for part in ONLY_CHECKED):
        return
    if words[0] == "export":
        monkeypatch.setenv(*words[1].split("=", 1))
    elif words[:2] == ["danish-asr", "train"] and "--dataset" in words:
        run([*words, *TWO_STEPS])
    elif words[0] == "danish-asr" or (words[:2] == ["python", "-m"] and words[2] in MODULES):
        run(words)
    elif words[0] in {"mkdir", "ln", "cp"}:
        subprocess.run(words, check=True)
    elif words[0] == "python" and Path(words[1]).is_file():
        command = text.replace("python", sys.executable)
        subprocess.run(["bash", "-c", command], check=True)


def faults_of(tree: dict[str, Any]) -> Sequence[str]:
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
        tree: Any = None
        for part in reversed(key.split(".")):
            tree = {part: tree}
        assert not any("is not a key" in fault for fault in faults_of(tree)), key
    programs: Any = get_command(app)
    for line in re.findall(r"`danish-asr ([^`]+)`", text):
        name, *words = line.split()
        options = {name for option in programs.commands[name].params for name in option.opts}
        assert {word for word in words if word.startswith("--")} <= options, line
    for file in re.findall(r"`((?:configs|lsf)/[^`]+)`", text):
        assert (ROOT / file).is_file(), file
    for module in re.findall(r"`python -m ([\w.]+)`", text):
        assert find_spec(module), module
