from pathlib import Path
from typing import Any

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


def test_an_export_names_the_file_that_says_how_to_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("danish_asr.inference.export.export_model", lambda *_, **__: None)
    assert "d/README.md" in CliRunner().invoke(app, ["export", "m", "d", "--to", "hf"]).output


@pytest.mark.parametrize(
    ("line", "formats", "decoder"),
    [
        ("a.wav", None, {"decoder": "greedy", "decoder_config": {}}),
        ("a.wav --text t.txt", "srt,textgrid", {"decoder": "greedy", "decoder_config": {}}),
        ("a.wav --text t.txt --format vtt", "vtt", {"decoder": "greedy", "decoder_config": {}}),
        ("a.wav --lm x", None, {"decoder": "beam", "decoder_config": {"lm": Path("x")}}),
        ("a.wav --decoder y", None, {"decoder": "y", "decoder_config": {}}),
    ],
)
def test_a_language_model_needs_the_beam_and_a_text_gives_subtitles_and_textgrid(
    called: list[Any], line: str, formats: str | None, decoder: dict[str, Any]
) -> None:
    assert CliRunner().invoke(app, ["transcribe", "m", *line.split()]).exit_code == 0
    ((_, _, request),) = called
    assert request.formats == formats
    assert request.load == {"device": "auto", "int8": False, **decoder}


@pytest.mark.parametrize(
    ("options", "following"), [("", "convert calls --split-by-speaker 80/10/10"), ("--out x", "")]
)
@pytest.mark.usefixtures("called")
def test_texts_beside_a_folder_of_audio_lead_to_a_conversion(options: str, following: str) -> None:
    Path("calls").mkdir()
    output = CliRunner().invoke(app, f"transcribe m a.wav calls {options}".split()).output
    assert (f"Next: danish-asr {following}" in output) is bool(following)


def test_a_language_model_is_of_a_model_or_of_a_profile() -> None:
    for options in ("", "--model m --profile plain"):
        result = CliRunner().invoke(app, ["lm", "build", "t.txt", "--out", "o", *options.split()])
        assert result.exit_code == 1
        assert "--profile" in str(result.exception)
