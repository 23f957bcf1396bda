"""Recordings with texts beside them: each span of timed text is an utterance, or all of a ``.txt``.

The recording of ``anna.TextGrid`` is ``anna.wav`` (or of any other ending), in the same folder or
alone of its name below the source. A speaker is a participant of ELAN, a voice of WebVTT, a label
of SRT, or what names one of several tiers. With ``--split-by-speaker`` it is else the file, or the
folder of a ``.txt``. Each file is read once.
"""

import fnmatch
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from danish_asr.base.errors import SourceError
from danish_asr.base.folders import is_audio
from danish_asr.base.progress import track
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.columns import check_chosen, values_of
from danish_asr.corpus.rows import Source, table_of
from danish_asr.corpus.sources.recordings import fetch_files, name_key, recordings
from danish_asr.corpus.sources.timed_files import (
    Span,
    Tier,
    TimedFile,
    files_of,
    no_speech,
    read_timed,
)

_OVERLAP: Final = 0.2
"""Seconds of another utterance in an utterance's audio that are put up with."""

_NUMBERED: Final = re.compile(r"(?i)(speaker|spk|taler|person)[ _-]*\d+")
"""A speaker who has a number in the file, and no name."""

_COLUMNS: Final = ("speaker_id", "file", "folder", "folder_above", "file_and_speaker")


def open_timed(suffix: str, location: str, options: ConvertOptions) -> Source:
    """Read the files of an ending, such as ``.srt``, in a folder and all folders below it."""
    recordings.cache_clear()
    place = Path(location).resolve()
    folder = place.parent if place.is_file() else place
    check_chosen(_COLUMNS, options.columns)
    paths = [place] if place.is_file() else [*files_of(suffix, folder)]
    texts_of: dict[Path, Path] = {}
    spans: dict[Path, list[Span]] = {}
    tiers: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for path in track(paths, f"reading {suffix}", len(paths)):
        file = read_timed(path)
        audio = _recording(path, file, folder)
        if texts_of.setdefault(audio, path) != path:
            raise SourceError(
                f"{audio.relative_to(folder)}: both {texts_of[audio].name} and {path.name} have "
                "its text; keep one of them in the folder"
            )
        spans[path] = _spans(path, file, audio, options.tiers)
        tiers.update({name for tier in file.tiers for name in (tier.name, tier.kind) if name})
        counts.update(file.removed)
    _check_tiers(location, tiers, options.tiers)
    texts = [span.text for own in spans.values() for span in own]
    counts["texts with brackets"] = sum(bool(re.search(r"[\[(]", text)) for text in texts)
    if place.is_dir():
        everywhere = {audio for same in recordings(folder).values() for audio in same}
        counts["recordings without a text"] = len(everywhere - texts_of.keys())
    silent = no_speech(texts)
    records: list[dict[str, Any]] = []
    for audio, path in texts_of.items():
        name = audio.relative_to(folder).as_posix()
        own = _records(path.relative_to(folder.parent), spans[path], silent, options)
        records += [record | {"audio": name} for record in own]
    return Source(
        name=location,
        rows=table_of(records, options),
        fetch=partial(fetch_files, folder),
        columns={"speaker_id": options.columns.get("speaker_id", "speaker")},
        counts=+counts,
    )


def _recording(path: Path, file: TimedFile, folder: Path) -> Path:
    """The recording of a file: one that it names, or that of its own name, which may be missing."""
    stems = [Path(name).stem for name in file.media if is_audio(name)]
    stems += [path.stem, Path(path.stem).stem]  # anna.da.srt and anna.wav.srt are of anna.wav
    for stem in stems:
        everywhere = recordings(folder).get(name_key(stem), [])
        beside = [audio for audio in everywhere if audio.parent == path.parent]
        if beside or len({audio.parent for audio in everywhere}) == 1:
            return (beside or everywhere)[0]
    return path.with_suffix(".wav")


def _check_tiers(location: str, files: Mapping[str, int], patterns: Sequence[str]) -> None:
    """Raise `SourceError` for a pattern of no tier; ``files`` counts those that have each name."""
    for pattern in patterns:
        if not fnmatch.filter(files, pattern):
            listed = ", ".join(f"{name} ({count:,} files)" for name, count in files.items())
            raise SourceError(f"--tier {pattern}: {location} has the tiers {listed}")


def _spans(path: Path, file: TimedFile, audio: Path, patterns: Sequence[str]) -> list[Span]:
    """The spans of the chosen tiers, on the clock of the recording, ordered by their starts."""
    offset = _offset(path, file, audio)
    spans = []
    for tier, speaker in chosen_tiers(path, file, patterns):
        for span in tier.spans:
            start, end = (None if time is None else time + offset for time in span[:2])
            spans.append(span._replace(start=start, end=end, speaker=span.speaker or speaker))
    return sorted(spans, key=lambda span: (span.start or 0.0, span.end or 0.0, span.speaker or ""))


def _offset(path: Path, file: TimedFile, audio: Path) -> float:
    """How much later the recording's clock is than the file's, in seconds."""
    by_stem = {name_key(Path(name).stem): offset for name, offset in file.media.items()}
    stem = name_key(audio.stem)
    if stem not in by_stem and len({*by_stem.values()}) > 1:
        media = ", ".join(f"{name} ({offset:g} s)" for name, offset in file.media.items())
        raise SourceError(
            f"{path}: its recordings begin at different times, and {audio.name} is none of them: "
            f"{media}; rename the recording, or link it in ELAN again"
        )
    return by_stem.get(stem, next(iter(by_stem.values()), 0.0))


def chosen_tiers(
    path: Path, file: TimedFile, patterns: Sequence[str]
) -> list[tuple[Tier, str | None]]:
    """The tiers to read with their speakers; SourceError if there is a choice to make."""
    if patterns:
        chosen = [tier for tier in file.tiers if _is_chosen(tier, patterns)]
        for tier in chosen:
            if tier.fault:
                raise SourceError(f"{path}: the tier {tier.name} cannot be read: {tier.fault}")
        single = patterns[0] if len(patterns) == 1 else ""  # whose name is no speaker's
        return [
            (tier, tier.speaker or (tier.name if tier.name != single else None)) for tier in chosen
        ]
    full = [tier for tier in file.tiers if tier.spans]
    ours = [tier for tier in full if re.fullmatch(r"(.* )?segments", tier.name)]
    if ours:
        return [(tier, tier.name.removesuffix("segments").strip() or None) for tier in ours]
    people = {tier.speaker for tier in full} - {None}
    has_own_tier = len({tier.kind for tier in full}) == 1 and len(people) == len(full)
    if len(full) < 2 or has_own_tier:
        return [(tier, tier.speaker) for tier in full]
    listed = "; ".join(
        f"{tier.name!r}{tier.kind and f' of type {tier.kind}'} with {len(tier.spans):,}, such as "
        f"{tier.spans[0].text[:30]!r}"
        for tier in full
    )
    raise SourceError(
        f"{path}: several tiers have text: {listed}. Choose with --tier NAME, or a type of ELAN's; "
        "of several (--tier again, or a pattern such as 'ORT@*') each is a speaker"
    )


def _is_chosen(tier: Tier, patterns: Sequence[str]) -> bool:
    return any(
        pattern == tier.kind or fnmatch.fnmatchcase(tier.name, pattern) for pattern in patterns
    )


def _records(
    path: Path, spans: Sequence[Span], silent: Mapping[str, str], options: ConvertOptions
) -> Iterator[dict[str, Any]]:
    is_timed = path.suffix.lower() != ".txt"
    nobody = (path.stem if is_timed else path.parent.name) if options.split_by_speaker else None
    shared = _overlapping(span for span in spans if span.text not in silent)
    for row, span in enumerate(spans):
        fault = "overlaps another utterance" if span in shared else None
        if is_timed and None in {span.start, span.end}:
            fault = "no time"
        speaker = span.speaker
        if speaker and _NUMBERED.fullmatch(speaker):
            speaker = f"{path.stem} {speaker}"  # a number in its file
        own = {
            "speaker_id": speaker or nobody,
            "file": path.stem,
            "folder": path.parent.name,
            "folder_above": path.parent.parent.name,
            "file_and_speaker": f"{path.stem} {span.speaker or ''}".strip(),
        }
        yield {
            "speaker_id": own["speaker_id"],
            **{ours: values_of(own, theirs) for ours, theirs in options.columns.items()},
            "file": path.as_posix(),
            "row": row,
            "text": span.text,
            "start": span.start,
            "end": span.end,
            "channel": span.channel,
            "refused": silent.get(span.text, fault),
        }


def _overlapping(spans: Iterable[Span]) -> set[Span]:
    """The spans that have too much of another one of the same channel."""
    shared: set[Span] = set()
    latest: dict[int | None, tuple[float, Span]] = {}  # by channel, that which ends last so far
    timed = [
        (span.start, span.end, span)
        for span in spans
        if span.start is not None and span.end is not None
    ]
    for start, end, span in sorted(timed, key=lambda times: times[:2]):
        last_end, other = latest.get(span.channel, (start, span))
        if min(last_end, end) - start > _OVERLAP:
            shared |= {other, span}
        latest[span.channel] = max((last_end, other), (end, span), key=lambda times: times[0])
    return shared
