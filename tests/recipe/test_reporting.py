"""What a run prints: its reports and tables on the console, everything else in files."""

import json
import re
from pathlib import Path

import pytest

from danish_asr.recipe.config.config import AsrConfig
from danish_asr.recipe.run.run_directory import SCORE_TITLES
from danish_asr.recipe.train.console import RunReport, log
from tests.recipe.running import copy_until, metrics, train


def test_a_run_prints_its_reports_and_keeps_the_rest_in_files(
    tmp_path: Path, dataset: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = copy_until(2, finished_run, tmp_path / "run")
    capsys.readouterr()
    assert train(run, dataset) == 0
    printed = capsys.readouterr().err
    report = (
        r"step (\d)/4 \| epoch \d+ \| loss ([\d.]+) \(chance [\d.]+\) \| lr \S+ \| audio \S+ min"
    )
    reports = re.findall(report, printed)
    rows = [(str(r["Step"]), f"{r[SCORE_TITLES['loss']]:.3f}") for r in metrics(run, "train")]
    assert reports == rows[2:]
    assert "ETA" in printed
    table = printed.partition("Validations so far")[2].splitlines()[2:4]
    assert [line.split()[0] for line in table] == ["2", "4"], "also that of the earlier start"
    assert sum(line.endswith("best") for line in table) == 1
    written = (run / "logs" / "rank_0.log").read_text()
    for text in ("Config: {", "Wav2Vec2AsrModel(", "Train Metrics (step 3)"):
        assert text not in printed
        assert text in written
    assert set(reports) <= set(re.findall(report, written))


def test_overfitting_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    record = lambda text, *values: warnings.append(text.format(*values))  # noqa: E731
    monkeypatch.setattr(log, "warning", record)
    report = RunReport(tmp_path, AsrConfig())
    folder = tmp_path / "metrics"
    folder.mkdir()
    loss, wer = SCORE_TITLES["loss"], SCORE_TITLES["wer"]
    for step, rate in enumerate([40.0, 30.0, 31.0, 30.5, 33.0, 32.0], start=1):
        for name, row in (("train", {loss: 2 / step}), ("valid", {loss: 1.0, wer: rate})):
            with (folder / f"{name}.jsonl").open("a") as file:
                file.write(json.dumps({"Step": step, **row}) + "\n")
        report.record_metric_values("valid", {}, step)
    (warning,) = warnings
    assert "is 3 validations old (step 2)" in warning
    assert "fell from 1.000 to 0.400: the model overfits" in warning
