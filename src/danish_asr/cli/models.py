"""The commands on trained models: average, export."""

# ruff: noqa: PLC0415

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from danish_asr.cli.app import app


@app.command(examples=["average outputs/300m", "average outputs/300m --last 3"])
def average(
    run: Annotated[Path, Argument(help="OUTDIR of a run.")],
    *,
    best: Annotated[int | None, Option(min=2, help="The best checkpoints; default: all.")] = None,
    last: Annotated[int | None, Option(min=2, help="The last checkpoints instead.")] = None,
) -> None:
    """Average kept checkpoints of a run; the average is validated, and listed beside the others."""
    from danish_asr.recipe.train.averaging import average_command

    average_command(run, best=best, last=last)


@app.command(
    examples=[
        "export outputs/300m exported --to hf",
        "export outputs/300m onnx --to onnx --int8 --audio interviews",
    ]
)
def export(
    model: Annotated[
        str, Argument(help="A run, a checkpoint, an average, a Hugging Face directory or a name.")
    ],
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
