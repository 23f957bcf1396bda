"""The files of ``danish-asr score`` and ``compare``: the end of a name says what it gets."""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from os.path import realpath
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from danish_asr.base.errors import ConfigError
from danish_asr.base.files import AnyPath, publish
from danish_asr.metrics import align_words, count_errors, split_words
from danish_asr.recipe.run.run_directory import PREDICTIONS
from danish_asr.scoring.error_analysis import ErrorAnalysis
from danish_asr.scoring.predictions import COLUMNS, Prediction, to_row
from danish_asr.scoring.settings import DEFAULT_BY, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """What is scored, how, and which files are written."""

    by: Sequence[str] = DEFAULT_BY
    settings: Settings = field(default_factory=Settings)
    outputs: Sequence[AnyPath] = ()  # see ``SCORE_OUTPUTS``
    dataset: AnyPath | None = None  # has missing references and metadata, and audio for the page
    split: str | None = None  # of the dataset; None: that of the rows, or test
    references: AnyPath | None = None  # a table of ids and references, in place of a dataset
    columns: Mapping[str, str] = field(default_factory=dict)  # see `read_predictions`
    run_dir: AnyPath | None = None  # for the curves of the page; None: the run that was evaluated
    audio: bool = True  # on the page, if the dataset is there
    all_pairs: bool = False  # of runs that are compared
    model_name: str | None = None  # for Hugging Face; None: the model of the evaluation


def outputs_by_end(
    paths: Iterable[AnyPath], ends: Iterable[str], inputs: Iterable[AnyPath]
) -> dict[str, Path]:
    """Return each output by the end of its name.

    Raises:
        ConfigError: A name has another end, two names have the same, or it is an input.
    """
    known, read = list(ends), {realpath(path) for path in inputs}
    outputs: dict[str, Path] = {}
    faults: list[str] = []
    for path in map(Path, paths):
        end = next((end for end in known if path.name.endswith(end)), None)
        if end is None:
            faults.append(f"{path}: expected a name that ends in {', '.join(known)}")
        elif end in outputs:
            faults.append(f"{path}: one file can end in {end}, and {outputs[end]} does")
        elif path.is_dir() or realpath(path) in read:
            faults.append(f"{path} is an input or a directory; choose another file")
        else:
            outputs[end] = path
    if faults:
        raise ConfigError(faults, where="the list of outputs")
    return outputs


def parse_columns(arguments: Iterable[str]) -> dict[str, str]:
    """Parse ``reference=text,hypothesis=pred_text`` into the file's names by ours.

    Raises:
        ConfigError: An argument has another form, or a name is unknown or given twice.
    """
    columns: dict[str, str] = {}
    faults: list[str] = []
    for part in ",".join(arguments).split(","):
        column, equals, name = (text.strip() for text in part.partition("="))
        if not part.strip():
            continue
        if not (equals and name) or column not in COLUMNS:
            faults.append(f"columns: expected NAME=COLUMN, NAME of {', '.join(COLUMNS)}: '{part}'")
        elif column in columns:
            faults.append(f"columns: {column} is given twice")
        columns[column] = name
    if faults:
        raise ConfigError(faults, where="the command line")
    return columns


def default_outputs(files: Sequence[Path], *, html: bool = True) -> list[Path]:
    """Return the names of scores and page, with the input's name unless that is the usual one.

    There are none for several files.
    """
    if len(files) > 1:
        return []
    (predictions,) = files
    usual = predictions.name.removesuffix(".gz") == PREDICTIONS
    prefix = "" if usual else f"{predictions.name}."
    names = ["scores.json", "report.html"] if html else ["scores.json"]
    return [predictions.with_name(f"{prefix}{name}") for name in names]


def write_rows(
    outputs: Mapping[str, Path],
    predictions: Iterable[Prediction],
    settings: Settings,
    analysis: ErrorAnalysis | None,
) -> list[Path]:
    """Write what has a line per utterance or per error, and return the files.

    The predictions are read more than once and not kept in memory.
    """
    files: list[Path] = []
    for end, path in outputs.items():
        if end.startswith("utterances"):
            extra: dict[str, None] = {}
            if end.endswith(".csv"):  # its first line names all columns
                for row in predictions:
                    extra |= dict.fromkeys(row.extra)
            _write_table(path, utterance_rows(predictions, settings=settings), list(extra))
            files.append(path)
        elif end.startswith("errors") and analysis:
            _write_table(path, error_rows(analysis))
            files.append(path)
        elif end == ".trn":
            reference, hypothesis = path.with_suffix(".ref.trn"), path.with_suffix(".hyp.trn")
            with publish(reference) as of_reference, publish(hypothesis) as of_hypothesis:
                for line, other in trn_lines(predictions, settings=settings):
                    of_reference.write(f"{line}\n".encode())
                    of_hypothesis.write(f"{other}\n".encode())
            files += [reference, hypothesis]
    return files


def _write_table(path: Path, rows: Iterable[Mapping[str, Any]], extra: Sequence[str] = ()) -> None:
    """Write rows as CSV or JSONL; the columns of a CSV are those of its first row and ``extra``."""
    with publish(path) as stream:
        if path.suffix == ".jsonl":
            for row in rows:
                stream.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
            return
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        writer: csv.DictWriter[str] | None = None
        for row in rows:
            if writer is None:
                columns = dict.fromkeys([*row, *extra])
                writer = csv.DictWriter(text, columns, lineterminator="\n")
                writer.writeheader()
            guarded_row: dict[str, Any] = {}
            for name, cell in row.items():
                guarded_row[name] = guarded(cell) if isinstance(cell, str) else cell
            writer.writerow(guarded_row)
        text.detach()


_FORMULA: Final = re.compile(r"(?=[=+\-@])(?![+-]?\d+(\.\d+)?$)")


def guarded(text: str) -> str:
    """Put an apostrophe before what a spreadsheet would run as a formula (CWE-1236)."""
    return f"'{text}" if _FORMULA.match(text) else text


_WDIFF: Final = {
    "hit": "{0}",
    "substitution": "[-{0}-]{{+{1}+}}",
    "deletion": "[-{0}-]",
    "insertion": "{{+{1}+}}",
}


def utterance_rows(
    predictions: Iterable[Prediction], *, settings: Settings | None = None
) -> Iterator[dict[str, Any]]:
    """Yield a flat dict per scored row: its metadata, texts, counts, rates and alignment.

    Over an empty reference there is no rate. The alignment is in the notation of GNU wdiff:
    ``det [-er-]{+var+} [-meget-] koldt {+nu+}``.
    """
    settings = settings or Settings()
    for row, reference, hypothesis in settings.scored(predictions):
        errors = count_errors(reference, hypothesis)
        words = align_words(split_words(reference), split_words(hypothesis))
        yield {
            **to_row(row),
            "reference_normalised": reference,
            "hypothesis_normalised": hypothesis,
            "wer": errors.wer(settings.denominator) if reference else None,
            "cer": errors.cer(settings.denominator) if reference else None,
            **{f"word_{kind}": count for kind, count in asdict(errors.words).items()},
            **{f"character_{kind}": count for kind, count in asdict(errors.characters).items()},
            "alignment": " ".join(
                _WDIFF[word.tag].format(word.reference, word.hypothesis) for word in words
            ),
        }


def error_rows(analysis: ErrorAnalysis) -> Iterator[dict[str, Any]]:
    """Yield a flat dict per confusion and per error category.

    ``count`` are the errors, ``share`` their part of the profile's word errors; of a category those
    that disappear without it.
    """
    for kind, confusions in (
        ("substitution", analysis.substitutions),
        ("insertion", analysis.insertions),
        ("deletion", analysis.deletions),
        ("character", analysis.character_confusions),
    ):
        for pair in confusions:
            yield {
                "kind": kind,
                "profile": analysis.profile,
                "category": None,
                **asdict(pair),
                "share": None if kind == "character" else pair.count / analysis.word_errors,
            }
    for line in analysis.categories:
        yield {
            "kind": "category",
            "profile": line.profile,
            "category": line.category,
            "reference": None,
            "hypothesis": None,
            "count": line.errors - line.errors_without,
            "share": line.share,
        }


# What sclite reads as alternatives, optional words, the empty word and comments.
# Their full-width forms have the same number of characters.
_TRN_MARKUP: Final = str.maketrans("(){}@;", "（）｛｝＠；")


def trn_lines(
    predictions: Iterable[Prediction], *, settings: Settings | None = None
) -> Iterator[tuple[str, str]]:
    """Yield each scored row as a line of a reference and of a hypothesis file in NIST's ``trn``.

    A line is ``text (speaker-utterance)``. Both parts of the id are percent-encoded, so that ids
    stay unique and `urllib.parse.unquote` gives them back.
    """
    for row, reference, hypothesis in (settings or Settings()).scored(predictions):
        name = f"({_encoded(row.speaker_id or 'unknown')}-{_encoded(row.id)})"
        yield f"{_trn_text(reference)} {name}", f"{_trn_text(hypothesis)} {name}"


def _trn_text(text: str) -> str:
    # A tab or newline does not separate words here.
    words = [re.sub(r"\s", "_", word) for word in split_words(text)]
    return " ".join(words).translate(_TRN_MARKUP)


def _encoded(name: str) -> str:
    return quote(name, safe="").replace("-", "%2D").replace("_", "%5F")
