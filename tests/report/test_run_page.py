import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from danish_asr.base.errors import ConfigError, RunError
from danish_asr.recipe.run.advice import LOSS
from danish_asr.recipe.run.run_directory import FAILED
from danish_asr.report.components import Panel, curves_chart
from danish_asr.report.run_page import panels, report_run
from danish_asr.report.runs import Run
from tests.browser import WIDTH, in_browser, needs_browser
from tests.hostile import HOSTILE
from tests.report_runs import WER, _evaluation, _lines, _report, make_run


@needs_browser
def test_the_page_of_a_run_has_everything_and_fits_a_phone(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {}, [90, 80, 50, 49])
    _report(run)
    _evaluation(run, "test", f"ja {HOSTILE}")
    _evaluation(run, "dev", "ja", rows_in_split=None)  # which was a KeyError
    (run / "eval" / "best" / "test" / "report.html").touch()
    report_run(run, Console(file=io.StringIO()))
    text = (run / "report.html").read_text(encoding="utf-8")
    assert "Training run: finished." in text
    assert 'href="eval/best/test/report.html"' in text
    assert "split unknown" in text
    assert "best, step 4" in text
    assert f"tensorboard --logdir {run}/tb" in text
    assert "<script>alert" not in text
    charts = dict(re.findall(r"<title>(.*?)</title><desc>(.*?)</desc>", text))
    assert charts["Audio per step"].startswith("audio: 600 at step 1")
    assert charts["Time per step"].startswith("all: 900 at step 1")
    assert "chance: 9 at step 1" in charts["Loss"]
    assert "reserved: 2 at step 1" in charts["GPU memory, peak"]
    assert charts["WER of the worst dialects"].startswith("&lt;script")
    assert in_browser(run / "report.html", WIDTH, width=390) <= 390


def test_a_run_that_has_just_begun_has_a_page_and_another_directory_is_refused(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path / "run", {}, [])
    report_run(run, Console(file=io.StringIO()))
    assert "the first one comes at step 10" in (run / "report.html").read_text(encoding="utf-8")
    with pytest.raises(RunError, match=r"no config\.yaml and no environment\.json"):
        report_run(tmp_path)
    (tmp_path / FAILED).write_text("lr must be above 0")
    with pytest.raises(RunError, match="refused before it began: lr must be above 0"):
        report_run(tmp_path)


def test_curves_are_sorted_by_step_and_the_last_whole_line_of_a_step_counts(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {}, [])
    losses = [(10, 5.0), (5, 9.0), (10, 4.0), (7, float("nan")), (8, None)]
    file = run / "metrics" / "train.jsonl"
    _lines(file, [{"Step": step, LOSS: value} for step, value in losses])
    with file.open("a", encoding="utf-8") as stream:
        stream.write('{"Step": 12')
    _lines(run / "metrics" / "valid.jsonl", [{"Step": 1, WER: 0.0}])
    loss, rates, *_ = panels(Run(run))
    assert {name: dict(curve) for name, curve in loss.curves.items()} == {
        "training": {5: 9.0, 10: 4.0}
    }
    assert {name: dict(curve) for name, curve in rates.curves.items()} == {"WER": {1: 0.0}}


@pytest.mark.parametrize(("points", "smoothed"), [(60, 1), (9, 0)])
def test_a_long_noisy_curve_is_smoothed(points: int, smoothed: int) -> None:
    curve = pd.Series(1.0 + np.arange(points) % 2, index=np.arange(points))
    chart = curves_chart(Panel("Loss", "", {"training": curve}, noisy=True))
    assert chart.count("training, smoothed") == smoothed


def test_the_page_of_a_run_replaces_no_file_of_the_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {}, [90, 80, 50, 49])
    before = (run / "config.yaml").read_bytes()
    (run / "report.html").symlink_to("config.yaml")
    with pytest.raises(ConfigError, match=r"report\.html"):
        report_run(run, Console(file=io.StringIO()))
    assert (run / "config.yaml").read_bytes() == before
