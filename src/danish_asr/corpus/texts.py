"""Texts that are not what was said: broken encodings, entities, names of files, repeated texts."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from ftfy import fix_encoding
from ftfy.fixes import unescape_html

from danish_asr.corpus import DANISH
from danish_asr.corpus.shards import ShardEntry
from danish_asr.corpus.sources.base import AUDIO_SUFFIXES


def _decoded(text: str) -> str:
    # ftfy leaves "Ã¥r" and "Ã…rhus" alone; no language has these pairs.
    return fix_encoding(text).replace("Ã¥", "å").replace("Ã…", "Å")


MENDS: Final[Mapping[str, Callable[[str], str]]] = {
    "HTML entities": unescape_html,
    "mojibake": _decoded,
}
"""What `ftfy` would mend: ``&aelig;``, and UTF-8 read as another encoding."""

REPLACED: Final = "replacement characters"
"""U+FFFD: what stood there is lost."""


NAMES: Final = "file name or id as text"

_ID: Final = re.compile(
    r"(?i)[^\W\d][\w-]*[_-]\d[\w-]*|(spk|speaker|taler|person)\d+|\S*[/\\]\S*\.\w{2,4}"
)
"""``spk_012``, ``p225-001``, ``speaker3``, ``clips/0001.wav``."""

MARKUP: Final = "markup or a missing value as text"

_MARKUP: Final = re.compile(r"(?is).*</?\w[^<>]*>.*|\[[^]]*\]|\{.*\}|#?n/a|nan|null|none")
"""``<p>ja</p>``, ``<unk>``, ``[støj]``, ``{"text": "ja"}``, ``nan``, ``#N/A``."""

_MANY: Final = 20
"""Rows, at least, of a dataset in which half of the texts should not be the same one."""


def text_profiles(language: str) -> tuple[str, ...]:
    """Profiles that training targets may have; sentences are compared under the first."""
    return ("coral", "danish") if language == DANISH else ("plain",)


def oddities(text: str, audio: object = None) -> dict[str, int]:
    """The reasons to suspect a text, with the number of characters that are odd.

    ``audio`` is the path of its recording, if it has one.
    """
    lost = text.count("\ufffd")
    found = {name: abs(len(text) - len(mend(text))) for name, mend in MENDS.items()}
    found[REPLACED] = lost
    found["only capitals"] = len(text) if len(text) > 3 and text.isupper() else 0
    found[NAMES] = len(text) if _is_name(text.strip(), audio) else 0
    found[MARKUP] = len(text) if _MARKUP.fullmatch(text.strip()) else 0
    if not text.isprintable():
        found["control characters"] = sum(unicodedata.category(char)[0] == "C" for char in text)
    return {name: count for name, count in found.items() if count}


def _is_name(text: str, audio: object) -> bool:
    """Whether a text is an id, or the name of a recording; ``hest.wav`` may be of a word."""
    if isinstance(audio, Path) and text in {audio.name, audio.stem} and not text.isalpha():
        return True
    is_file = text.lower().endswith(AUDIO_SUFFIXES) and " " not in text
    return is_file or _ID.fullmatch(text) is not None


def repeated_text(root: Path, shards: Sequence[ShardEntry]) -> Iterator[str]:
    """Say which text more than half of the rows have, if there is one."""
    tables = [pq.ParquetFile(root / shard.path).read(["text"]) for shard in shards]
    rows = sum(map(len, tables))
    if rows < _MANY:
        return
    counts = pa.concat_tables(tables)["text"].value_counts()
    most = pc.max(counts.field("counts"))
    if most.as_py() > rows / 2:
        text = counts.field("values")[pc.index(counts.field("counts"), most).as_py()].as_py()
        yield f"{most.as_py():,} of {rows:,} rows have the text {text[:60]!r}; is it what is said?"


def unusable_text(text: str, odd: Mapping[str, int], split: str) -> str | None:
    """Why a text with these `oddities` cannot be used; None if it can.

    Broken texts are kept out of training only, so that published test sets stay whole.
    """
    if not text.strip():
        return "empty text"
    if text.lstrip().startswith("{\\rtf"):
        return "RTF, not plain text"
    if not any(map(str.isalnum, text)):  # a dash, or invisible characters
        return "no letter or digit"
    broken = (name for name in (*MENDS, REPLACED) if name in odd and split == "train")
    return next(broken, None)
