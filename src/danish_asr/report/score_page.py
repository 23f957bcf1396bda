"""The page of scores: groups with dots and intervals, errors, worst utterances with audio."""

from collections.abc import Mapping, Sequence
from math import isnan
from os.path import commonpath
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple

from matplotlib.ticker import MaxNLocator

from danish_asr.base.errors import DatasetError
from danish_asr.base.files import AnyPath
from danish_asr.report import tables
from danish_asr.report.components import left_out_lines, render_template
from danish_asr.report.outputs import Content
from danish_asr.scoring.errors import WORST_WORDS, analyse_errors
from danish_asr.scoring.scores import BANDS, Grouping, GroupScore, Scores

_FREQUENT: Final = 30  # errors of each kind that are listed
_PLAYERS: Final = 20  # worst utterances that can be played


class _Clips(NamedTuple):
    """The audio of a page, as `components.html` reads it."""

    entries: Mapping[tuple[str | None, str], Mapping[str, Any]]  # by corpus and id
    embedded: int
    left_out: list[str]


def score_page(
    scores: Scores, files: Sequence[Path], dataset: AnyPath | None = None, *, audio: bool = True
) -> Content:
    """Return the page of predictions files, which were scored as one.

    With ``audio`` it holds the worst utterances' speech, from ``dataset`` or the evaluated dataset;
    notes say what it lacks of that.
    """
    analysis = analyse_errors(scores.table, scores.settings.denominator)
    about = {"file": _files(files)} | dict(scores.about)
    root = dataset or about.get("dataset_root")
    clips = _Clips({}, 0, [])
    if audio and root and analysis.worst:
        clips = _clips(Path(root), analysis.worst[:_PLAYERS])
    html = render_template(
        "score_page.html",
        about=about,
        name=_name(about, len(files)),
        scores=scores,
        groupings={
            name: _ordered(name, part) for name, part in scores.groupings.items() if part.has_values
        },
        bands=BANDS,
        axis=RateAxis(scores),
        analysis=analysis,
        frequent={
            "Substituted words": analysis.substitutions[:_FREQUENT],
            "Inserted words": analysis.insertions[:_FREQUENT],
            "Deleted words": analysis.deletions[:_FREQUENT],
            "Confused characters": analysis.character_confusions[:_FREQUENT],
        },
        worst_words=WORST_WORDS,
        clips=clips,
        tables=tables,
    )
    return Content(html.encode(), clips.left_out)


def _files(files: Sequence[Path]) -> str:
    """Return a file with its folder, or files from the folder that they have in common."""
    paths = [file.resolve() for file in files]
    common = paths[0].parent.parent if len(paths) == 1 else Path(commonpath(paths))
    return ", ".join(str(path.relative_to(common)) for path in paths)


def _name(about: Mapping[str, Any], files: int) -> str:
    """Return what was scored in a few words: run and model, or else the file, and the dataset."""
    model = PurePath(str(about.get("model") or about.get("checkpoint") or "")).name
    run = PurePath(str(about.get("run") or "")).parent.name  # of its checkpoints
    other = f"{files} files" if files > 1 else about["file"]
    scored = "/".join(filter(None, (run, model))) or other
    return " on ".join(filter(None, (scored, about.get("dataset"))))


def _ordered(name: str, part: Grouping) -> list[GroupScore]:
    """Return bands by size, and other groups from the worst; those without a rate last."""
    if name in BANDS:
        return [*part.groups]

    def worst_first(group: GroupScore) -> float:
        # Without a word in the references there is no rate.
        return -group.wer.value if group.words.reference_length else 1

    return sorted(part.groups, key=worst_first)


class RateAxis:
    """The axis of WER that all groups of a page share, from 0 to ``ticks[-1]`` per cent.

    It reaches the worst group, up to 100 %, and all bounds of intervals up to four times the
    overall rate. Bounds beyond it get an arrow.
    """

    def __init__(self, scores: Scores) -> None:
        overall = scores.overall.wer
        rates = [group.wer for part in scores.groupings.values() for group in part.groups]
        ends = [wer.interval.high for wer in rates if wer.interval]
        near = [end for end in ends if end <= 4 * overall.value]
        worst = [min(wer.value, 1) for wer in rates if not isnan(wer.value)]
        most = 100 * max([overall.value, 0.01, *near, *worst])
        self.ticks = [*MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(0, most)]

    def x(self, rate: float) -> float:
        """Return the place of a rate on a line of 200 points with a margin of 10."""
        return round(10 + 180 * min(100 * rate / self.ticks[-1], 1), 1)

    def beyond(self, rate: float) -> bool:
        """Return whether a rate lies beyond the axis."""
        return 100 * rate > self.ticks[-1]


def _clips(root: Path, worst: Sequence[Mapping[str, Any]]) -> _Clips:
    """Return the audio of utterances. What goes wrong is a reason for none, and never an error."""
    try:
        return _clips_of_dataset(root, worst)
    except DatasetError as error:
        reason = str(error)
    except Exception as error:  # noqa: BLE001 - whatever it is, the scores do not depend on it
        reason = f"{type(error).__name__}: {error}"
    return _Clips({}, 0, left_out_lines([reason] * len(worst)))


def _clips_of_dataset(root: Path, worst: Sequence[Mapping[str, Any]]) -> _Clips:
    from danish_asr.report.dataset import Clips, read_rows  # noqa: PLC0415 - slow: polars

    if not root.exists():
        raise DatasetError(f"{root} is not there; name the dataset with --dataset")
    # A row's split may be that of one corpus, ``test_<corpus>``.
    splits = {str(utterance["split"] or "").partition("_")[0] for utterance in worst}
    clips = Clips(read_rows(root, None if "" in splits else splits))
    texts = clips.rows.table["text"]
    entries: dict[tuple[str | None, str], Mapping[str, Any]] = {}
    for utterance in worst:
        key = utterance["corpus"], utterance["id"]
        number = clips.rows.find(*key)
        if number is None:
            clips.leave_out(key, "the dataset no longer has their ids; evaluate again")
        elif texts[number].as_py() != utterance["reference"]:
            clips.leave_out(key, "the dataset now has other texts under their ids; evaluate again")
        else:
            entries[key] = clips.entry(number)
    return _Clips(entries, clips.embedded, clips.left_out)
