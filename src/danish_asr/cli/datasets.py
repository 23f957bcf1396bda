"""The command to begin with, demo, and those on datasets."""

# ruff: noqa: PLC0415

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from typer import Argument, BadParameter, Exit, Option

from danish_asr.cli.app import NoAudio, Values, Workers, app, say_next
from danish_asr.corpus import ConvertOptions

_CONVERT: Final = ConvertOptions(name="any")
DATASET: Final = Path("data/parquet")
"""Where a dataset is converted to, and looked for."""


class _Leak(StrEnum):
    SPEAKERS = "speakers"
    SENTENCES = "sentences"
    AUDIO = "audio"


_Without = Annotated[
    Path | None, Option(metavar="FILE", help="Rows to leave out: a table of corpus and id.")
]


def _print_sources(asked: bool) -> None:
    if asked:
        from danish_asr.corpus.command import print_sources

        print_sources()
        raise Exit


@app.command(examples=["demo", "demo --dir /tmp/demo regime.num_steps=400"])
def demo(
    values: Values = None,
    *,
    root: Annotated[Path, Option("--dir", help="Directory for all files.")] = Path("demo"),
) -> None:
    """Synthesise speech, convert, train, evaluate and report in one run, or continue it."""
    from danish_asr.demo import run_demo

    run_demo(root, overrides=values or [])


@app.command(
    examples=[
        "convert hf:CoRal-project/coral-v2 --name coral_v2_danish",
        "convert recordings --name mine --split-by-speaker 80/10/10",
    ]
)
def convert(
    source: Annotated[str, Argument(help="KIND:WHERE, see --list.")],
    *,
    name: Annotated[str, Option(help="Name of the dataset's card.")],
    out: Annotated[Path, Option(help="Root of the dataset.")] = DATASET,
    corpus: Annotated[str | None, Option(help="Name of the corpus; default: --name.")] = None,
    column: Annotated[
        list[str] | None, Option(metavar="OURS=THEIRS", help="Such as text=sentence. Repeatable.")
    ] = None,
    split: Annotated[
        str | None, Option(help="Split of all rows, whatever files and columns say.")
    ] = None,
    language: Annotated[str, Option(help="omniASR's code of its language.")] = _CONVERT.language,
    tier: Annotated[
        list[str] | None, Option(metavar="NAME", help="Of TextGrid or ELAN. Repeatable.")
    ] = None,
    channel: Annotated[int | None, Option(help="Channel, from 1; default: their mean.")] = None,
    split_by_speaker: Annotated[str | None, Option(help="Shares, 80/10/10 or with :SEED.")] = None,
    drop_shared: Annotated[bool, Option("--drop-shared-sentences", help="From train.")] = False,
    without: _Without = None,
    max_drop: Annotated[float, Option(help="Largest share of dropped rows.")] = _CONVERT.max_drop,
    max_seconds: Annotated[float, Option(help="Drop longer utterances.")] = _CONVERT.max_seconds,
    workers: Workers = None,
    ray: Annotated[
        str | None, Option(metavar="ADDRESS", help="Convert on a Ray cluster, or `local`.")
    ] = None,
    list_: Annotated[  # noqa: ARG001 - its callback prints
        bool,
        Option("--list", callback=_print_sources, is_eager=True, help="List the kinds of sources."),
    ] = False,
) -> None:
    """Convert a corpus to a dataset: 16 kHz FLAC in Parquet, rejected rows, inventory and cards."""
    from danish_asr.base.cluster import usable_cpus
    from danish_asr.corpus.command import convert_command

    columns: dict[str, str] = {}
    for text in column or ():
        ours, _, theirs = text.partition("=")
        if ours in columns:
            raise BadParameter(f"{ours} is {columns[ours]} and {theirs}", param_hint="--column")
        columns[ours] = theirs
    options = ConvertOptions(
        name=name,
        corpus=corpus,
        columns=columns,
        split=split,
        tiers=tuple(tier or ()),
        language=language,
        channel=channel,
        split_by_speaker=split_by_speaker,
        drop_shared_sentences=drop_shared,
        without=without,
        max_drop=max_drop,
        max_seconds=max_seconds,
        workers=workers or usable_cpus(),
        ray=ray,
    )
    convert_command(source, out, options)
    say_next("verify", out, why="find faults before training")


@app.command(examples=["combine data/coral data/mine --name all --out data/all"])
def combine(
    parts: Annotated[list[Path], Argument(metavar="DATASET...", help="Roots of built datasets.")],
    *,
    name: Annotated[str, Option(help="Name of the dataset's card.")],
    out: Annotated[Path, Option(help="Root of the combined dataset.")],
    without: _Without = None,
) -> None:
    """Combine datasets to one without copying audio; run again, it is made anew."""
    from danish_asr.corpus.command import combine_command

    combine_command(parts, out, name=name, without=without)
    say_next("verify", out, why="find faults, and what splits share")


@app.command(examples=["verify data/mine --page mine.html --allow-shared sentences"])
def verify(
    root: Annotated[Path, Argument(help="Root of a built dataset.")] = DATASET,
    *,
    page: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write a page: groups, gaps, audio to listen to."),
    ] = None,
    allow_shared: Annotated[
        list[_Leak] | None, Option(help="What may be in several splits. Repeatable.")
    ] = None,
    no_audio: NoAudio = False,
    workers: Workers = None,
) -> None:
    """Check a built dataset, report all faults, and write an offline page about it."""
    from danish_asr.corpus.command import check_faults, verify_command

    if no_audio and page is None:
        raise BadParameter("is that of a page; add --page FILE", param_hint="--no-audio")
    if page is not None:
        from danish_asr.report.dataset_page import check_page

        check_page(root, page)
    result = verify_command(root, workers=workers, allow_shared=allow_shared or ())
    if page is not None and not result.damage:
        from danish_asr.report.dataset_page import write_dataset_page

        write_dataset_page(root, page, result, audio=not no_audio)
    check_faults(root, result, page=page)
    if {"train", "dev"} <= {split for split, _ in result.hours}:
        run = "OUTDIR" if Path("outputs/first").exists() else "outputs/first"
        why = "with the preset that fits this machine"
        say_next("train", run, "--dataset", root, why=why)
    else:
        others = (root, "OTHER", "--name", "NAME", "--out", "DIR")
        say_next("combine", *others, why="a training needs dev too, here or from another dataset")
