"""What `danish-asr harvest` keeps of synthetic radio, how correct it is, and what it is worth.

    make demo && python -m benchmarks.quality_harvest FOLDER demo [--programmes 12] [--seeds 3]

The demo's model knows the demo's 75 words and clean speech; half of the radio is other words, under
noise and music (`quality_radio.py`). The model is trained on with 1,000 of its own utterances alone
(`without`), and with these and the radio: harvested with its subtitles (`text`), labelled without
them by two models of `without` (`pseudo`) and then by two of `pseudo` (`pseudo, round 2`), and with
the true texts (`truth`). All take the same steps, and are tested on the radio of other voices.

An interrupted command continues: finished runs stay in FOLDER. ``--arm`` trains only these, so that
a long benchmark can be divided.
"""

import argparse
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import pyarrow.dataset as ds
from rich.console import Console
from rich.table import Table

from benchmarks.quality import in_process, schedule
from benchmarks.quality_radio import Spoken, make_radio, make_utterances, read_truth
from danish_asr.base.files import publish_text
from danish_asr.base.schema import VERSION_DIR
from danish_asr.cli.upstream import run_as_upstream
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.convert import convert
from danish_asr.inference.harvest.command import Settings, harvest
from danish_asr.inference.harvest.kept import RECORDINGS, UTTERANCES
from danish_asr.inference.harvest.limits import Limits
from danish_asr.inference.harvest.pieces import Candidate, Piece
from danish_asr.inference.harvest.selection import PSEUDO, TEXT, Kind, select
from danish_asr.metrics import ErrorCounts, count_errors
from danish_asr.scoring.predictions import read_predictions
from danish_asr.text.profiles import normalize

OWN_ROWS: Final = 1_000
LONGEST: Final = 10.0
"""Seconds of an utterance that the demo's training takes."""

TEXT_CER: Final = 0.5
"""Of what the arm `text` is trained with, as the demo's model hears half of the words badly."""

WITHOUT: Final = "without"
HARVESTS: Final[dict[str, tuple[Kind, str | None]]] = {
    "text": (TEXT, None),
    "pseudo": (PSEUDO, WITHOUT),
    "pseudo, round 2": (PSEUDO, "pseudo"),
}
"""What an arm is trained with, and the arm whose models label it; None for the demo's."""

ARMS: Final = (WITHOUT, *HARVESTS, "truth")
CONFIG: Final = Path(__file__).parents[1] / "configs" / "demo.yaml"


def main() -> None:
    """Make the data, train what is missing, print and write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("demo", type=Path, help="the directory of danish-asr demo")
    parser.add_argument("--programmes", type=int, default=12, help="of ten minutes")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100, help="a multiple of 50")
    parser.add_argument("--arm", action="append", choices=ARMS, help="only this; repeatable")
    args = parser.parse_args()
    folder, demo = args.folder.resolve(), args.demo.resolve()
    cards = (folder / "datasets" / _file_name(arm) / "cards" for arm in ARMS)
    os.environ["DANISH_ASR_ASSETS"] = os.pathsep.join(map(str, cards))
    prepare(folder, demo, args.programmes)
    for arm in args.arm or ARMS:
        if arm in HARVESTS:
            harvest_arm(folder, demo, arm)
        make_dataset(folder, arm)
        for seed in range(1, args.seeds + 1):
            train(folder, demo, arm, seed, args.steps)
    report(folder)


def prepare(folder: Path, demo: Path, programmes: int) -> None:
    """Make what is missing of the radio, of its test, and of the demo's own rows."""
    if not (folder / "radio").is_dir():
        in_process(folder / "data.log", make_radio, folder / "radio.partial", programmes)
        (folder / "radio.partial").rename(folder / "radio")
    for split, speakers in (("dev", 12), ("test", 40)):
        if not (folder / "test" / f"{split}.jsonl").is_file():
            in_process(folder / "data.log", make_utterances, folder / "test", speakers, split)
    # The same programmes without their subtitles.
    for audio in sorted((folder / "radio").glob("*.flac")):
        (folder / "silent").mkdir(exist_ok=True)
        if not (folder / "silent" / audio.name).exists():
            (folder / "silent" / audio.name).hardlink_to(audio)
    if not (folder / "own" / "train.jsonl").is_file():
        write_own_rows(demo / "dataset" / VERSION_DIR, folder / "own")


def write_own_rows(dataset: Path, folder: Path) -> None:
    """Write some of the demo's training rows as files, with a table."""
    folder.mkdir(parents=True, exist_ok=True)
    columns = ["id", "text", "audio_bytes", "speaker_id"]
    found = ds.dataset(dataset, partitioning="hive")
    rows = found.to_table(columns, filter=ds.field("split") == "train").to_pylist()
    lines = []
    for row in sorted(rows, key=lambda row: row["id"])[:: len(rows) // OWN_ROWS]:
        (folder / f"{row['id']}.flac").write_bytes(row.pop("audio_bytes"))
        lines.append(json.dumps(row | {"audio_filepath": f"{row['id']}.flac"}) + "\n")
    publish_text(folder / "train.jsonl", "".join(lines))


def models_of(folder: Path, demo: Path, arm: str) -> list[str]:
    """The models that an arm is harvested with."""
    labellers = HARVESTS[arm][1]
    if labellers is None:
        return [str(demo / "run")]
    return [str(run_of(folder, labellers, seed)) for seed in (1, 2)]


def harvest_arm(folder: Path, demo: Path, arm: str) -> None:
    """Harvest the radio for an arm, with subtitles or without."""
    audio = folder / ("radio" if HARVESTS[arm][0] == TEXT else "silent")
    limits = Limits(max_seconds=LONGEST, max_cer=TEXT_CER)
    settings = Settings(models=models_of(folder, demo, arm), limits=limits, device="cpu")
    out = folder / "harvests" / _file_name(arm)
    in_process(folder / f"{_file_name(arm)}.log", harvest, [audio], out, "radio", settings)


def make_dataset(folder: Path, arm: str) -> None:
    """Convert the rows that an arm is trained on, and those of dev and test."""
    out, tables = folder / "datasets" / _file_name(arm), folder / "tables" / _file_name(arm)
    if (out / "manifest.json").is_file():
        return
    shutil.rmtree(tables, ignore_errors=True)
    sources = [folder / "own" / "train.jsonl", *(folder / "test").glob("*.jsonl")]
    if arm in HARVESTS:
        sources.append(
            folder / "harvests" / _file_name(arm) / UTTERANCES / f"{HARVESTS[arm][0]}.jsonl"
        )
    for source in sources:
        split = source.stem if source.stem in {"dev", "test"} else "train"
        rows = [json.loads(line) for line in source.read_text("utf-8").splitlines()]
        for row in rows:
            row["audio_filepath"] = str(source.parent / row["audio_filepath"])
        _write(tables / f"{split}-{source.stem}-{source.parent.name}.jsonl", rows)
    if arm == "truth":
        _write(tables / "train-truth.jsonl", true_rows(folder / "radio"))
    convert(f"table:{tables}", out, ConvertOptions(name=_file_name(arm)))


def true_rows(radio: Path) -> Iterator[dict[str, Any]]:
    """Utterances of the true words, cut at pauses."""
    for audio in sorted(radio.glob("*.flac")):
        own: list[Spoken] = []
        for word in [*read_truth(audio), None]:
            if own and (word is None or word.start - own[-1].end > 0.25):
                if own[-1].end - own[0].start < LONGEST:
                    yield {
                        "audio_filepath": str(audio),
                        "start": max(0.0, own[0].start - 0.1),
                        "end": own[-1].end + 0.1,
                        "text": " ".join(spoken.text for spoken in own),
                    }
                own = []
            if word is not None:
                own.append(word)


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    publish_text(path, "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))


def _file_name(arm: str) -> str:
    return arm.replace(", ", "-").replace(" ", "-")


def run_of(folder: Path, arm: str, seed: int) -> Path:
    """The directory of a run."""
    return folder / "runs" / _file_name(arm) / f"seed_{seed}"


def predictions_of(run: Path) -> Path:
    """The predictions of a run's best checkpoint on test."""
    return run / "eval" / "best" / "test" / "predictions.jsonl"


def train(folder: Path, demo: Path, arm: str, seed: int, steps: int) -> None:
    """Train and evaluate one run, unless it is finished."""
    run = run_of(folder, arm, seed)
    if predictions_of(run).is_file():
        return
    print(f"{arm}, seed {seed}", flush=True)
    given = [
        *(str(run), "--config-file", str(CONFIG), "--config"),
        *(f"model.path={demo / 'run'}", f"dataset.name={_file_name(arm)}", f"common.seed={seed}"),
        *("optimizer.config.lr=1e-03", *schedule(steps, steps // 50), "common.no_sweep_dir=true"),
        *("masking={time: 0.2, channel: 0.1, channel_span: 10}", "evaluator.split=test"),
    ]
    in_process(run.with_suffix(".log"), run_as_upstream, "train", given)
    in_process(run.with_suffix(".log"), run_as_upstream, "evaluate", given)


def report(folder: Path) -> None:
    """Print and write the tables: what each limit keeps, and error rates of the runs."""
    console, text = Console(width=100), ""
    grids: dict[str, Sequence[Limits]] = {
        "text": [Limits(max_seconds=LONGEST, max_cer=value) for value in (0.1, 0.2, 0.3, 0.4, 0.5)],
        **{
            arm: [
                Limits(max_seconds=LONGEST, max_disagreement=differ, min_confidence=sure)
                for differ in (0.0, 0.05, 0.15)
                for sure in (0.0, 0.8, 0.95)
            ]
            for arm in ("pseudo", "pseudo, round 2")
        },
    }
    for arm, grid in grids.items():
        if (folder / "harvests" / _file_name(arm) / UTTERANCES).is_dir():
            text += _table(arm, _COLUMNS, [kept_with(folder, arm, own) for own in grid], console)
    rows = []
    for arm in ARMS:
        runs = [run_of(folder, arm, seed) for seed in range(1, 100)]
        rates = [error_rate(predictions_of(run)) for run in runs if predictions_of(run).is_file()]
        if rates:
            listed = ", ".join(f"{100 * rate:.1f}" for rate in rates)
            rows.append([arm, f"{100 * fmean(rates):.1f}", listed])
    text += _table("WER on the radio of other voices", ("arm", "mean", "seeds"), rows, console)
    publish_text(folder / "quality_harvest.md", text)


_COLUMNS: Final = ("limits", "utterances", "minutes", "% of speech", "WER of the text, %")


def _table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], console: Console
) -> str:
    """Print a table and return it as Markdown."""
    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    lines = [columns, ("---",) * len(columns), *rows]
    return f"{title}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"


def kept_with(folder: Path, arm: str, limits: Limits) -> list[str]:
    """What limits keep of an arm's harvest: utterances, minutes and errors of their text."""
    kind = HARVESTS[arm][0]
    counts, kept, seconds, spoken = ErrorCounts(), 0, 0.0, 0.0
    for audio in sorted((folder / "radio").glob("*.flac")):
        file = folder / "harvests" / _file_name(arm) / RECORDINGS / f"{audio.stem}.json"
        values, truth = json.loads(file.read_text("utf-8")), read_truth(audio)
        spoken += sum(word.end - word.start for word in truth)
        pieces = [Piece.from_json(piece) for piece in values["pieces"]]
        for own in select(pieces, values["words"], limits).utterances[kind]:
            kept, seconds = kept + 1, seconds + own.end - own.start
            counts += count_errors(_true_text(own, truth), normalize(own.text, "coral"))
    cells = [f"max_cer {limits.max_cer:g}"]
    if kind == PSEUDO:
        disagreement = f"max_disagreement {limits.max_disagreement:g}"
        cells = [f"{disagreement}, min_confidence {limits.min_confidence:g}"]
    share = f"{100 * seconds / spoken:.0f}"
    return [*cells, f"{kept:,}", f"{seconds / 60:.1f}", share, f"{100 * counts.wer():.1f}"]


def _true_text(own: Candidate, truth: Sequence[Spoken]) -> str:
    middle = [word.text for word in truth if own.start <= (word.start + word.end) / 2 <= own.end]
    return normalize(" ".join(middle), "coral")


def error_rate(predictions: Path) -> float:
    """The WER of predictions, under the profile of the training."""
    counts = ErrorCounts()
    for row in read_predictions(predictions):
        texts = (normalize(text, "coral") for text in (row.reference, row.hypothesis))
        counts += count_errors(*texts)
    return counts.wer()


if __name__ == "__main__":
    main()
