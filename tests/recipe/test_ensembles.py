"""``evaluate A --with B``: the mean of several runs' probabilities."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from danish_asr.base.files import from_yaml, to_yaml
from danish_asr.corpus.cards import build_char_tokenizer
from danish_asr.decoding.beam import symbols
from danish_asr.decoding.decoders import make_decoder
from danish_asr.decoding.log_probs import LogProbsFile
from danish_asr.recipe.entry import EVALUATE, Request, run
from danish_asr.recipe.evaluate.kept import LOG_PROBS
from danish_asr.recipe.models.assets import open_tokenizer
from danish_asr.recipe.run.run_directory import EVALUATION, PREDICTIONS
from tests.forks import in_processes
from tests.recipe.running import CONFIG, arguments, copy_until

GREEDY_DIR = Path("eval", "best", "test")
MODEL_DOES_NOT_RUN = "the model does not run"

Evaluate = Callable[..., int]


def evaluate_with(places: Sequence[str]) -> None:
    """Evaluate a run with others; the dataset, the runs, then values."""
    dataset, of, *others = [Path(place) for place in places if "=" not in place]
    values = [place for place in places if "=" in place]
    overrides = arguments(of, dataset, *values)[4:]
    run(
        EVALUATE,
        Request(output_dir=of, config_files=[CONFIG], overrides=overrides, others=others),
    )


@pytest.fixture
def evaluate(dataset: Path) -> Evaluate:
    """Evaluate a run with others; returns the exit status."""

    def call(*runs: Path, values: tuple[str, ...] = ()) -> int:
        try:
            evaluate_with([*map(str, (dataset, *runs)), *values])
        except SystemExit as end:
            return int(end.code or 0)
        return 0

    return call


@pytest.fixture
def runs(tmp_path: Path, finished_run: Path) -> list[Path]:
    """A run, and one that is the same up to an earlier step."""
    return [copy_until(step, finished_run, tmp_path / name) for name, step in (("a", 4), ("b", 2))]


def lines(folder: Path) -> list[dict[str, Any]]:
    text = (folder / PREDICTIONS).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def rows(folder: Path) -> dict[str, str]:
    return {row["id"]: row["hypothesis"] for row in lines(folder)}


def probabilities(folder: Path) -> dict[str, torch.Tensor]:
    file = LogProbsFile(folder / LOG_PROBS)
    pairs = [pair for number in range(len(file)) for pair in file.log_probs(number)]
    return {json.loads(row)["id"]: log_probs.exp() for row, log_probs in pairs}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_runs_are_averaged_into_a_directory_of_their_own(
    evaluate: Evaluate, runs: list[Path], dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = (of / GREEDY_DIR for of in runs)
    assert evaluate(*runs) == 0  # evaluates both first
    alone = contents(a)
    assert {LOG_PROBS, PREDICTIONS} <= {*alone}
    models = [probabilities(a), probabilities(b)]
    decoder = make_decoder("greedy", {}, open_tokenizer("tiny_char", [dataset / "cards"]))
    expected = {}
    for name in models[0]:
        mean = (models[0][name] + models[1][name]) / 2
        (expected[name],) = decoder(mean[None], [len(mean)])
    assert rows(a / "with_b") == expected
    assert not any(row.get("loss") for row in lines(a / "with_b"))  # that of the first model
    about = json.loads((a / "with_b" / EVALUATION).read_text())
    assert about["model"] == "checkpoint_step_4 with b"
    assert [(each["run"], each["model"]) for each in about["with"]] == [
        (str(runs[1]), "checkpoint_step_2")
    ]
    capsys.readouterr()
    assert evaluate(*runs) == 0
    assert MODEL_DOES_NOT_RUN in " ".join(capsys.readouterr().err.split())
    assert contents(a) == alone


def test_a_run_of_another_dataset_reads_that_of_the_first_and_keeps_its_own_results(
    runs: list[Path],
) -> None:
    a, b = runs
    own, config = b / GREEDY_DIR, from_yaml((a / "config.yaml").read_text())
    assert config["dataset"]["name"] == "tiny"
    config["common"]["assets"]["extra_paths"] = []
    config["dataset"]["name"] = "gone"
    (b / "config.yaml").write_text(to_yaml(config))
    own.mkdir(parents=True)
    (own / PREDICTIONS).write_text("of the dataset 'gone'")
    run(EVALUATE, Request(output_dir=a, config_files=[a / "config.yaml"], others=[b]))
    assert (own / PREDICTIONS).read_text() == "of the dataset 'gone'"
    assert rows(b / "eval/best/test@tiny").keys() == rows(a / GREEDY_DIR / "with_b").keys()


def test_another_decoder_has_its_own_directory_and_does_not_replace_another_one(
    evaluate: Evaluate, runs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    values = ("decoder.name=beam", "decoder.config={beam: 5}")
    assert evaluate(*runs, values=values) == 0
    assert rows(runs[0] / GREEDY_DIR / "with_b.beam").keys() == rows(runs[0] / GREEDY_DIR).keys()
    changed = ("decoder.name=beam", "decoder.config={beam: 6}")
    assert evaluate(*runs, values=changed) == 2
    fault = capsys.readouterr().err
    assert 'has the results of decoder.config={"beam": 5}, not {"beam": 6};' in fault
    greedy = ("decoder.name=greedy", "evaluator.label=with_b.beam")
    assert evaluate(*runs, values=greedy) == 2
    fault = capsys.readouterr().err
    assert "has the results of the decoder beam, not greedy;" in fault


def test_a_further_run_may_be_moved_but_not_be_another(
    evaluate: Evaluate, runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = runs
    assert evaluate(a, b) == 0
    (tmp_path / "moved").mkdir()
    moved = Path(shutil.move(b, tmp_path / "moved"))
    assert evaluate(a, moved) == 0
    another = Path(shutil.copytree(a, tmp_path / "another" / "b"))
    assert evaluate(a, another) == 2
    fault = f"has the results of --with {moved}, not --with {another};"
    assert fault in capsys.readouterr().err


def _without_config(run: Path) -> None:
    (run / "config.yaml").unlink()


def _with_another_letter(run: Path) -> None:
    """Give a run a tokenizer of the same size."""
    (file,) = (run / "cards").glob("*.model")
    letters = "".join(map(str, filter(None, symbols(open_tokenizer(str(file), [])))))
    (run / "own.model").write_bytes(build_char_tokenizer(letters.replace(letters[-1], "ŋ")))
    text = (run / "config.yaml").read_text()
    section = f"tokenizer:\n  name: null\n  path: {run}/own.model\n  family: char_tokenizer"
    before = "tokenizer:\n  name: tiny_char\n  path: null\n  family: null"
    assert before in text
    (run / "config.yaml").write_text(text.replace(before, section))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [(_without_config, "expected the OUTDIR of a run"), (_with_another_letter, "symbols")],
)
def test_what_cannot_be_averaged_is_refused_before_a_model_runs(
    evaluate: Evaluate,
    runs: list[Path],
    capsys: pytest.CaptureFixture[str],
    spoil: Callable[[Path], Any],
    says: str,
) -> None:
    spoil(runs[1])
    assert evaluate(*runs) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "error: " in line]
    assert f"--with {runs[1]}" in line
    assert says in line
    assert not any(of.joinpath("eval").exists() for of in runs)


def test_a_run_that_is_named_twice_is_refused(
    evaluate: Evaluate, runs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(runs[0], runs[0] / ".." / "a") == 2
    assert "named twice" in capsys.readouterr().err


def test_a_part_of_the_rows_does_not_replace_the_results_of_all(
    evaluate: Evaluate, runs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    part = ("evaluator.where=gender = 'male'", "evaluator.label=men")
    assert evaluate(*runs, values=part) == 2
    assert "evaluator.where must be null" in capsys.readouterr().err
    beam = ("decoder.name=beam", "evaluator.keep_log_probs=true")
    assert evaluate(runs[0], values=(*part, *beam)) == 2
    assert "evaluator.where must be null" in capsys.readouterr().err
    assert not (runs[0] / GREEDY_DIR).exists()


@pytest.mark.slow
def test_two_processes_are_told_to_evaluate_each_run_alone_first(
    evaluate: Evaluate, runs: list[Path], dataset: Path
) -> None:
    both = [*map(str, (dataset, *runs))]
    refused = in_processes(2, evaluate_with, both, status=2)
    assert "evaluator.keep_log_probs=true" in refused
    assert not any(of.joinpath("eval").exists() for of in runs)
    assert evaluate(runs[0], values=("evaluator.keep_log_probs=true",)) == 0
    in_processes(2, evaluate_with, both)  # of the second run alone
    assert rows(runs[0] / GREEDY_DIR / "with_b").keys() == rows(runs[1] / GREEDY_DIR).keys()
