"""The commands on language models: lm build, lm tune."""

# ruff: noqa: PLC0415

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from danish_asr.base.errors import ConfigError
from danish_asr.cli.app import App, app, choice
from danish_asr.text.profiles import PROFILES

lm = App("lm", "N-gram language models for the decoder 'beam'.")
app.add_typer(lm)


@lm.command(
    examples=[
        "lm build --out lm --model outputs/300m --dataset data/parquet",
        "lm build news.txt subtitles.csv --out lm --profile coral",
    ]
)
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
    profile: Annotated[str | None, choice(PROFILES, about="Text profile, without --model.")] = None,
) -> None:
    """Build a language model from text files and the training transcripts of a dataset."""
    from danish_asr.decoding.ngram_build import build_language_model

    if (model is None) == (profile is None):
        raise ConfigError(["give either --model or --profile: its words must equal the model's"])
    if model is not None:
        from danish_asr.recipe.models.cards import open_model

        profile = open_model(model).text_profile
    build_language_model(texts or [], out, order=order, dataset=dataset, profile=str(profile))


@lm.command(examples=["lm tune outputs/300m --lm lm"])
def tune(
    directory: Annotated[
        Path, Argument(metavar="RUN", help="OUTDIR, or OUTDIR/checkpoints/step_<n>.")
    ],
    *,
    language_model: Annotated[Path, Option("--lm", help="Directory of the language model.")],
    rows: Annotated[int, Option(min=1, help="Utterances to decode, at even distances.")] = 1_000,
    profile: Annotated[str, choice(PROFILES, about="Text profile of the error rates.")] = "coral",
    workers: Annotated[int | None, Option(min=1, help="Processes; default: all CPUs.")] = None,
    dataset: Annotated[
        Path | None, Option(metavar="DIR", help="Root of a built dataset; default: the run's.")
    ] = None,
) -> None:
    """Choose alpha, beta and beam on dev for later decodings; the model runs once."""
    from danish_asr.inference.tune import tune_language_model

    tune_language_model(
        directory, language_model, profile=profile, rows=rows, workers=workers, dataset=dataset
    )
