"""The commands on trained models: average, export, transcribe, align, serve."""

# ruff: noqa: PLC0415

from pathlib import Path
from typing import Annotated, Final, Literal

import typer
from typer import Argument, Option

from danish_asr.base.errors import EXIT_FAILED
from danish_asr.cli.app import app, say_next
from danish_asr.inference.harvest.limits import Limits

_LIMITS: Final = Limits()
_MODEL: Final = "A run, a checkpoint, a Hugging Face directory or a name."
ModelName = Annotated[str, Argument(help=_MODEL)]
Format: Final = Option("--format", help="txt, srt, vtt, json, csv, textgrid; with commas.")
Out = Annotated[Path | None, Option(help="Folder; default: beside the audio.")]
Device = Annotated[str, Option(help="auto, cpu, cuda or cuda:N.")]


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
        Literal["hf", "onnx", "sherpa-onnx"], Option(help="hf: transformers; or another runtime.")
    ],
    lm: Annotated[Path | None, Option(help="Language model for hf.")] = None,
    int8: Annotated[bool, Option("--int8", help="Also write model.int8.onnx.")] = False,
    audio: Annotated[
        list[Path] | None,
        Option(
            metavar="PATH", help="Compare on this file or folder; text in .txt files. Repeatable."
        ),
    ] = None,
    push: Annotated[
        str | None,
        Option(metavar="OWNER/NAME", help="Upload to Hugging Face, private if new."),
    ] = None,
) -> None:
    """Write a model for transformers, onnxruntime or sherpa-onnx, compared with fairseq2."""
    from danish_asr.inference.export import export_model

    export_model(model, to, dest, lm=lm, int8=int8, audio=audio or [], push=push)
    if push is None:
        typer.echo(f"Next: {dest / 'README.md'} has the lines that use it", err=True)


@app.command(
    examples=[
        "transcribe outputs/300m hello.wav",
        "transcribe outputs/300m interviews --format txt,srt --out text",
        "transcribe outputs/300m call.wav --channels split --lm lm",
        "transcribe outputs/300m meeting.mp3 --speakers auto --format vtt",
        "transcribe outputs/300m - --format srt < hello.wav",
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
    lm: Annotated[Path | None, Option(help="Decode with this language model.")] = None,
    hotwords: Annotated[Path | None, Option(help="A file with a word or phrase per line.")] = None,
    nbest: Annotated[
        int | None, Option(min=1, help="Texts of each segment in JSON, by beam search.")
    ] = None,
    decoder: Annotated[str | None, Option(help="Default: greedy, or beam if needed.")] = None,
    channels: Annotated[
        Literal["mix", "split"], Option(help="split: a speaker per channel.")
    ] = "mix",
    speakers: Annotated[
        str | None,
        Option(
            metavar="RTTM", help="Who speaks: an RTTM file or folder, or auto, for one channel."
        ),
    ] = None,
    punctuate: Annotated[
        str | None, Option(metavar="MODEL", help="Add punctuation with this model of Hugging Face.")
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

    The text of a single file is printed, unless --format or --out is given.
    """
    from danish_asr.inference.formats import parse_formats
    from danish_asr.inference.transcribe import Settings, transcribe_files

    if nbest and "json" not in parse_formats(format_ or "txt"):
        fault = "JSON alone has several texts; add --format json"
        raise typer.BadParameter(fault, param_hint="--nbest")
    settings = Settings(
        decoder,
        lm,
        hotwords,
        channels,
        batch_seconds,
        nbest,
        int8,
        speakers=speakers,
        punctuate=punctuate,
    )
    finished = transcribe_files(
        model, audio, settings, formats=format_, out=out, overwrite=overwrite, device=device
    )
    if not finished:
        raise typer.Exit(EXIT_FAILED)
    folders = [path for path in audio if path.is_dir()]
    if folders and out is None:  # `convert` reads texts beside the audio
        name = folders[0].resolve().name
        own = "--split-by-speaker", "80/10/10", "--name", name, "--out", f"data/{name}"
        say_next("convert", folders[0], *own, why="once the texts are corrected: training data")


@app.command(
    examples=[
        "align speech.flac speech.txt --model outputs/300m",
        "align hello.wav 'hej med dig' --model outputs/300m --format csv",
    ]
)
def align(
    audio: Annotated[Path, Argument(help="An audio file of any length.")],
    text: Annotated[str, Argument(help="A text file, or the text itself; a line is a segment.")],
    *,
    model: Annotated[str, Option(help=_MODEL)],
    format_: Annotated[str, Format] = "srt,textgrid",
    out: Out = None,
    device: Device = "auto",
    overwrite: Annotated[bool, Option("--overwrite", help="Replace existing files.")] = False,
) -> None:
    """Find the times of every word of a given transcript, for subtitles or Praat.

    The channels are mixed. For a call with a speaker per channel, align a file of each.
    """
    from danish_asr.inference.align import align_file

    align_file(model, audio, text, formats=format_, out=out, overwrite=overwrite, device=device)


@app.command(
    examples=[
        "harvest radio --model outputs/300m --name radio --out radio-data",
        "harvest radio --model run/a --model run/b --name r --out data",
    ]
)
def harvest(
    audio: Annotated[
        list[Path], Argument(metavar="AUDIO", help="Recordings, and folders of them.")
    ],
    *,
    model: Annotated[
        list[str],
        Option(help=f"{_MODEL} A second one labels speech without text, where both agree."),
    ],
    name: Annotated[str, Option(help="Name of the dataset and of its corpus.")],
    out: Annotated[Path, Option(help="Folder for tables and dataset.")],
    lm: Annotated[Path | None, Option(help="Language model for speech without text.")] = None,
    tier: Annotated[
        list[str] | None, Option(help="Tier of TextGrid or ELAN, or a pattern. Repeatable.")
    ] = None,
    max_cer: Annotated[
        float, Option(help="Largest CER of the model's reading against the text.")
    ] = _LIMITS.max_cer,
    max_disagreement: Annotated[
        float, Option(help="Largest CER between two models.")
    ] = _LIMITS.max_disagreement,
    min_confidence: Annotated[
        float, Option(help="Least confidence of the first model, without text.")
    ] = _LIMITS.min_confidence,
    min_seconds: Annotated[float, Option(help="Shortest utterance.")] = _LIMITS.min_seconds,
    max_seconds: Annotated[float, Option(help="Longest utterance.")] = _LIMITS.max_seconds,
    device: Device = "auto",
) -> None:
    """Make a dataset of long recordings with loose text beside them, or without.

    The text of anna.mp3 is anna.srt, .vtt, .TextGrid, .eaf, .json or .txt. Its times are not used.
    An interrupted command continues; other limits need no second run of the models.
    """
    from danish_asr.inference.harvest.command import Settings
    from danish_asr.inference.harvest.command import harvest as harvest_recordings

    limits = Limits(
        max_cer=max_cer,
        max_disagreement=max_disagreement,
        min_confidence=min_confidence,
        min_seconds=min_seconds,
        max_seconds=max_seconds,
    )
    settings = Settings(models=model, lm=lm, tiers=tier or [], device=device, limits=limits)
    if not harvest_recordings(audio, out, name, settings):
        raise typer.Exit(EXIT_FAILED)


@app.command(examples=["serve outputs/300m", "serve outputs/300m --port 0 --lm lm"])
def serve(
    model: ModelName,
    *,
    host: Annotated[str, Option(help="Address; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, Option(help="0 takes a free one.")] = 8000,
    max_mb: Annotated[int, Option(help="Size limit of a file, in megabytes.", min=1)] = 100,
    lm: Annotated[Path | None, Option(help="Language model; adds beam search.")] = None,
    device: Device = "auto",
) -> None:
    """Serve a local web page that transcribes files and recordings."""
    from danish_asr.inference.serve.server import serve as serve_page

    serve_page(model, host=host, port=port, max_mb=max_mb, lm=lm, device=device)
