"""What a dataset says about its speakers: too few for an interval, or one under two spellings."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from unicodedata import normalize

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from danish_asr.base.schema import MIN_EFFECTIVE, MIN_SPEAKERS, SPLITS, UTTERANCE_SCHEMA
from danish_asr.corpus.shards import ShardEntry
from danish_asr.corpus.sources.metadata import map_dialect, speaker
from danish_asr.text.labels import similar_labels

LABELS: Final = ("speaker_id", "dialect", "gender", "country_birth")

PEOPLE: Final = pa.schema([UTTERANCE_SCHEMA.field(name) for name in (*LABELS, "audio_size")])
"""The columns that are looked at."""

_MEANINGS: Final[Mapping[str, Callable[[str], str | None]]] = {
    "gender": lambda label: speaker(gender=label).gender,
    "dialect": lambda label: map_dialect(label, None),
}
"""What a label would become in a conversion: a reader of one's own may leave it as it is."""

_NAMED: Final = 5  # labels that are spelt in several ways, of each column


def people_of(root: Path, shards: Sequence[ShardEntry]) -> dict[str, pa.Table]:
    """The columns `PEOPLE` of all shards, by split."""
    tables = {split: [PEOPLE.empty_table()] for split in SPLITS}
    for shard in shards:
        with pq.ParquetFile(root / shard.path) as parquet:
            tables[shard.partition("split")].append(parquet.read(PEOPLE.names).cast(PEOPLE))
    return {split: pa.concat_tables(own) for split, own in tables.items()}


def people_notes(people: Mapping[str, pa.Table]) -> Iterator[str]:
    """Yield lines for people, from the columns `PEOPLE` by split."""
    everyone = pa.concat_tables(table.select(PEOPLE.names) for table in people.values())
    yield from _few_speakers(people["test"], everyone)
    for column in LABELS:
        labels = pc.unique(everyone[column]).to_pylist()
        meaning = _MEANINGS.get(column, str)
        written = similar_labels(labels, names=column == "speaker_id", meaning=meaning)
        for names in written[:_NAMED]:
            # Two Unicode forms of a letter look the same.
            shown = ascii if len({normalize("NFC", name) for name in names}) == 1 else repr
            yield f"{column}: may be one under several spellings: {', '.join(map(shown, names))}"
        if len(written) > _NAMED:
            yield f"{column}: {len(written) - _NAMED:,} more are spelt in several ways"


def _few_speakers(test: pa.Table, everyone: pa.Table) -> Iterator[str]:
    """Say that error rates will have no interval, which people would learn after the training."""
    known = test.filter(pc.is_valid(test["speaker_id"]))
    if not known:
        return
    speech = known.group_by("speaker_id").aggregate([("audio_size", "sum")])["audio_size_sum"]
    speakers, total = len(speech), pc.sum(speech).as_py()
    effective = total**2 / max(1, sum(samples**2 for samples in speech.to_pylist()))
    found, needed = f"{speakers:,} speaker{'s' if speakers > 1 else ''}", f"{MIN_SPEAKERS}"
    if speakers >= MIN_SPEAKERS:
        found = f"speech as of {effective:.1f} equal speakers"
        needed = f"{MIN_EFFECTIVE}"
    if speakers < MIN_SPEAKERS or effective < MIN_EFFECTIVE:
        people = pc.count_distinct(everyone["speaker_id"]).as_py()
        way = f"All splits together have {people}"
        yield f"test has {found}; an interval needs {needed}. {way}"
