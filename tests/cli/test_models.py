import pytest
from typer.testing import CliRunner

from danish_asr.cli.app import app


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("export m d --to hf --int8", ["--int8", "--to onnx"]),
        *(
            (f"transcribe m a.wav --text t.txt {option}", ["--text", option.split()[0]])
            for option in (
                *("--int8", "--lm lm", "--hotwords w", "--decoder beam", "--speakers r"),
                "--channels split",
            )
        ),
        ("transcribe m a.wav b.wav --text t.txt", ["--text"]),
        ("transcribe m . --text t.txt", ["--text"]),
        ("transcribe m - --text t.txt", ["--text"]),
        ("transcribe m a.wav --speakers r --channels split", ["--speakers", "--channels"]),
    ],
)
def test_options_that_exclude_each_other_are_refused_by_name(
    command: str, options: list[str]
) -> None:
    result = CliRunner().invoke(app, command.split(), env={"COLUMNS": "500"})
    assert result.exit_code == 2
    assert not [option for option in options if option not in result.output]
