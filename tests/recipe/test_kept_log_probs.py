"""Log-probabilities that an evaluation keeps, and evaluations that read them."""

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from danish_asr.base.errors import EXIT_STOPPED
from danish_asr.decoding.log_probs import LogProbsFile
from danish_asr.recipe.entry import evaluate as eval_main
from danish_asr.recipe.evaluate.kept import LOG_PROBS
from danish_asr.recipe.run.run_directory import PREDICTIONS
from tests.forks import in_processes
from tests.recipe.running import after_each_batch, arguments, evaluate

TASK = "dataset.asr_task_config"
FEW_ROWS = (f"{TASK}.max_audio_len=16000", f"{TASK}.max_num_elements=32000")
KEEP = "evaluator.keep_log_probs=true"
GREEDY_DIR = Path("eval", "best", "test")
MODEL_DOES_NOT_RUN = "the model does not run"

DECODER = '''
from danish_asr.decoding.greedy import GreedyDecoder

class Twice:
    """Greedy, with each text repeated."""

    def __init__(self, tokenizer, times=2):
        self.greedy, self.settings = GreedyDecoder(tokenizer), {"times": times}

    def __call__(self, logits, lengths):
        return [" ".join([text] * self.settings["times"]) for text in self.greedy(logits, lengths)]
'''
OWN = "decoder.name=own_decoders:Twice"
OWN_DIR = GREEDY_DIR / "own_decoders.Twice"


@pytest.fixture
def run(tmp_path: Path, finished_run: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own_decoders.py").write_text(DECODER)
    monkeypatch.syspath_prepend(tmp_path)
    shutil.copytree(finished_run, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture(scope="module")
def kept_run(tmp_path_factory: pytest.TempPathFactory, dataset: Path, finished_run: Path) -> Path:
    """A run with kept log-probabilities of its test split. Not to be changed."""
    run = tmp_path_factory.mktemp("runs") / "kept"
    shutil.copytree(finished_run, run)
    assert evaluate(run, dataset, *FEW_ROWS, KEEP) == 0
    return run


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def kept(folder: Path) -> dict[str, Any]:
    """The kept log-probabilities by id, each id once."""
    file = LogProbsFile(folder / LOG_PROBS)
    found = [
        (json.loads(row)["id"], log_probs)
        for number in range(len(file))
        for row, log_probs in file.log_probs(number)
    ]
    assert len(dict(found)) == len(found)
    return dict(found)


def interrupt(at: int) -> Callable[[int], None]:
    return lambda count: signal.raise_signal(signal.SIGTERM) if count == at else None


def same_log_probs(one: Path, other: Path) -> bool:
    left, right = kept(one), kept(other)
    # Another number of processes makes other batches, and so other rounding.
    return left.keys() == right.keys() and all(
        (left[name].exp() - right[name].exp()).abs().max() < 0.002 for name in left
    )


def test_a_stopped_evaluation_keeps_the_log_probabilities_of_each_row_once(
    run: Path, dataset: Path, kept_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        after_each_batch(patch, interrupt(2))
        assert evaluate(run, dataset, *FEW_ROWS, KEEP) == EXIT_STOPPED
    part = run / GREEDY_DIR / f"{LOG_PROBS}.part"
    assert part.exists()
    assert not (run / GREEDY_DIR / LOG_PROBS).exists()
    assert evaluate(run, dataset, *FEW_ROWS, KEEP) == 0
    assert same_log_probs(run / GREEDY_DIR, kept_run / GREEDY_DIR)
    assert len(kept(run / GREEDY_DIR)) == 16
    assert not part.exists()


@pytest.mark.slow
def test_two_processes_keep_what_one_keeps_and_decode_it(
    run: Path, dataset: Path, kept_run: Path
) -> None:
    in_processes(2, eval_main, arguments(run, dataset, *FEW_ROWS, KEEP, OWN))
    assert same_log_probs(run / GREEDY_DIR, kept_run / GREEDY_DIR)
    once = {row["id"]: row["hypothesis"] for row in rows(run / GREEDY_DIR / PREDICTIONS)}
    twice = {row["id"]: row["hypothesis"] for row in rows(run / OWN_DIR / PREDICTIONS)}
    assert twice == {name: f"{text} {text}" for name, text in once.items()}


def test_another_decoder_reads_what_is_kept_and_gives_what_the_model_would(
    run: Path, dataset: Path, kept_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(run, dataset, *FEW_ROWS, OWN) == 0
    assert MODEL_DOES_NOT_RUN not in capsys.readouterr().err
    shutil.copytree(kept_run / GREEDY_DIR, run / GREEDY_DIR, dirs_exist_ok=True)
    of_model = rows(run / OWN_DIR / PREDICTIONS)
    greedy = (run / GREEDY_DIR / PREDICTIONS).read_bytes()
    assert evaluate(run, dataset, *FEW_ROWS, OWN) == 0
    assert MODEL_DOES_NOT_RUN in capsys.readouterr().err
    of_kept = rows(run / OWN_DIR / PREDICTIONS)
    # What is kept is rounded.
    confidences = [[row.pop("confidence") for row in found] for found in (of_model, of_kept)]
    assert of_kept == of_model
    assert confidences[1] == pytest.approx(confidences[0], abs=0.01)
    assert (run / GREEDY_DIR / PREDICTIONS).read_bytes() == greedy
    about = json.loads((run / OWN_DIR / "evaluation.json").read_text())
    assert about["decoder"]["settings"] == {"times": 2}
    assert about["rows_in_split"] == {"test": 16}
    assert (run / OWN_DIR / about["log_probs"]).is_file()


def test_log_probabilities_of_another_model_or_precision_are_not_read(
    run: Path, dataset: Path, kept_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(kept_run / GREEDY_DIR, run / GREEDY_DIR, dirs_exist_ok=True)
    assert evaluate(run, dataset, *FEW_ROWS, OWN, "evaluator.amp_dtype=torch.float16") == 0
    output = " ".join(capsys.readouterr().err.split())
    assert "is of another evaluation (evaluator changed)" in output
    assert MODEL_DOES_NOT_RUN not in output


def test_values_of_training_do_not_matter_to_what_is_kept(
    run: Path, dataset: Path, kept_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(kept_run / GREEDY_DIR, run / GREEDY_DIR, dirs_exist_ok=True)
    values = "dataset.train_share=0.5", "dataset.valid_max_num_elements=2x"
    assert evaluate(run, dataset, *FEW_ROWS, OWN, *values) == 0
    assert MODEL_DOES_NOT_RUN in capsys.readouterr().err
