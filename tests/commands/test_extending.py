"""The decoder of docs/howto/extend.md runs as the page says."""

import re
import shutil
from pathlib import Path

import pytest

from danish_asr.scoring.predictions import read_predictions
from tests.documented import script
from tests.running import ROOT, evaluate

PAGE = "docs/howto/extend.md"


def hypotheses(folder: Path) -> dict[str, str]:
    rows = read_predictions(folder / "predictions.jsonl")
    return dict(zip(rows["id"], rows["hypothesis"], strict=True))


def test_the_pages_decoder_scores_a_run_beside_the_greedy_one(
    tmp_path: Path,
    dataset: Path,
    finished_run: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished_run, run)
    (tmp_path / "my_decoders.py").write_text(script(PAGE, "my_decoders.py"))
    monkeypatch.syspath_prepend(tmp_path)
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    own = re.findall(r"decoder\.\S+=\S+", page.partition("danish-asr evaluate OUTDIR")[2])[:2]
    folder = run / "eval" / "best" / "test"

    assert evaluate(run, dataset) == 0
    greedy = hypotheses(folder)
    assert evaluate(run, dataset, *own) == 0
    confident = hypotheses(folder / "my_decoders.ConfidentDecoder")
    assert hypotheses(folder) == greedy
    assert confident.keys() == greedy.keys()
    assert confident != greedy
    zero = ("decoder.config.threshold=0", "evaluator.label=sure")
    assert evaluate(run, dataset, own[0], *zero) == 0
    assert hypotheses(folder / "sure" / "my_decoders.ConfidentDecoder") == greedy


@pytest.mark.parametrize("name", ["greedier", "no.such.module:Decoder", "danish_asr:Decoder", ":"])
def test_a_decoder_that_cannot_be_imported_is_refused(
    name: str, dataset: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(finished_run, dataset, f"decoder.name='{name}'") == 2
    error = capsys.readouterr().err
    assert "decoder.name must be one of beam, greedy" in error
    assert "Traceback" not in error
