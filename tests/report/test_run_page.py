import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from danish_asr.base.errors import ConfigError, RunError
from danish_asr.recipe.run.advice import CHANCE, LOSS
from danish_asr.recipe.run.run import FAILED
from danish_asr.report.run_page import dialects_of, panels, report_run
from danish_asr.report.runs import ListedRun
from tests.browser import faults_of, needs_browser
from tests.hostile import HOSTILE
from tests.report_runs import WER, _evaluation, _lines, _report, make_run


@needs_browser
def test_the_page_of_a_run_names_its_evaluations_and_fits_a_phone(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {}, [90, 80, 50, 49])
    _report(run)
    _evaluation(run, "test", f"ja {HOSTILE}")
    _evaluation(run, "dev", "ja", rows_in_split=None)  # which was a KeyError
    _evaluation(run, "dev/beam", "ja", decoder={"name": "beam", "config": {}})
    (run / "eval" / "best" / "test" / "report.html").touch()
    _evaluation(run, "dev/old", "ja", checkpoint=None, step=None, model=None)
    report_run(run, Console(file=io.StringIO()))
    text = (run / "report.html").read_text(encoding="utf-8")
    assert text.index("<h2>Test WER</h2>") < text.index("<h2>Best validation</h2>")
    assert text.count('href="eval/best/') == 1
    assert all(part in text for part in ('href="eval/best/test/report.html"', "split unknown"))
    assert text.count("(beam)") == 1
    assert "(greedy)" not in text, "the evaluations do not say how they were decoded"
    assert f"tensorboard --logdir {run}/tb" in text
    assert "<script>alert" not in text
    assert faults_of(run / "report.html") == []


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


def test_the_page_has_the_numbers_of_the_reports_and_of_the_worst_dialects(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {}, [])
    report = {LOSS: 1.5, CHANCE: 9.25, "Learning Rate": [1e-3, 2e-3], "Gradient Norm": 2.0}
    report |= {"Lapse Time": 2_000.0, "Data Time": 500.0, "Number of Source Elements": 5.76e8}
    last = report | {LOSS: 0.5, "Peak Reserved Device Memory": 3 * 2**30}
    rows = [report, last, last | {"Peak Reserved Device Memory": 2**30}]
    steps = [{"Step": step, **row} for step, row in zip((5, 15, 35), rows, strict=True)]
    _lines(run / "metrics" / "train.jsonl", steps)
    names = [f"wer/dialect/{name}" for name in "abcde"]
    valid = [{"Step": 5, WER: 50.0, **dict(zip(names, (9.0, 8.0, 7.0, 6.0, 5.0), strict=True))}]
    valid += [{"Step": 15, WER: 40.0, "cer/dialect/e": 1.5, **dict.fromkeys(names[1:], 4.0)}]
    valid += [{"Step": 35, WER: 45.0, **dict(zip(names, (1.0, 2.0, 3.0, 4.0, 6.0), strict=True))}]
    valid[1][names[4]] = 4.5
    _lines(run / "metrics" / "valid.jsonl", valid)
    report_run(run, Console(file=io.StringIO()))
    text = (run / "report.html").read_text(encoding="utf-8")
    tiles = re.findall(r'<h2>([^<]*)</h2><p class="big">([^<]*)', text)
    assert {
        ("Training loss", "0.500"),
        ("Seconds per step", "100.00"),
        ("Audio in an hour", "18"),
        ("Time in training", "1:40:00"),
        ("GPU memory", "3.0"),
    } <= {*tiles}
    assert "chance 9.2" in text
    loss, *others = panels(ListedRun(run))
    assert (loss.logarithmic, loss.noisy, others[0].logarithmic) == (True, True, False)
    charts = {panel.title: panel.curves for panel in panels(ListedRun(run))}
    assert dict(charts["Audio per step"]["audio"]) == {5: 120, 15: 60, 35: 30}
    assert dict(charts["Time per step"]["waiting for data"]) == {5: 100, 15: 50, 35: 25}
    assert dict(charts["Learning rate"]["learning rate"]) == dict.fromkeys((5, 15, 35), 2e-3)
    assert dict(charts["GPU memory, peak"]["reserved"]) == {15: 3, 35: 1}
    # By the best validation, at step 15, in which "a" has no rows.
    assert [*charts["WER of the worst dialects"]] == ["e", "b", "c", "d"]
    (worst, *_, absent) = dialects_of(ListedRun(run))
    assert worst == ("e", 5.0, 4.5, 6.0, 1.5)
    assert (absent.name, absent.first, absent.last) == ("a", 9.0, 1.0)
    _lines(run / "metrics" / "train.jsonl", steps[:1])
    report_run(run, Console(file=io.StringIO()))
    assert "GPU memory" not in (run / "report.html").read_text(encoding="utf-8")


def test_curves_are_sorted_by_step_and_the_last_whole_line_of_a_step_counts(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {}, [])
    losses = [(10, 5.0), (5, 9.0), (10, 4.0), (7, float("nan")), (8, None)]
    file = run / "metrics" / "train.jsonl"
    _lines(file, [{"Step": step, LOSS: value} for step, value in losses])
    with file.open("a", encoding="utf-8") as stream:
        stream.write('{"Step": 12')
    _lines(run / "metrics" / "valid.jsonl", [{"Step": 1, WER: 0.0}])
    loss, rates, *_ = panels(ListedRun(run))
    assert {name: dict(curve) for name, curve in loss.curves.items()} == {
        "training": {5: 9.0, 10: 4.0}
    }
    assert {name: dict(curve) for name, curve in rates.curves.items()} == {"WER": {1: 0.0}}


def test_the_page_of_a_run_replaces_no_file_of_the_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {}, [90, 80, 50, 49])
    before = (run / "config.yaml").read_bytes()
    (run / "report.html").symlink_to("config.yaml")
    with pytest.raises(ConfigError, match=r"report\.html"):
        report_run(run, Console(file=io.StringIO()))
    assert (run / "config.yaml").read_bytes() == before
