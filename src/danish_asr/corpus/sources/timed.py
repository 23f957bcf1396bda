"""Long recordings with timed text beside them: each span of a tier is an utterance.

The recording of ``anna.TextGrid`` is ``anna.wav`` (or of any other ending), in the same folder or
alone of its name below the source. A speaker is a participant of ELAN, a voice of WebVTT, a label
of SRT, or what names one of several tiers. Each file is read once.
"""

import fnmatch
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from danish_asr.base.audio import AudioError, open_audio
from danish_asr.base.errors import SourceError
from danish_asr.base.folders import AUDIO_SUFFIXES, walk
from danish_asr.base.progress import track
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.rows import Source, check_chosen, table_of, values_of
from danish_asr.corpus.sources.recordings import fetch_files, recordings, stem_key
from danish_asr.corpus.sources.tiers import Span, Tier, TimedFile
from danish_asr.corpus.sources.timed_files import channel_of, is_transcript, no_speech, read_timed

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
    check_chosen([*_COLUMNS], options.columns)
    paths = [*_files(suffix, place)]
    if not paths:
        raise SourceError(f"{location}: found no {suffix} files with text")
    files = {path: read_timed(path) for path in track(paths, f"reading {suffix}", len(paths))}
    if options.tiers:
        _check_tiers(location, files.values(), options.tiers)
    audio = {path: _audio(path, file, folder) for path, file in files.items()}
    _check_single(audio, folder)
    spans = {path: _spans(path, file, audio[path], options.tiers) for path, file in files.items()}
    if options.split_by_speaker and "speaker_id" not in options.columns:
        _check_speakers(spans, folder)
    flat = [span.text for own in spans.values() for span in own]
    reasons = iter(no_speech(flat))
    records: list[dict[str, Any]] = []
    for path, own in spans.items():
        recording = (audio[path] or path.with_suffix(".wav")).relative_to(folder).as_posix()
        below = path.relative_to(folder.parent)
        records += _records(below, recording, own, [next(reasons) for _ in own], options)
    removed = sum((file.removed for file in files.values()), Counter[str]())
    removed["intervals without text"] = sum(
        tier.empty
        for path, file in files.items()
        for tier, _ in chosen_tiers(path, file, options.tiers)
    )
    removed["texts with brackets"] = sum(bool(re.search(r"[\[(]", text)) for text in flat)
    return Source(
        name=location,
        rows=table_of(records, options),
        fetch=partial(fetch_files, folder),
        columns={"speaker_id": options.columns.get("speaker_id", "speaker")},
        counts={what: count for what, count in removed.items() if count},
        in_tables=False,
    )


def _files(suffix: str, place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
        return
    for parent, names in walk(place):
        for name in names:
            path = Path(parent, name)
            if name.lower().endswith(suffix) and (suffix != ".json" or is_transcript(path)):
                yield path


def _audio(path: Path, file: TimedFile, folder: Path) -> Path | None:
    """The recording of a file."""
    names = (medium.name for medium in file.media)
    stems = [Path(name).stem for name in names if name.lower().endswith(AUDIO_SUFFIXES)]
    stems += [path.stem, Path(path.stem).stem]  # anna.da.srt and anna.wav.srt are of anna.wav
    for stem in stems:
        everywhere = recordings(folder).get(stem_key(stem), [])
        beside = [audio for audio in everywhere if audio.parent == path.parent]
        if beside or len({audio.parent for audio in everywhere}) == 1:
            return (beside or everywhere)[0]
    return None


def _check_single(audio: dict[Path, Path | None], folder: Path) -> None:
    """Refuse two files of one recording, such as subtitles in two languages."""
    files: dict[Path, list[str]] = {}
    for path, recording in audio.items():
        if recording is not None:
            files.setdefault(recording, []).append(path.relative_to(folder).as_posix())
    for recording, names in files.items():
        if len(names) > 1:
            raise SourceError(
                f"{recording.relative_to(folder)}: several files have its text: "
                f"{', '.join(names)}; keep one of them in the folder"
            )


def _check_speakers(spans: dict[Path, list[Span]], folder: Path) -> None:
    """Refuse files of one name in several folders as speakers, where the files name none."""
    first: dict[str, Path] = {}
    for path, own in spans.items():
        other = first.setdefault(path.stem, path)
        if other != path and any(span.speaker is None for span in own):
            raise SourceError(
                f"--split-by-speaker: {other.relative_to(folder)} and {path.relative_to(folder)} "
                "have one name and no speakers, so who speaks is unclear. If the folder names the "
                "speaker, add --column speaker_id=folder; if both are one person, --column "
                "speaker_id=file"
            )


def _check_tiers(location: str, files: Iterable[TimedFile], patterns: Sequence[str]) -> None:
    tiers = [tier for file in files for tier in file.tiers]
    for pattern in patterns:
        if not any(_is_chosen(tier, (pattern,)) for tier in tiers):
            names = Counter(tier.name for tier in tiers)
            listed = ", ".join(f"{name} ({count:,} files)" for name, count in names.most_common(20))
            raise SourceError(f"--tier {pattern}: {location} has the tiers {listed}")


def _spans(path: Path, file: TimedFile, audio: Path | None, patterns: Sequence[str]) -> list[Span]:
    """The spans of the chosen tiers, on the clock of the recording, ordered by their starts."""
    offset = _offset(path, file, audio)
    spans = []
    for tier, speaker in chosen_tiers(path, file, patterns):
        for span in tier.spans:
            own = span.speaker or speaker
            channel = span.channel or channel_of(own)
            start, end = (None if time is None else time + offset for time in span[:2])
            spans.append(span._replace(start=start, end=end, speaker=own, channel=channel))
    if audio and any(span.channel for span in spans) and _channels(audio) < 2:
        spans = [span._replace(channel=None) for span in spans]  # a mix of them was transcribed
    return sorted(spans, key=lambda span: (span.start or 0.0, span.end or 0.0, span.speaker or ""))


def _offset(path: Path, file: TimedFile, audio: Path | None) -> float:
    """How much later the recording's clock is than the file's, in seconds."""
    stem = stem_key(audio.stem) if audio else ""
    own = [medium.offset for medium in file.media if stem_key(Path(medium.name).stem) == stem]
    offsets = {medium.offset for medium in file.media}
    if not own and len(offsets) > 1:
        media = ", ".join(f"{medium.name} ({medium.offset:g} s)" for medium in file.media)
        raise SourceError(
            f"{path}: its recordings begin at different times, and "
            f"{audio.name if audio else 'none'} is none of them: {media}; "
            "rename the recording, or link it in ELAN again"
        )
    return (own or [*offsets] or [0.0])[0]


def _channels(audio: Path) -> int:
    try:
        with open_audio(audio) as file:
            return int(file.channels)
    except (AudioError, SourceError, RuntimeError):
        return 1


def chosen_tiers(
    path: Path, file: TimedFile, patterns: Sequence[str]
) -> list[tuple[Tier, str | None]]:
    """The tiers to read with their speakers; SourceError if there is a choice to make."""
    if patterns:
        chosen = [tier for tier in file.tiers if _is_chosen(tier, patterns)]
        for tier in chosen:
            if tier.fault:
                raise SourceError(f"{path}: the tier {tier.name} cannot be read: {tier.fault}")
        return [(tier, tier.speaker or _named(tier, patterns)) for tier in chosen]
    full = [tier for tier in file.tiers if tier.spans and not tier.is_points]
    ours = [tier for tier in full if re.fullmatch(r"(.* )?segments", tier.name)]
    if ours:
        return [(tier, tier.name.removesuffix("segments").strip() or None) for tier in ours]
    if len(full) < 2:
        return [(tier, tier.speaker) for tier in full]
    people = {tier.speaker for tier in full} - {None}
    if len({tier.kind for tier in full}) == 1 and len(people) == len(full):
        return [(tier, tier.speaker) for tier in full]  # a tier for each participant
    listed = "; ".join(
        f"{tier.name!r}{tier.kind and f' of type {tier.kind}'} with {len(tier.spans):,}, such as "
        f"{tier.spans[0].text[:30]!r}"
        for tier in file.tiers
        if tier.spans
    )
    raise SourceError(
        f"{path}: several tiers have text: {listed}. Choose with --tier NAME, or a type of ELAN's; "
        "of several (--tier again, or a pattern such as 'ORT@*') each is a speaker"
    )


def _is_chosen(tier: Tier, patterns: Sequence[str]) -> bool:
    return any(
        pattern == tier.kind or fnmatch.fnmatchcase(tier.name, pattern) for pattern in patterns
    )


def _named(tier: Tier, patterns: Sequence[str]) -> str | None:
    """The speaker by the name of a chosen tier: what ``*`` stands for, or one of several."""
    name = tier.name
    for pattern in patterns:
        if "*" in pattern and fnmatch.fnmatchcase(name, pattern):
            before, _, after = pattern.partition("*")
            return name[len(before) : len(name) - len(after)].strip() or None
    return name if len(patterns) > 1 or tier.kind in patterns else None


def _records(
    path: Path,
    recording: str,
    spans: Sequence[Span],
    reasons: Sequence[str | None],
    options: ConvertOptions,
) -> Iterator[dict[str, Any]]:
    speech = [span for span, reason in zip(spans, reasons, strict=True) if reason is None]
    shared = overlapping(speech, _OVERLAP)
    for row, (span, reason) in enumerate(zip(spans, reasons, strict=True)):
        speaker = span.speaker
        if speaker and _NUMBERED.fullmatch(speaker):
            speaker = f"{path.stem} {speaker}"  # a number in its file
        own = {
            "speaker_id": speaker or (path.stem if options.split_by_speaker else None),
            "file": path.stem,
            "folder": path.parent.name,
            "folder_above": path.parent.parent.name,
            "file_and_speaker": f"{path.stem} {span.speaker or ''}".strip(),
        }
        chosen = {ours: values_of(own, theirs) for ours, theirs in options.columns.items()}
        has_no_time = span.start is None or span.end is None
        fault = (
            "no time" if has_no_time else "overlaps another utterance" if span in shared else None
        )
        yield {
            "speaker_id": own["speaker_id"],
            **chosen,
            "file": path.as_posix(),
            "row": row,
            "text": span.text,
            "audio": recording,
            "start": span.start or 0.0,
            "end": span.end,
            "channel": span.channel,
            "refused": reason or fault,
        }


def overlapping(spans: Iterable[Span], slack: float) -> set[Span]:
    """The spans that share more than ``slack`` seconds with another one of the same channel."""
    found: set[Span] = set()
    timed = [
        (span.start, span.end, span)
        for span in spans
        if span.start is not None and span.end is not None
    ]
    timed.sort(key=lambda times: times[:2])
    for channel in {span.channel for _, _, span in timed}:
        last: tuple[float, Span] | None = None  # of those so far the one that ends last
        for start, end, span in timed:
            if None not in {channel, span.channel} and span.channel != channel:
                continue
            if last is not None and min(last[0], end) - start > slack:
                found |= {last[1], span}
            last = (end, span) if last is None or end > last[0] else last
    return found
