"""Small real data for tests: audio files, sources in CoRal's shape, built datasets.

Everything is made fast (tones, no speech) and is the same on every call.
"""

import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile

from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.convert import convert
from danish_asr.corpus.inventory import Inventory

TEXTS = (
    "Anna køber 21 æbler i Århus",
    "Bo læser en gammel avis",
    "det regner ofte på Fyn",
    "Åse drikker 3 kopper te",
    "øh det koster 25 % mere",
)
DIALECTS = ("midtøstjysk", "sjællandsk", "amagermål", "bornholmsk", "vestjysk")

_AUDIO = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
_COMMON = {
    "id_speaker": pa.string(),
    "text": pa.string(),
    "age": pa.int64(),
    "gender": pa.string(),
    "dialect": pa.string(),
    "country_birth": pa.string(),
    "audio": _AUDIO,
}
READ_ALOUD_SCHEMA = pa.schema({"id_recording": pa.string(), "validated": pa.string()} | _COMMON)
CONVERSATION_SCHEMA = pa.schema(
    {"id_conversation": pa.string(), "id_segment": pa.int64()} | _COMMON
)


def tone(
    seconds: float = 0.5,
    *,
    rate: int = 48_000,
    hertz: float = 220.0,
    channels: int = 1,
    format: str = "WAV",  # noqa: A002 - soundfile's own word
    subtype: str | None = None,
) -> bytes:
    """An audio file that holds a sine of amplitude 0.3."""
    time = np.arange(round(seconds * rate)) / rate
    wave = 0.3 * np.sin(2 * np.pi * hertz * time)
    return encode(np.repeat(wave[:, None], channels, axis=1), rate, format=format, subtype=subtype)


def encode(
    samples: np.ndarray[Any, Any],
    rate: int,
    *,
    format: str = "WAV",  # noqa: A002 - soundfile's own word
    subtype: str | None = None,
) -> bytes:
    """An audio file that holds the samples."""
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=format, subtype=subtype)
    return file.getvalue()


def coral_row(number: int, *, split: str = "train", **values: Any) -> dict[str, Any]:
    """Row ``number`` of the read-aloud subset; ``values`` replace or add columns."""
    audio = values.pop("audio", None)
    if audio is None and "audio_struct" not in values:
        audio = tone(0.5 + 0.1 * (number % 5), hertz=200.0 + 20 * (number % 10))
    struct = values.pop("audio_struct", {"bytes": audio, "path": f"{split}-{number}.wav"})
    return {
        "id_recording": f"rec_{split}_{number}",
        "validated": None,
        "id_speaker": f"spe_{split}_{number % 4}",
        "text": TEXTS[number % len(TEXTS)],
        "age": (19, 34, 61)[number % 3],
        "gender": ("female", "male")[number % 2],
        "dialect": DIALECTS[number % len(DIALECTS)],
        "country_birth": "DK",
        "audio": struct,
    } | values


def conversation_row(number: int, *, split: str = "train", **values: Any) -> dict[str, Any]:
    """Row ``number`` of the conversation subset; ``values`` replace or add columns."""
    row = coral_row(number, split=split, **values)
    del row["id_recording"], row["validated"]
    return {"id_conversation": f"con_{split}_{number // 10}", "id_segment": number % 10} | row


def write_parquet(
    path: Path,
    rows: Sequence[Mapping[str, Any]],
    schema: pa.Schema = READ_ALOUD_SCHEMA,
    *,
    row_group_size: int = 100,
) -> None:
    """Write rows as one Parquet file; columns that the schema lacks are added with their type."""
    table = pa.Table.from_pylist(list(rows), schema)
    names = {name for row in rows for name in row} - set(schema.names)
    for name in sorted(names):
        table = table.append_column(name, pa.array([row.get(name) for row in rows]))
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=row_group_size)


def build_source(
    folder: Path,
    *,
    train: int = 12,
    dev: int = 4,
    test: int = 6,
    conversation: bool = True,
    row_group_size: int = 100,
) -> Path:
    """Write a small corpus in CoRal's shape, with that many rows per split and subset."""
    subsets: list[tuple[str, Callable[..., dict[str, Any]], pa.Schema]] = [
        ("read_aloud", coral_row, READ_ALOUD_SCHEMA),
        ("conversation", conversation_row, CONVERSATION_SCHEMA),
    ]
    for subset, row, schema in subsets[: 1 + conversation]:
        for split, count in (("train", train), ("val", dev), ("test", test)):
            path = folder / subset / f"{split}-00000-of-00001.parquet"
            rows = [row(number, split=split) for number in range(count)]
            write_parquet(path, rows, schema, row_group_size=row_group_size)
    return folder


def build_dataset(
    root: Path, *, name: str = "tiny", options: ConvertOptions | None = None, **source: Any
) -> Inventory:
    """Build a small dataset below ``root`` from `build_source`, made with ``source``'s arguments.

    The source is written to ``<root>.source``.
    """
    folder = build_source(root.with_name(root.name + ".source"), **source)
    return convert(folder, root, options or ConvertOptions(name=name))


def tree(root: Path) -> dict[str, str]:
    """A digest of every file below ``root``, with the root's own path taken out of the cards."""
    own = str(root.resolve()).encode()
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(
            path.read_bytes().replace(own, b"ROOT")
        ).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def arpa_text(first: str, second: str) -> str:
    """A language model of two words in an ARPA file, which expects them in this order."""
    unigrams = ["-2.0\t<unk>", "-99\t<s>\t-0.3", "-0.7\t</s>"]
    unigrams += [f"-0.5\t{word}\t-0.3" for word in (first, second)]
    bigrams = [f"-0.1\t{pair}" for pair in (f"<s> {first}", f"{first} {second}", f"{second} </s>")]
    head = ["\\data\\", "ngram 1=5", "ngram 2=3", "", "\\1-grams:", *unigrams]
    return "\n".join([*head, "", "\\2-grams:", *bigrams, "", "\\end\\", ""])
