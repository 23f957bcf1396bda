from pathlib import Path

from typer.testing import CliRunner

from danish_asr.cli.app import app
from tests.report_runs import make_run


def test_an_option_for_a_list_of_runs_is_refused_for_one_run(tmp_path: Path) -> None:
    run, table = make_run(tmp_path / "run", {}, []), tmp_path / "runs.csv"
    result = CliRunner().invoke(app, ["report", str(run), "--csv", str(table)])
    assert (result.exit_code, "--csv" in result.stderr) == (2, True)
    assert not (run / "report.html").exists()
    assert CliRunner().invoke(app, ["report", str(tmp_path), "--csv", str(table)]).exit_code == 0
    assert table.is_file()
