"""The commands on trained models: average, export, transcribe, harvest, serve."""

# ruff: noqa: PLC0415

from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from typer import Argument, Option

from danish_asr.base.errors import EXIT_FAILED
from danish_asr.cli.app import app, say_next

_MODEL: Final = "A run, a checkpoint, a Hugging Face directory or a name."
ModelName = Annotated[str, Argument(help=_MODEL)]
Format: Final = Option("--format", help="txt, srt, vtt, json, csv, textgrid; with commas.")
Out = Annotated[Path | None, Option(help="Folder; default: beside the audio.")]
Device = Annotated[str, Option(help="auto, cpu, cuda or cuda:N.")]
_READ_BACK: Final = ("textgrid", "json", "srt", "vtt")
"""Formats with times that `convert` reads, those with more of a transcript first."""

LanguageModel = Annotated[Path | None, Option(help="Decode with this language model.")]


@app.command(examples=["average outputs/300m --last 3"])
def average(
    run: Annotated[Path, Argument(metavar="RUN", help="OUTDIR of a run.")],
    *,
    last: Annotated[int, Option(min=2, metavar="N", help="How many of the last checkpoints.")],
) -> None:
    """Write the mean weights of a run's last kept checkpoints as the run RUN-last-N."""
    from danish_asr.recipe.train.averaging import average as write_average

    folder = write_average(run, last)
    say_next("evaluate", folder, "evaluator.split=dev", why="compare it with the run itself")


@app.command(
    examples=[
        "export outputs/300m exported --to hf",
        "export outputs/300m onnx --to onnx --int8 --audio interviews",
    ]
)
def export(
    model: ModelName,
    dest: Annotated[Path, Argument(help="New directory.")],
    *,
    to: Annotated[
        Literal["hf", "onnx"], Option(help="hf: transformers; onnx: onnxruntime and sherpa-onnx.")
    ],
    int8: Annotated[bool, Option("--int8", help="Also write model.int8.onnx.")] = False,
    audio: Annotated[
        list[Path] | None,
        Option(metavar="PATH", help="Compare on this file or folder. Repeatable."),
    ] = None,
) -> None:
    """Write a model for other programs, compared on speech with the original."""
    from danish_asr.inference.export import export_model

    if int8 and to == "hf":
        raise typer.BadParameter("needs --to onnx", param_hint="--int8")
    export_model(model, to, dest, int8=int8, audio=audio or [])
    typer.echo(f"Next: {dest / 'README.md'} has the lines that use it", err=True)


@app.command(
    examples=[
        "transcribe outputs/300m hello.wav",
        "transcribe outputs/300m interviews --format txt,srt --out text",
        "transcribe outputs/300m call.wav --channels split --lm lm",
        "transcribe outputs/300m meeting.mp3 --speakers meeting.rttm --format vtt",
        "transcribe outputs/300m - --format srt < hello.wav",
        "transcribe outputs/300m speech.flac --text speech.txt",
    ]
)
def transcribe(
    model: ModelName,
    audio: Annotated[
        list[Path],
        Argument(metavar="AUDIO", help="Audio files and folders, or - for standard input."),
    ],
    *,
    format_: Annotated[str | None, Format] = None,
    out: Out = None,
    lm: LanguageModel = None,
    hotwords: Annotated[Path | None, Option(help="A file with a word or phrase per line.")] = None,
    decoder: Annotated[str | None, Option(help="Default: greedy, or beam if needed.")] = None,
    channels: Annotated[
        Literal["mix", "split"], Option(help="split: a speaker per channel.")
    ] = "mix",
    speakers: Annotated[
        Path | None, Option(metavar="RTTM", help="Who speaks: an RTTM file or a folder of them.")
    ] = None,
    text: Annotated[
        Path | None,
        Option(metavar="FILE", help="The text of one recording, to find its times: txt, SRT, ..."),
    ] = None,
    device: Device = "auto",
    batch_seconds: Annotated[
        float | None, Option(min=1.0, help="Audio per forward pass; less needs less memory.")
    ] = None,
    int8: Annotated[
        bool, Option("--int8", help="Weights in 8 bits: faster on a CPU, less exact.")
    ] = False,
    overwrite: Annotated[
        bool, Option("--overwrite", help="Replace transcripts, even edited ones.")
    ] = False,
) -> None:
    """Transcribe audio of any length to text or subtitles; continue an interrupted command.

    The text of a single file is printed, unless --format or --out is given. With --text its words
    are not those that the model hears, but those of the file: a line of plain text is a segment.
    """
    from danish_asr.inference.transcribe import Request
    from danish_asr.inference.transcribe import transcribe as transcribe_files

    if text is not None:
        others: dict[str, object] = {"--lm": lm, "--hotwords": hotwords, "--decoder": decoder}
        others |= {"--speakers": speakers, "--batch-seconds": batch_seconds, "--int8": int8}
        others["--channels split"] = channels == "split"
        if without_effect := [option for option, value in others.items() if value]:
            fault = f"takes no {', '.join(without_effect)}: the words are those of the file"
            raise typer.BadParameter(fault, param_hint="--text")
        if len(audio) != 1 or audio[0].is_dir() or audio[0] == Path("-"):
            raise typer.BadParameter("is that of one audio file", param_hint="--text")
        format_ = format_ or "srt,textgrid"
    if speakers and channels == "split":
        fault = "finds those of one microphone; with --channels split each channel is a speaker"
        raise typer.BadParameter(fault, param_hint="--speakers")
    request = Request(
        model=model,
        load={"device": device, "int8": int8, **_decoding(decoder, lm, hotwords)},
        options={"channels": channels, "batch_seconds": batch_seconds},
        formats=format_,
        out=out,
        overwrite=overwrite,
        speakers=speakers,
        text=text,
    )
    if not transcribe_files(audio, request):
        raise typer.Exit(EXIT_FAILED)
    folders = [path for path in audio if path.is_dir()]
    if folders and out is None:  # `convert` reads texts beside the audio
        name = folders[0].resolve().name
        own = "--split-by-speaker", "80/10/10", "--name", name, "--out", f"data/{name}"
        kind = next((form for form in _READ_BACK if form in (format_ or "")), "pairs")
        why = "once the texts are corrected: training data"
        say_next("convert", f"{kind}:{folders[0]}", *own, why=why)


def _decoding(decoder: str | None, lm: Path | None, hotwords: Path | None) -> dict[str, Any]:
    """The arguments of `load_model` for what the options say of decoding."""
    given = {"lm": lm, "hotwords": hotwords}
    config = {name: path for name, path in given.items() if path is not None}
    if config and decoder == "greedy":
        option = f"--{next(iter(config))}"
        raise typer.BadParameter("needs --decoder beam, not greedy", param_hint=option)
    if lm is not None:
        from danish_asr.decoding.ngram import find_language_model

        find_language_model(lm)
    return {"decoder": decoder or ("beam" if config else "greedy"), "decoder_config": config}


@app.command(examples=["harvest interviews --model outputs/300m --out data/radio"])
def harvest(
    audio: Annotated[
        list[Path], Argument(metavar="AUDIO", help="Recordings, and folders of them.")
    ],
    *,
    model: Annotated[str, Option(help=_MODEL)],
    out: Annotated[Path, Option(help="Folder for the tables.")],
    tier: Annotated[
        list[str] | None, Option(help="Tier of TextGrid or ELAN, or a pattern. Repeatable.")
    ] = None,
    max_cer: Annotated[
        float, Option(min=0, max=1, help="Largest CER of the model's reading against the text.")
    ] = 0.3,
    min_seconds: Annotated[float, Option(min=0, help="Shortest utterance.")] = 1.0,
    max_seconds: Annotated[float, Option(min=0, help="Longest utterance.")] = 20.0,
    device: Device = "auto",
) -> None:
    """Find utterances in long recordings with loose texts beside them, as a table for convert.

    The text of anna.mp3 is anna.srt, .vtt, .TextGrid, .eaf, .json or .txt. Its times are not used.
    An interrupted command continues; other limits need no second run of the model.
    """
    from danish_asr.inference.harvest import UTTERANCES, Limits
    from danish_asr.inference.harvest import harvest as harvest_recordings

    limits = Limits(max_cer=max_cer, min_seconds=min_seconds, max_seconds=max_seconds)
    if not harvest_recordings(audio, out, model, limits, tiers=tier or (), device=device):
        raise typer.Exit(EXIT_FAILED)
    own = "--split", "train", "--name", out.resolve().name, "--out", str(out / "dataset")
    say_next("convert", f"table:{out / UTTERANCES}", *own, why="training data")


@app.command(examples=["serve outputs/300m", "serve outputs/300m --port 9000 --lm lm"])
def serve(
    model: ModelName,
    *,
    port: Annotated[int, Option(help="On this machine.", min=1, max=65535)] = 8000,
    max_mb: Annotated[int, Option(help="Size limit of a file, in megabytes.", min=1)] = 100,
    lm: LanguageModel = None,
    hotwords: Annotated[Path | None, Option(help="A file with a word or phrase per line.")] = None,
    device: Device = "auto",
) -> None:
    """Serve a local web page that transcribes files and recordings."""
    from danish_asr.inference.serve import serve as serve_page

    load = {"device": device, **_decoding(None, lm, hotwords)}
    serve_page(model, load, port=port, max_mb=max_mb)
