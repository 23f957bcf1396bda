"""Long recordings with timed text beside them: each span of a tier is an utterance.

The recording of ``anna.TextGrid`` is ``anna.wav`` (or of any other suffix), in the same folder or
alone of its name below the source. A speaker is a participant of ELAN, a voice of WebVTT, a label
of SRT, or what names one of several tiers.
"""

import fnmatch
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from danish_asr.base.audio import UNKNOWN_LENGTH, AudioError, open_audio
from danish_asr.base.errors import SourceError
from danish_asr.base.files import walk
from danish_asr.corpus.sources.base import AUDIO_SUFFIXES, Source, SourceOptions, fingerprint
from danish_asr.corpus.sources.listed import Values, open_lists
from danish_asr.corpus.sources.recordings import recordings
from danish_asr.corpus.sources.spans import (
    LABEL,
    NO_SPEECH,
    Span,
    Tier,
    TimedFile,
    channel_of,
    overlapping,
)
from danish_asr.corpus.sources.timed_files import MANY, is_transcript, read_timed

_OVERLAP: Final = 0.2
"""Seconds of another utterance in an utterance's audio that are put up with."""

_APART: Final = 0.5
"""Seconds by which the ends of a file and of its audio may differ."""

_NUMBERED: Final = re.compile(r"(?i)(speaker|spk|taler|person)[ _-]*\d+")
"""A speaker who has a number in the file, and no name."""

_COMPUTED: Final = ("channel=channel", "start=start", "seconds=seconds")


def open_timed(suffix: str, location: str, options: SourceOptions) -> Source:
    """Open the files of a suffix, such as ``.srt``, in a folder and all folders below it."""
    recordings.cache_clear()
    place = Path(location).resolve()
    folder = place.parent if place.is_file() else place
    if options.tiers:
        _check_tiers(location, [*_lists(suffix, place)], options.tiers)
    source = open_lists(
        location,
        replace(options, columns=(*_COMPUTED, *options.columns)),
        partial(_lists, suffix),
        partial(_rows, folder=folder, tiers=options.tiers),
        partial(_values, folder=folder, by_speaker=options.by_speaker),
        what=f"{suffix} files with text",
    )
    paths = [source.root / file.name for file in source.files]
    _check_single(paths, folder)
    if options.by_speaker and not any(pair.startswith("speaker_id=") for pair in options.columns):
        _check_speakers(paths, folder, options.tiers)
    return replace(source, notes=tuple(_notes(paths, folder, options.tiers)))


def _check_single(paths: Sequence[Path], folder: Path) -> None:
    """Refuse two files of one recording, such as subtitles in two languages."""
    files: dict[Path, list[str]] = {}
    for path in paths:
        if (audio := _audio(path, folder)) is not None:
            files.setdefault(audio, []).append(path.relative_to(folder).as_posix())
    for audio, names in files.items():
        if len(names) > 1:
            raise SourceError(
                f"{audio.relative_to(folder)}: several files have its text: {', '.join(names)}; "
                "keep one of them in the folder"
            )


def _check_speakers(paths: Sequence[Path], folder: Path, tiers: Sequence[str]) -> None:
    """Refuse files of one name in several folders as speakers, where the files name none."""
    first: dict[str, Path] = {}
    for path in paths:
        other = first.setdefault(path.stem, path)
        if other != path and any(span.speaker is None for span in _spans(path, folder, tiers)):
            raise SourceError(
                f"--split-by-speaker: {other.relative_to(folder)} and {path.relative_to(folder)} "
                "have one name and no speakers, so who speaks is unclear. If the folder names the "
                "speaker, add --column speaker_id=folder; if both are one person, --column "
                "speaker_id=file"
            )


def has_transcripts(folder: Path) -> bool:
    """Whether a folder has a transcript in JSON."""
    return next(_lists(".json", folder), None) is not None


def _lists(suffix: str, folder: Path) -> Iterator[Path]:
    if folder.is_file():
        yield folder
        return
    for parent, names in walk(folder):
        for name in names:
            path = Path(parent, name)
            if name.lower().endswith(suffix) and (suffix != ".json" or is_transcript(path)):
                yield path


class _Piece(NamedTuple):
    """A span, and why it is refused."""

    span: Span
    refused: str | None


def _rows(path: Path, start: int, *, folder: Path, tiers: Sequence[str]) -> list[_Piece]:
    """The utterances of a file, in the order of their starts."""
    spans = _spans(path, folder, tiers)
    sounds = {span for span in spans if NO_SPEECH.fullmatch(span.text)}
    reasons = dict.fromkeys(sounds, "no speech")
    shared = overlapping((span for span in spans if span not in sounds), _OVERLAP)
    reasons |= dict.fromkeys(shared, "overlaps another utterance")
    return [_Piece(span, reasons.get(span)) for span in spans[start:]]


def _spans(path: Path, folder: Path, patterns: Sequence[str]) -> list[Span]:
    """The spans of the chosen tiers."""
    channels = _length(path, folder)[1]
    spans = []
    for tier, speaker in chosen_tiers(path, _read(path), patterns):
        for span in tier.spans:
            own = span.speaker or speaker
            channel = span.channel or channel_of(own)
            heard = channel if channel and channels > 1 else None  # a mix of them was transcribed
            spans.append(span._replace(speaker=own, channel=heard))
    return sorted(spans, key=lambda span: (span.start or 0.0, span.end or 0.0, span.speaker or ""))


def _read(path: Path) -> TimedFile:
    return _cached(path, fingerprint(path))


@lru_cache(maxsize=64)
def _cached(path: Path, _: str) -> TimedFile:
    return read_timed(path)


def chosen_tiers(
    path: Path, file: TimedFile, patterns: Sequence[str]
) -> list[tuple[Tier, str | None]]:
    """The tiers to read with their speakers; SourceError if there is a choice to make."""
    if patterns:
        return [
            (tier, tier.speaker or _named(tier, patterns))
            for tier in file.tiers
            if _is_chosen(tier, patterns)
        ]
    full = [tier for tier in file.tiers if tier.spans and not tier.is_points]
    ours = [tier for tier in full if re.fullmatch(r"(.* )?segments", tier.name)]
    own = [(tier, tier.name.removesuffix("segments").strip() or None) for tier in ours]
    one_kind = len({tier.kind for tier in full}) == 1
    people = {tier.speaker for tier in full} - {None}
    if own or len(full) < 2:
        return own or [(tier, tier.speaker) for tier in full]
    if one_kind and len(people) == len(full):  # a tier for each participant
        return [(tier, tier.speaker) for tier in full]
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


def _check_tiers(location: str, paths: Sequence[Path], patterns: Sequence[str]) -> None:
    tiers = [tier for path in paths for tier in _read(path).tiers]
    for pattern in patterns:
        if tiers and not any(_is_chosen(tier, (pattern,)) for tier in tiers):
            names = Counter(tier.name for tier in tiers)
            listed = ", ".join(f"{name} ({count:,} files)" for name, count in names.most_common(20))
            raise SourceError(f"--tier {pattern}: {location} has the tiers {listed}")


def _named(tier: Tier, patterns: Sequence[str]) -> str | None:
    """The speaker by the name of a chosen tier: what ``*`` stands for, or one of several."""
    name = tier.name
    for pattern in patterns:
        if "*" in pattern and fnmatch.fnmatchcase(name, pattern):
            before, _, after = pattern.partition("*")
            return name[len(before) : len(name) - len(after)].strip() or None
    return name if len(patterns) > 1 or tier.kind in patterns else None


def _values(root: Path, name: str, row: _Piece, *, folder: Path, by_speaker: bool) -> Values:
    path, span, refused = root / name, *row
    if span.start is None or span.end is None:
        refused = refused or "no time"
    elif span.end <= span.start:
        refused = "malformed end"
    audio = _audio(path, folder)
    speaker = span.speaker
    if speaker and _NUMBERED.fullmatch(speaker):
        speaker = f"{path.stem} {speaker}"  # a number in its file
    values: dict[str, Any] = {
        "text": span.text,
        "audio": audio or path.with_suffix(".wav"),
        "start": span.start or 0.0,
        "seconds": max(0.0, (span.end or 0.0) - (span.start or 0.0)),
        "channel": span.channel,
        "speaker_id": speaker or (path.stem if by_speaker else None),
        "file": path.stem,
        "folder": path.parent.name,
        "file_and_speaker": f"{path.stem} {span.speaker or ''}".strip(),
        "refused": refused,
    }
    return values


def _audio(path: Path, folder: Path) -> Path | None:
    """The recording of a file."""
    file = _read(path)
    stems = [Path(name).stem for name in file.media if name.lower().endswith(AUDIO_SUFFIXES)]
    stem = path.stem
    stems += [stem, Path(stem).stem]  # anna.da.srt and anna.wav.srt are of anna.wav
    found = recordings(folder)
    for wanted in stems:
        everywhere = found.get(wanted.lower(), [])
        beside = [audio for audio in everywhere if audio.parent == path.parent]
        if beside or len({audio.parent for audio in everywhere}) == 1:
            return (beside or everywhere)[0]
    return None


def _length(path: Path, folder: Path) -> tuple[float | None, int]:
    """The seconds and channels of a file's recording; (None, 1) if it cannot be read."""
    audio = _audio(path, folder)
    return (None, 1) if audio is None else _length_of(audio, fingerprint(audio))


@lru_cache(maxsize=64)
def _length_of(audio: Path, _: str) -> tuple[float | None, int]:
    try:
        with open_audio(audio) as file:
            known = file.frames < UNKNOWN_LENGTH
            return file.frames / file.samplerate if known else None, int(file.channels)
    except (AudioError, SourceError, RuntimeError):
        return None, 1


def _notes(paths: Sequence[Path], folder: Path, patterns: Sequence[str]) -> Iterator[str]:
    """What people should know of the files."""
    chosen = {path: chosen_tiers(path, _read(path), patterns) for path in paths}
    names = Counter(tier.name for tiers in chosen.values() for tier, _ in tiers if tier.name)
    if names:
        listed = ", ".join(f"{name} ({count:,} files)" for name, count in names.most_common(8))
        yield f"read the tiers {listed}"
    spans_of = [_spans(path, folder, patterns) for path in paths]
    texts = [span.text for spans in spans_of for span in spans]
    labels = Counter(label[1] for text in texts if (label := LABEL.match(text)))
    if often := [name for name, count in labels.most_common(5) if count > 1]:
        yield (
            f"read as text: the names before {sum(labels[name] for name in often):,} of "
            f"{len(texts):,} texts, such as '{often[0]}:'; remove them, or write one before each "
            "text of an SRT file, which makes speakers of them"
        )
    if len(texts) >= MANY and not any(" " in text for text in texts):
        yield f"each of the {len(texts):,} texts is a single word; utterances should be sentences"
    if empty := sum(tier.empty for tiers in chosen.values() for tier, _ in tiers):
        yield f"{empty:,} intervals without text are no utterances"
    if points := {tier.name for tiers in chosen.values() for tier, _ in tiers if tier.is_points}:
        yield f"points of {', '.join(sorted(points))} last until the next point"
    without = [path for path, tiers in chosen.items() if not tiers]
    apart = [path for path in paths if _is_apart(path, folder)]
    for what, found in (
        ("without any of the tiers", without),
        (f"ending more than {_APART} s before or after their audio", apart),
    ):
        if found:
            yield f"{what}: {len(found):,} files, such as {found[0].relative_to(folder)}"
    yield from _speaker_notes(spans_of)


def _speaker_notes(spans_of: Sequence[Sequence[Span]]) -> Iterator[str]:
    """What people should know of the speakers, from the spans of each file."""
    speakers = Counter(
        speaker
        for spans in spans_of
        for speaker in {span.speaker for span in spans}
        if speaker is not None and not _NUMBERED.fullmatch(speaker)
    )
    if channels := sum(span.channel is not None for spans in spans_of for span in spans):
        yield f"{channels:,} utterances are cut out of the channel of their speaker"
    if repeated := [name for name, count in speakers.most_common(5) if count > 1]:
        yield (
            f"the same person in several files: {', '.join(repeated)}; if they are not, add "
            "--column speaker_id=file_and_speaker"
        )


def _is_apart(path: Path, folder: Path) -> bool:
    expected, found = _read(path).seconds, _length(path, folder)[0]
    return expected is not None and found is not None and abs(expected - found) > _APART
