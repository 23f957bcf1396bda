"""What all commands share."""

import typer

app = typer.Typer(
    name="danish-asr",
    help="Fine-tune omniASR CTC models on Danish speech and report error rates per dialect.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
