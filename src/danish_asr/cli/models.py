"""The commands on trained models and on language models for them."""

# ruff: noqa: PLC0415

from pathlib import Path
from typing import Annotated, Final, Literal

import typer
from typer import Argument, Option

from danish_asr.base.errors import EXIT_FAILED, ConfigError
from danish_asr.cli.app import App, Workers, app, profile_option, say_next

lm_commands = App("lm", "N-gram language models for the decoder 'beam'.")
app.add_typer(lm_commands)

_MODEL: Final = "A run, a checkpoint, a Hugging Face directory or a name."
ModelName = Annotated[str, Argument(help=_MODEL)]
Device = Annotated[str, Option(help="auto, cpu, cuda or cuda:N.")]
LanguageModel = Annotated[Path | None, Option(help="Decode with this language model.")]
Hotwords = Annotated[Path | None, Option(help="A file with a word or phrase per line.")]


@app.command(examples=["average outputs/300m --last 3"])
def average(
    run: Annotated[Path, Argument(metavar="RUN", help="OUTDIR of a run.")],
    *,
    last: Annotated[int, Option(min=2, metavar="N", help="How many of the last checkpoints.")],
) -> None:
    """Write the mean weights of a run's last kept checkpoints as the run RUN-last-N."""
    from danish_asr.recipe.train.average import average as write_average

    folder, steps = write_average(run, last)
    typer.echo(f"wrote {folder}, the mean of the steps {', '.join(map(str, steps))}", err=True)
    say_next("evaluate", folder, "evaluator.split=dev", why="compare it with the run itself")


@app.command(examples=["export outputs/300m onnx --to onnx --int8 --audio interviews"])
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
        "transcribe outputs/300m interviews --format txt,srt --out text",
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
    format_: Annotated[
        str | None, Option("--format", help="txt, srt, vtt, json, csv, textgrid; with commas.")
    ] = None,
    out: Annotated[Path | None, Option(help="Folder; default: beside the audio.")] = None,
    lm: LanguageModel = None,
    hotwords: Hotwords = None,
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
        float | None, Option(min=1.0, help="Seconds per pass of a GPU; less needs less memory.")
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
        choices = {"--lm": lm, "--hotwords": hotwords, "--decoder": decoder, "--int8": int8}
        choices |= {"--speakers": speakers, "--channels": channels == "split"}
        if chosen := ", ".join(option for option, value in choices.items() if value):
            raise typer.BadParameter(f"has the words: no {chosen} with it", param_hint="--text")
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
        why = "once the texts are corrected: training data"
        say_next("convert", folders[0], *own, why=why)


def _decoding(decoder: str | None, lm: Path | None, hotwords: Path | None) -> dict[str, object]:
    """The arguments of `load_model` for what the options say of decoding."""
    options = {"lm": lm, "hotwords": hotwords}
    config = {name: path for name, path in options.items() if path is not None}
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


@app.command(examples=["serve outputs/300m --lm lm"])
def serve(
    model: ModelName,
    *,
    port: Annotated[int, Option(help="On this machine.", min=1, max=65535)] = 8000,
    max_mb: Annotated[int, Option(help="Size limit of a file, in megabytes.", min=1)] = 100,
    lm: LanguageModel = None,
    hotwords: Hotwords = None,
    device: Device = "auto",
    allow_host: Annotated[
        list[str] | None,
        Option(metavar="NAME", help="Another name of this machine in requests. Repeatable."),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        Option(metavar="URL", help="Another page that may send audio. Repeatable."),
    ] = None,
) -> None:
    """Serve a local web page that transcribes files and recordings."""
    from danish_asr.inference.serve import serve as serve_page

    load = {"device": device, **_decoding(None, lm, hotwords)}
    serve_page(
        model,
        load,
        port=port,
        max_mb=max_mb,
        allow_host=allow_host or (),
        allow_origin=allow_origin or (),
    )


@lm_commands.command(examples=["lm build --out lm --model outputs/300m --dataset data/mine"])
def build(
    texts: Annotated[
        list[Path] | None,
        Argument(metavar="FILE", help="Text, JSON lines, CSV, TSV or Parquet."),
    ] = None,
    *,
    out: Annotated[Path, Option(help="The new directory.")],
    order: Annotated[int, Option(min=2, max=6, help="Words in the longest n-grams.")] = 3,
    dataset: Annotated[
        Path | None, Option(help="Its training text is added, its dev and test are left out.")
    ] = None,
    model: Annotated[
        str | None, Option(help="The run or model to decode with; gives the text profile.")
    ] = None,
    profile: Annotated[str | None, profile_option("Text profile, without --model.")] = None,
) -> None:
    """Build a language model from text files and the training transcripts of a dataset."""
    from danish_asr.decoding.ngram_build import build_language_model

    if (model is None) == (profile is None):
        fault = "give either --model or --profile: its words must equal the model's"
        raise ConfigError([fault], where="the command line")
    if model is not None:
        from danish_asr.recipe.models.cards import open_model
        from danish_asr.text.profiles import profile_in

        remedy = "name it yourself: --profile in place of --model"
        profile = profile_in(f"the card of {model}", open_model(model).text_profile, remedy)
    build_language_model(texts or [], out, order=order, dataset=dataset, profile=str(profile))
    say_next("lm", "tune", model or "RUN", "--lm", out, why="choose its weights on dev")


@lm_commands.command(examples=["lm tune outputs/300m --lm lm"])
def tune(
    directory: Annotated[
        Path, Argument(metavar="RUN", help="OUTDIR, or OUTDIR/checkpoints/step_<n>.")
    ],
    *,
    language_model: Annotated[Path, Option("--lm", help="Directory of the language model.")],
    rows: Annotated[int, Option(min=1, help="Utterances to decode, at even distances.")] = 1_000,
    profile: Annotated[str, profile_option("Text profile of the error rates.")] = "coral",
    workers: Workers = None,
    dataset: Annotated[
        Path | None, Option(metavar="DIR", help="Root of a built dataset; default: the run's.")
    ] = None,
) -> None:
    """Choose alpha and beta on dev for later decodings; the model runs once."""
    from danish_asr.inference.tune import tune_language_model

    tune_language_model(
        directory, language_model, profile=profile, rows=rows, workers=workers, dataset=dataset
    )
    say_next("transcribe", directory, "AUDIO", "--lm", language_model, why="decode with it")
