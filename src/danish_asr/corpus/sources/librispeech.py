"""LibriSpeech's layout: ``train-clean/84/121123/84-121123.trans.txt`` beside FLAC files.

A line of a text is the id of an utterance, which is also the name of its audio, and the words.
"""

from pathlib import Path

from danish_asr.corpus.sources.base import SourceOptions
from danish_asr.corpus.sources.listed import ListedSource, Row, find_audio, open_lists, read_lines


def open_librispeech(where: str, options: SourceOptions) -> ListedSource:
    """Open a folder above speakers and chapters."""
    lists, what = (lambda folder: folder.rglob("*.trans.txt")), "*.trans.txt"
    return open_lists(where, options, lists, read_lines, _values, what=what)


def _values(root: Path, name: str, line: str) -> Row:
    id_, _, text = line.partition(" ")
    folder = (root / name).parent
    audio = find_audio(folder / id_)
    return {"id": id_, "text": text, "audio": audio, "speaker_id": folder.parent.name}
