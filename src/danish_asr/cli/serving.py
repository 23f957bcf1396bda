"""The command that shows a model to others: serve."""

# ruff: noqa: PLC0415

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from danish_asr.cli.app import app


@app.command(examples=["serve outputs/300m", "serve outputs/300m --port 0 --lm lm"])
def serve(
    model: Annotated[
        str, Argument(help="A run, a checkpoint, a Hugging Face directory or a name.")
    ],
    *,
    host: Annotated[str, Option(help="Address; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, Option(help="0 takes a free one.")] = 8000,
    max_mb: Annotated[int, Option(help="Size limit of a file, in megabytes.", min=1)] = 100,
    lm: Annotated[Path | None, Option(help="Language model; adds beam search.")] = None,
    device: Annotated[str, Option(help="auto, cpu, cuda, ...")] = "auto",
) -> None:
    """Serve a local web page that transcribes files and recordings."""
    from danish_asr.inference.serve.command import serve as serve_page

    serve_page(model, host=host, port=port, max_mb=max_mb, lm=lm, device=device)
