"""Where reports may be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from danish_asr.errors import ConfigError
from danish_asr.report.outputs import check_outputs


@pytest.fixture
def run(tmp_path: Path) -> Path:
    run = tmp_path / "run"
    (run / "metrics").mkdir(parents=True)
    for name in ("metrics/train.jsonl", "config.yaml", "environment.json", "evaluation.json"):
        (run / name).write_text("{}", encoding="utf-8")
    (run / "earlier.json").write_text('{\n  "settings": {}}', encoding="utf-8")
    (run / "earlier.html").touch()
    return run


def _refused(outputs: list[Path], run: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        check_outputs(outputs, inputs=[run / "evaluation.json"], folders=[run])
    return str(caught.value)


def test_new_files_and_earlier_reports_may_be_written(run: Path) -> None:
    names = ["earlier.json", "earlier.html", "new.json", "new/page.html", "../beside.json"]
    outputs = [run / name for name in names]
    check_outputs([*outputs, None], inputs=[run / "evaluation.json"], folders=[run])
    assert (run / "earlier.json").is_file()


@pytest.mark.parametrize("name", ["evaluation.json", "./metrics/../evaluation.json"])
def test_an_input_is_not_written_over(run: Path, name: str) -> None:
    assert "evaluation.json is read or written already" in _refused([run / name], run)


def test_no_two_documents_go_to_one_place(run: Path) -> None:
    assert "is read or written already" in _refused([run / "new.json", run / "./new.json"], run)


@pytest.mark.parametrize("name", ["metrics/train.jsonl", "config.yaml", "environment.json"])
def test_files_of_a_run_or_a_dataset_are_not_written_over(run: Path, name: str) -> None:
    assert f"{name} belongs to what is read" in _refused([run / name], run)
    (run / "link").symlink_to(run / name)
    assert "link belongs to what is read" in _refused([run / "link"], run)


@pytest.mark.parametrize("place", ["/dev/null", "/"])
def test_what_is_no_file_is_not_replaced(run: Path, place: str) -> None:
    assert f"{place} is no file" in _refused([Path(place)], run)


def test_all_faults_are_named_at_once(run: Path) -> None:
    told = _refused([run, run / "config.yaml", run / "evaluation.json"], run)
    assert "3 faults" in told
