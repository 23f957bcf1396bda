"""What all commands share."""

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typing_extensions import override

import danish_asr
from danish_asr.base.next_step import next_step
from danish_asr.text.profiles import PROFILES

_Body = TypeVar("_Body", bound=Callable[..., Any])


class App(typer.Typer):
    """A group of commands with the settings of this program."""

    def __init__(self, name: str, about: str) -> None:
        super().__init__(
            name=name,
            help=about,
            no_args_is_help=True,
            pretty_exceptions_enable=False,
            context_settings={"help_option_names": ["-h", "--help"]},
        )

    @override
    def command(self, name: str | None = None, **options: Any) -> Callable[[_Body], _Body]:
        """Register a command; its ``examples`` end its help."""
        commands = options.pop("examples")
        lines = ["Examples:", *(f"$ danish-asr {command}" for command in commands)]
        return super().command(name, epilog="\n".join(lines), **options)


def say_next(*words: object, why: str, processes: int = 1) -> None:
    """Print the command that comes next, on standard error."""
    typer.echo(next_step(*words, why=why, processes=processes), err=True)


def profile_option(about: str) -> Any:
    """Return the option ``--profile``, whose value is checked behind it."""
    return typer.Option(metavar="|".join(PROFILES), help=about)


Values = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE", help="For the recipe, over its files: regime.num_steps=100."
    ),
]
Files = Annotated[
    list[Path] | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="Configuration in YAML. Repeatable: the last one wins.",
    ),
]
Dataset = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Root of a built dataset, over the one that the files name."),
]
NoAudio = Annotated[
    bool,
    typer.Option("--no-audio", help="Leave the speech out of the page, so that it can be shared."),
]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes; default: all CPUs.")]

app = App(
    "danish-asr",
    "Fine-tune omniASR CTC models on Danish speech and report error rates per dialect.",
)


def _print_version(asked: bool) -> None:
    if asked:
        stack = ", ".join(f"{name} {version(name)}" for name in ("fairseq2", "torch"))
        typer.echo(f"danish-asr {danish_asr.__version__} ({stack})")
        raise typer.Exit


@app.callback(epilog="Begin with:\n$ danish-asr demo\n$ danish-asr plan")
def _options(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print versions and stop."
        ),
    ] = False,
) -> None:
    pass
