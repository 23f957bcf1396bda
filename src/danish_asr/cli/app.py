"""What all commands share."""

# ruff: noqa: PLC0415

from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typing_extensions import override

import danish_asr
from danish_asr.base.next_step import next_step

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


def say_next(*words: object, why: str) -> None:
    """Print the command that comes next, on standard error."""
    typer.echo(next_step(*words, why=why), err=True)


def choice(names: Iterable[str], *declarations: str, about: str) -> Any:
    """Return an option whose value is one of these names, which the code behind it checks."""
    known = list(names)
    return typer.Option(
        *declarations, metavar="|".join(known), autocompletion=lambda: known, help=about
    )


def _complete_key(incomplete: str) -> list[str]:
    from danish_asr.recipe.config.keys import defaults

    return [f"{key}=" for key in defaults() if key.startswith(incomplete)]


Values = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="For the recipe, over its files: regime.num_steps=100.",
        autocompletion=_complete_key,
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


def preset(dataset: Path | None, gpu: str | None = None) -> list[Path]:
    """Return the preset for a dataset without a configuration, and say which it is.

    It is that of the card ``gpu``, by default of this machine's. Without a dataset: none.
    """
    if dataset is None:
        return []
    from danish_asr.base.cluster import rank_info
    from danish_asr.planning.gpus import Card, here, preset_for

    files, reason = preset_for(Card.of(gpu) if gpu else here())
    if rank_info().rank == 0:
        options = " ".join(f"--config {file}" for file in files)
        typer.echo(f"{options}, {reason}", err=True)
    return files


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
