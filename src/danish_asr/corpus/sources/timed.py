"""Recordings with texts beside them: each span of timed text is an utterance, or all of a ``.txt``.

The recording of ``anna.TextGrid`` is ``anna.wav`` (or of any other ending), in the same folder or
alone of its name below the source. A speaker is a participant of ELAN, a voice of WebVTT, a label
of SRT, or what names one of several tiers. With ``--split-by-speaker`` it is else the file, or the
folder of a ``.txt``, if no other place has that name. Each file is read once.
"""

import fnmatch
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, Final

from danish_asr.base.errors import SourceError
from danish_asr.base.folders import AUDIO_SUFFIXES, is_audio, is_video, name_key
from danish_asr.base.progress import track
from danish_asr.base.schema import SPLIT_ALIASES, SPLITS
from danish_asr.base.tables import code_page_hint
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.columns import check_chosen
from danish_asr.corpus.people import speaker_of
from danish_asr.corpus.rows import NO_TIME, Source, table_of
from danish_asr.corpus.sources.recordings import (
    SEVERAL,
    TextFolder,
    fetch_files,
    stems_of,
    versions_of_files,
)
from danish_asr.corpus.sources.timed_files import (
    KEPT_NAMES,
    MUSIC,
    NotUtf8Error,
    Span,
    Tier,
    TimedFile,
    kept_names,
)

NUMBERED: Final = re.compile(r"(?i)(speaker|spk|taler|person|guest)[ _-]*(\d+|[a-z])")
"""A speaker who has a number or a letter in the file, and no name."""

NO_SPEAKER: Final = "no speaker in a file that names others (--column speaker_id=file takes it)"
"""A reason in the ledger, if speakers are divided: one of those may speak."""

APART: Final = "recordings in another folder than their texts"
UNLINKED: Final = "recordings that have a file's name, where those that it links to are missing"

_COLUMNS: Final = ("speaker_id", "file", "folder", "folder_above", "file_and_speaker")

_MUSIC: Final = re.compile(r"[♪♫].*")
_BRACKET: Final = re.compile(r"\[[^]]*\]|\([^)]*\)")

_UNREAD_SPEAKERS: Final = (
    "texts without a speaker in several folders (--column speaker_id=folder takes their names)"
)

NAMED: Final = "speakers by the name and the colon that their texts began with"
UNCHOSEN: Final = "tiers that were read as speech (--tier chooses others)"
_SHOWN: Final = 8  # of these names
_SAMPLES: Final = 50  # files whose beginnings tell their code page
_BEGINNING: Final = 100_000  # bytes

Texts = dict[Path, tuple[Path, list[Span]]]
"""By recording, the file of its texts and what is in it."""


def open_timed(suffix: str, location: str, options: ConvertOptions, files: TextFolder) -> Source:
    """Read the texts of an ending, such as ``.srt``, in a folder and all folders below it."""
    check_chosen(_COLUMNS, options.columns)
    folder, is_file = files.root, Path(location).is_file()
    paths = [folder / Path(location).name] if is_file else files.of(suffix)
    reading = _Reading(files, options.tiers)
    for path in track(paths, f"reading {suffix}", len(paths)):
        if is_file or files.is_text(path):
            reading.add(path)
    reading.check(location)
    texts_of, counts = reading.texts_of, reading.counts
    if options.split_by_speaker and options.columns.get("speaker_id", "speaker_id") == "speaker_id":
        _check_guesses(texts_of, folder)
    elif "speaker_id" not in options.columns:
        counts[_UNREAD_SPEAKERS] = _in_folders(texts_of, folder)
    all_spans = [span for _, spans in texts_of.values() for span in spans]
    of_files = [all_spans] if suffix == ".txt" else [spans for _, spans in texts_of.values()]
    counts[KEPT_NAMES] = sum(map(kept_names, of_files))
    for what, names, least in ((NAMED, reading.named, 1), (UNCHOSEN, reading.unchosen, 2)):
        if len(names) >= least:  # the rarest first: these may be none
            rarest = names.most_common()[: -_SHOWN - 1 : -1]
            shown = ", ".join(f"{name} ({count:,})" for name, count in rarest)
            counts[f"{what}, such as {shown}"] = len(names)
    silent = no_speech([span.text for span in all_spans])
    for note, not_read in reading.not_read.items():
        audio, other = min(not_read.items())
        shown = audio.relative_to(folder).as_posix()
        counts[f"{note}, such as {shown}, not {other}"] = len(not_read)
    if not is_file:
        all_audio = {*files.of(*AUDIO_SUFFIXES)}
        counts["recordings without a text"] = len(all_audio - reading.with_text)
    return Source(
        name=location,
        rows=table_of(_records(texts_of, folder, silent, options), options),
        fetch=partial(fetch_files, folder),
        versions=partial(versions_of_files, folder),
        columns={"speaker_id": "speaker", **options.columns},
        counts=+counts,
    )


@dataclass
class _Reading:
    """The texts that were read, and what was seen in their files."""

    files: TextFolder
    patterns: Sequence[str]  # of tiers
    texts_of: Texts = field(default_factory=dict)
    with_text: set[Path] = field(default_factory=set)  # recordings
    # By a note for people, recordings and the name of one that is not read instead.
    not_read: defaultdict[str, dict[Path, str]] = field(default_factory=lambda: defaultdict(dict))
    named: Counter[str] = field(default_factory=Counter)  # texts by the names before them
    tiers: Counter[str] = field(default_factory=Counter)  # files by the names of their tiers
    unchosen: Counter[str] = field(default_factory=Counter)  # and of those read without --tier
    counts: Counter[str] = field(default_factory=Counter)  # of signs that were removed
    not_utf8: list[Path] = field(default_factory=list)

    def add(self, path: Path) -> None:
        """Read a file. SourceError: it is damaged, or another one has text of its recording."""
        try:
            file = self.files.read(path)
        except NotUtf8Error:
            self.not_utf8.append(path)
            return
        audio, *others = _recordings(path, file, self.files)
        if audio in self.texts_of:
            raise SourceError(
                f"{audio.relative_to(self.files.root)}: both {self.texts_of[audio][0].name} and "
                f"{path.name} have its text; keep one of them in the folder"
            )
        tiers = chosen_tiers(path, file, self.patterns)
        if not self.patterns:
            self.unchosen.update(tier.name for tier in tiers if tier.name)
        self.texts_of[audio] = path, _spans(path, file, audio, tiers)
        self.with_text |= {audio, *others}
        for other in {*others} - {audio}:
            self.not_read[SEVERAL][audio] = other.name
        if audio.parent != path.parent:
            beside = path.with_name(audio.name).relative_to(self.files.root)
            self.not_read[APART][audio] = beside.as_posix()
        linked = {name_key(Path(name).stem): name for name in file.media if is_audio(name)}
        if linked and linked.keys().isdisjoint(name_key(own.stem) for own in (audio, *others)):
            self.not_read[UNLINKED][audio] = min(linked.values())
        names = {name for tier in file.tiers for name in (tier.name, tier.kind) if name}
        self.tiers.update(names)
        self.counts.update(file.removed)
        self.named.update(file.named)

    def check(self, location: str) -> None:
        """Raise `SourceError` for files that are not UTF-8, or a pattern of no tier."""
        _check_utf8(self.not_utf8, self.files.root)
        for pattern in self.patterns:
            if not fnmatch.filter(self.tiers, pattern):
                listed = ", ".join(
                    f"{name} ({count:,} files)" for name, count in self.tiers.items()
                )
                raise SourceError(f"--tier {pattern}: {location} has the tiers {listed}")


def _check_utf8(paths: Sequence[Path], folder: Path) -> None:
    """Raise `SourceError` for all texts that are no UTF-8, with the command that converts them."""
    if not paths:
        return
    names = " ".join(quote(path.relative_to(folder).as_posix()) for path in paths)
    beginnings = [path.read_bytes()[:_BEGINNING] for path in paths[:_SAMPLES]]

    def command(page: str) -> str:
        convert = f'iconv -f {page} -t UTF-8 "$file" > "$file.new" && mv "$file.new" "$file"'
        return f"cd {quote(str(folder))}; for file in {names}; do {convert}; done"

    raise SourceError(
        f"{folder}: {len(paths):,} {paths[0].suffix} files are not UTF-8; "
        f"{code_page_hint(*beginnings, command=command)}"
    )


def _in_folders(texts_of: Texts, folder: Path) -> int:
    """How many texts without a speaker there are, if they are in several folders but splits."""
    counts: Counter[Path] = Counter()
    for path, spans in texts_of.values():
        counts[path.parent] += sum(not span.speaker for span in spans)
    places = {_without_splits(place.relative_to(folder)) for place in +counts}
    return counts.total() if len(places) > 1 else 0


def _recordings(path: Path, file: TimedFile, files: TextFolder) -> list[Path]:
    """The recordings of a file's media and of its name; the first is read, and may be missing.

    A video may have no sound, and is the last choice.
    """
    named = sorted((Path(name) for name in file.media if is_audio(name)), key=is_video)
    stems = [name.stem for name in named]
    present: list[Path] = []
    for stem in (*stems, *stems_of(path)):
        places = files.recordings.get(name_key(stem), {})
        if path.parent in places or len(places) == 1:
            own = places.get(path.parent) or next(iter(places.values()))
            present += sorted(own, key=lambda audio: audio.stem != stem)
    missing = path.with_name(named[0].name if named else f"{stems_of(path)[-1]}.wav")
    return sorted(present, key=is_video) or [missing]


def _spans(path: Path, file: TimedFile, audio: Path, tiers: Sequence[Tier]) -> list[Span]:
    """The spans of some tiers, on the clock of the recording, ordered by their starts."""
    offset = _offset(path, file, audio)
    spans = []
    for tier in tiers:
        for span in tier.spans:
            start, end = (None if time is None else time + offset for time in span[:2])
            speaker = span.speaker or tier.speaker
            spans.append(span._replace(start=start, end=end, speaker=speaker))
    return sorted(spans, key=lambda span: (span.start or 0.0, span.end or 0.0, span.speaker or ""))


def _offset(path: Path, file: TimedFile, audio: Path) -> float:
    """How much later the recording's clock is than the file's, in seconds."""
    offsets = {name_key(Path(name).stem): offset for name, offset in file.media.items()}
    offsets |= {name_key(name): offset for name, offset in file.media.items()}
    for name in (audio.name, audio.stem):
        if name_key(name) in offsets:
            return offsets[name_key(name)]
    if len({*offsets.values()}) > 1:
        media = ", ".join(f"{name} ({offset:g} s)" for name, offset in file.media.items())
        raise SourceError(
            f"{path}: its recordings begin at different times, and {audio.name} is none of them: "
            f"{media}; rename the recording, or link it in ELAN again"
        )
    return next(iter(offsets.values()), 0.0)


def chosen_tiers(path: Path, file: TimedFile, patterns: Sequence[str]) -> list[Tier]:
    """The tiers to read, with their speakers; SourceError if there is a choice to make."""
    if patterns:
        names = [tier.name for tier in file.tiers]
        matching = {name for pattern in patterns for name in fnmatch.filter(names, pattern)}
        return [  # the name of a single tier is no speaker's
            tier if [*patterns] == [tier.name] else tier._replace(speaker=tier.speaker or tier.name)
            for tier in file.tiers
            if tier.name in matching or tier.kind in patterns
        ]
    with_text = [tier for tier in file.tiers if any(span.text for span in tier.spans)]
    full = [tier for tier in with_text if not all(span.fault for span in tier.spans)] or with_text
    if not full:  # nobody has written in any
        return [*file.tiers]
    ours = [tier for tier in full if re.fullmatch(r"(.* )?segments", tier.name)]
    if ours:
        return [tier._replace(speaker=tier.name.rpartition(" ")[0] or None) for tier in ours]
    people = {tier.speaker for tier in full} - {None}
    has_own_tier = len({tier.kind for tier in full}) == 1 and len(people) == len(full)
    if len(full) < 2 or has_own_tier:
        return full
    listed = "; ".join(
        f"{tier.name!r}{tier.kind and f' of type {tier.kind}'} with {len(texts):,}, such as "
        f"{texts[0][:30]!r}"
        for tier in full
        if (texts := [span.text for span in tier.spans if span.text])
    )
    raise SourceError(
        f"{path}: several tiers have text: {listed}. Choose with --tier NAME, or a type of ELAN's; "
        "of several (--tier again, or a pattern such as 'ORT@*') each is a speaker"
    )


def _records(
    texts_of: Texts, folder: Path, silent: Mapping[str, str], options: ConvertOptions
) -> Iterator[dict[str, Any]]:
    """The records of all recordings; ``silent`` are texts that are no speech, and why."""
    columns = {"speaker_id": "speaker_id", **options.columns}
    is_divided = options.split_by_speaker and columns["speaker_id"] == "speaker_id"
    for audio, (path, spans) in texts_of.items():
        names = {
            "file": path.stem,
            "folder": path.parent.name,
            "folder_above": path.parent.parent.name,
        }
        place = {
            "file": path.relative_to(folder.parent).as_posix(),
            "audio": audio.relative_to(folder).as_posix(),
        }
        is_timed = path.suffix.lower() != ".txt"
        spoken = (span for span in spans if not span.fault and span.text not in silent)
        shared = _overlapping(spoken)
        has_speakers = is_divided and any(span.speaker for span in spans)
        for row, span in enumerate(spans):
            fault = "overlaps another utterance" if span in shared else span.fault
            if is_timed and None in {span.start, span.end}:
                fault = fault or NO_TIME
            if has_speakers and not span.speaker:
                fault = fault or NO_SPEAKER
            speaker = span.speaker
            if span.speaker or options.split_by_speaker:
                speaker = _guess_of(path, span) or span.speaker
            file_and_speaker = f"{path.stem} {span.speaker or ''}".strip()
            own = {**names, "speaker_id": speaker, "file_and_speaker": file_and_speaker}
            yield {
                **{ours: own.get(theirs) for ours, theirs in columns.items()},
                **place,
                "row": row,
                "text": span.text,
                "start": span.start,
                "end": span.end,
                "channel": span.channel,
                "refused": silent.get(span.text, fault),
            }


def no_speech(texts: Sequence[str]) -> dict[str, str]:
    """The texts that are no speech, and why: music, and brackets that recur.

    Linguists write overlapping speech in brackets, subtitlers noises; those occur again.
    """
    bracketed = Counter(text.casefold() for text in texts if _BRACKET.fullmatch(text))
    recurring = {text: "in brackets" for text in texts if bracketed[text.casefold()] > 1}
    return recurring | {text: MUSIC for text in texts if _MUSIC.fullmatch(text)}


def _guess_of(path: Path, span: Span) -> str | None:
    """Who speaks by the names of the file and its folder; None if the file names the speaker."""
    if span.speaker and not NUMBERED.fullmatch(span.speaker):
        return None
    if path.suffix.lower() == ".txt":
        return path.parent.name
    return f"{path.stem} {span.speaker or ''}".strip()  # with its number in the file


def _check_guesses(texts_of: Texts, folder: Path) -> None:
    """Raise `SourceError` if names make one speaker of files or folders in several places."""
    first: dict[str, Path] = {}
    for path, spans in texts_of.values():
        is_timed = path.suffix.lower() != ".txt"
        own = path.relative_to(folder)
        place = own if is_timed else _without_splits(own.parent)
        for span in spans:
            speaker = speaker_of(_guess_of(path, span))
            if speaker is None or first.setdefault(speaker, place) == place:
                continue
            several, one = "folder_above", "folder"
            if is_timed:
                several = "folder or speaker_id=folder_above"
                one = "file_and_speaker" if span.speaker else "file"
            raise SourceError(
                f"--split-by-speaker: {first[speaker]} and {place} would be one speaker, "
                f"{speaker!r}, by their names alone. If they are several people, rename them, or "
                f"name a folder that is the speaker: --column speaker_id={several}; if they are "
                f"one person, add --column speaker_id={one}"
            )


def _without_splits(folder: Path) -> Path:
    """A folder's path without the names of splits: train/anna and test/anna are one place."""
    names = {*SPLITS, *SPLIT_ALIASES}
    return Path(*(part for part in folder.parts if part.lower() not in names))


def _overlapping(spans: Iterable[Span]) -> set[Span]:
    """The spans that have too much of another one of the same channel; they come in order."""
    shared: set[Span] = set()
    latest: dict[int | None, tuple[float, Span]] = {}  # by channel, that which ends last so far
    for span in spans:
        if span.start is None or span.end is None:
            continue
        last_end, other = latest.get(span.channel, (span.start, span))
        if min(last_end, span.end) - span.start > 0.2:  # seconds: less is put up with
            shared |= {other, span}
        if span.end > last_end:
            latest[span.channel] = span.end, span
    return shared
