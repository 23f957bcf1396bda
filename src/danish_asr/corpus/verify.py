"""Read a built dataset back and report all faults at once: files, ids, leaks, speakers, the card.

Comes in: the root of a dataset. Goes out: a `Verification`. `leaks_of` also serves its page.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from ruamel.yaml.error import YAMLError

from danish_asr.base.errors import ConfigError
from danish_asr.base.files import from_yaml, sha256_of
from danish_asr.base.progress import watch
from danish_asr.base.schema import (
    CARDS_DIR,
    FLAC_MD5,
    LEDGER_FILE,
    MIN_SPEAKERS,
    SAMPLE_RATE,
    SPLITS,
    SUSPECTS_FILE,
    VERSION_DIR,
)
from danish_asr.base.workers import run_in_processes
from danish_asr.corpus.division import sentences_of
from danish_asr.corpus.inventory import Inventory, ListedShard, files_of, read_inventory, unlisted
from danish_asr.corpus.people import alike, persons_of
from danish_asr.corpus.task import text_profiles
from danish_asr.text.profiles import normalizer, profile_in

LEAKS: Final = {"speakers": "person", "sentences": "sentence", "audio": "audio"}
"""What splits should not share, and its column in `COMPARED`."""

_EXAMPLES: Final = {"person": "speaker_id", "sentence": "sentence", "audio": "id"}
"""What a message shows of these columns."""

_SHOWN: Final = 20  # rows of the same audio and different texts
_TEXT: Final = 100  # characters of a text

COMPARED: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("corpus", "split", "id", "speaker_id", "dialect")),
        ("person", pa.string()),  # see `people.persons_of`
        ("text", pa.string()),
        ("sentence", pa.string()),  # null if it is short, see `division.sentences_of`
        ("audio", pa.binary()),  # the MD5 of its samples
        ("audio_size", pa.int64()),
    ]
)
"""What is compared over all shards."""


class Leak(NamedTuple):
    """What two splits share."""

    what: str  # of `LEAKS`
    one: str  # the split that comes first in `SPLITS`
    other: str
    shared: int  # values
    rows: int  # of the other split with one of them
    share: float  # of the rows of the other split
    examples: list[str]

    def __str__(self) -> str:
        return (
            f"{self.one} and {self.other} share {self.shared:,} {self.what}, such as "
            f"{self.examples[0]!r} ({self.rows:,} rows in {self.other})"
        )


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What is wrong with a dataset, line by line, and its hours per split and dialect."""

    damage: list[str]
    leaks: list[Leak]
    contradictions: list[str]  # rows of the same audio with different texts in a split
    unchecked: list[str]  # what could not be compared, and why
    notes: list[str]
    hours: dict[tuple[str, str | None], float]
    suspects: int  # rows of suspects.parquet
    is_combined: bool

    @property
    def faults(self) -> list[str]:
        """All that is wrong."""
        return [*self.damage, *map(str, self.leaks), *self.contradictions, *self.unchecked]

    @property
    def lines(self) -> list[str]:
        """The faults, of contradictions not more than people read."""
        shown = shown_of(self.contradictions)
        return [*self.damage, *map(str, self.leaks), *shown, *self.unchecked]


def verify(root: Path, *, workers: int = 1, allow_shared: Collection[str] = ()) -> Verification:
    """Check the files of a dataset, and compare its rows.

    Raises:
        DatasetError: There is no finished dataset.
    """
    inventory = read_inventory(root)
    language = next((entry.partition("language") for entry in inventory.shards), "")
    profile = sentence_profile(root, inventory.name, language)
    compare = partial(
        _compare, root=root, profile=profile.name, share_people=inventory.share_people
    )
    results = watch(
        "verified",
        run_in_processes(compare, inventory.shards, workers),
        lambda result: len(result[0]),
        inventory.rows,
    )
    tables, faults = zip((COMPARED.empty_table(), ""), *results, strict=True)
    rows = pa.concat_tables(tables)
    damage = [
        *_card_faults(root, inventory),
        *unlisted(inventory, files_of(root)),
        _file_fault(root, LEDGER_FILE, inventory.ledger_sha256),
        _file_fault(root, SUSPECTS_FILE, inventory.suspects_sha256),
        *faults,
    ]
    if repeated := repeated_ids(rows):
        first = ", ".join(repeated[:3])
        damage.append(f"{VERSION_DIR}: {len(repeated):,} ids occur more than once: {first}")
    leaks, contradictions = leaks_of(rows), [*contradictions_of(rows, profile.name or "raw")]
    allowed = [str(leak) for leak in leaks if leak.what in allow_shared]
    if "audio" in allow_shared:
        allowed += shown_of(contradictions)
        contradictions = []
    summed = rows.group_by(["split", "dialect"]).aggregate([("audio_size", "sum")])
    return Verification(
        damage=sorted(filter(None, damage)),
        leaks=[leak for leak in leaks if leak.what not in allow_shared],
        contradictions=contradictions,
        unchecked=[profile.fault] if profile.fault else [],
        notes=[
            *repeats_of(rows),
            *alike(rows["person"].drop_null().unique().to_pylist()),
            *gaps_of_test(rows),
            *(f"allowed: {line}" for line in allowed),
        ],
        hours={
            (row["split"], row["dialect"]): row["audio_size_sum"] / SAMPLE_RATE / 3600
            for row in summed.to_pylist()
        },
        suspects=sum(inventory.suspects.values()),
        is_combined=inventory.key.startswith("combine "),
    )


def _compare(
    entry: ListedShard, *, root: Path, profile: str | None, share_people: Sequence[Sequence[str]]
) -> tuple[pa.Table, str]:
    """What is compared of a shard, of `COMPARED`, and what is wrong with its file."""
    if not (root / entry.path).exists():  # `unlisted` says it
        return COMPARED.empty_table(), ""
    if fault := _file_fault(root, entry.path, entry.sha256):
        return COMPARED.empty_table(), fault
    with pq.ParquetFile(root / entry.path) as parquet:
        groups = map(parquet.read_row_group, range(parquet.num_row_groups))
        tables = [_compared(group, entry, profile, share_people) for group in groups]
    return pa.concat_tables(tables), ""


def _compared(
    rows: pa.Table, entry: ListedShard, profile: str | None, share_people: Sequence[Sequence[str]]
) -> pa.Table:
    corpora = [entry.partition("corpus")] * len(rows)
    persons = persons_of(corpora, rows["speaker_id"].to_pylist(), share_people)
    columns = {
        "corpus": pa.array(corpora, pa.string()),
        "split": pa.repeat(entry.partition("split"), len(rows)),
        **{name: rows[name] for name in ("id", "speaker_id", "dialect", "text", "audio_size")},
        "person": pa.array(persons, pa.string()),
        "sentence": sentences_under(profile, rows["text"]),
        "audio": pc.binary_slice(rows["audio_bytes"], FLAC_MD5.start, FLAC_MD5.stop),
    }
    return pa.table(columns).select(COMPARED.names).cast(COMPARED)


def sentences_under(profile: str | None, texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """What `leaks_of` compares of texts; without a profile nothing, which is null."""
    if profile is None:
        return pa.chunked_array([pa.nulls(len(texts), pa.string())])
    return sentences_of(texts, normalizer(profile))


def leaks_of(rows: pa.Table) -> list[Leak]:
    """What each two splits share: speakers, sentences and audio, of `COMPARED`'s columns."""
    leaks = []
    for what, column in LEAKS.items():
        valid = rows.filter(pc.is_valid(rows[column]))
        for one, other in combinations(SPLITS, 2):
            of_one = valid.filter(pc.equal(valid["split"], one))[column]
            of_other = valid.filter(pc.equal(valid["split"], other))
            common = of_other.filter(pc.is_in(of_other[column], of_one.unique()))
            if not len(common):
                continue
            examples = common[_EXAMPLES[column]].unique()[:3].to_pylist()
            shared = pc.count_distinct(common[column]).as_py()
            share = len(common) / pc.sum(pc.equal(rows["split"], other)).as_py()
            leaks.append(Leak(what, one, other, shared, len(common), share, examples))
    return leaks


def contradictions_of(rows: pa.Table, profile: str) -> Iterator[str]:
    """Say which rows of a split have the same audio, and different texts under a profile."""
    spoken = normalizer(profile)
    counted = rows.group_by(["split", "audio"]).aggregate([([], "count_all")])
    repeated = counted.filter(pc.greater(counted["count_all"], 1))["audio"].drop_null()
    seen: dict[tuple[str, bytes], dict[str, Any]] = {}
    for row in rows.filter(pc.is_in(rows["audio"], repeated)).to_pylist():
        one = seen.setdefault((row["split"], row["audio"]), row)
        if spoken(one["text"]) != spoken(row["text"]):
            names = " and ".join(f"{own['corpus']} {own['id']}" for own in (one, row))
            texts = f"{one['text'][:_TEXT]!r} and {row['text'][:_TEXT]!r}"
            yield f"{row['split']}: {names} have the same audio and different texts: {texts}"


def shown_of(contradictions: Sequence[str]) -> list[str]:
    """The first of `contradictions_of`, and how many others there are."""
    others = len(contradictions) - _SHOWN
    more = [f"the same audio and different texts have {others:,} other rows too"]
    return [*contradictions[:_SHOWN], *(more if others > 0 else [])]


def repeats_of(rows: pa.Table) -> Iterator[str]:
    """Say how many rows of a split are there again, as if two tables had listed them."""
    groups = rows.group_by(["split", "audio", "text"])
    counted = groups.aggregate([([], "count_all"), ("id", "max")])
    repeated = counted.filter(pc.field("count_all") > 1).sort_by("id_max")
    for split in SPLITS:
        found = repeated.filter(pc.field("split") == split)
        if len(found):
            again = pc.sum(found["count_all"]).as_py() - len(found)
            examples = ", ".join(found["id_max"][:3].to_pylist())
            yield f"{split}: {again:,} rows have the audio and the text of another row: {examples}"


def gaps_of_test(rows: pa.Table) -> Iterator[str]:
    """Say which scores will be missing, which people would learn after the training."""
    test, train = (rows.filter(pc.equal(rows["split"], split)) for split in ("test", "train"))
    speakers = pc.count_distinct(rows["person"]).as_py()
    tested = pc.count_distinct(test["person"]).as_py()
    if len(rows) and not speakers:
        yield "no row has a speaker, so speakers that splits share cannot be found"
    if 0 < tested < MIN_SPEAKERS:
        yield (
            f"speakers in test: {tested:,}; an interval needs {MIN_SPEAKERS}. All splits together "
            f"have {speakers:,}: docs/howto/check-data.md tests each of them once"
        )
    of_train, of_test = ({*own["dialect"].unique().to_pylist()} for own in (train, test))
    if len(test) and (untested := of_train - of_test - {None}):
        yield f"test has no row of {', '.join(sorted(untested))}, which train has"


def repeated_ids(rows: pa.Table) -> list[str]:
    """Corpus and id of rows that are there more than once."""
    counted = rows.group_by(["corpus", "id"], use_threads=False).aggregate([([], "count_all")])
    repeated = counted.filter(pc.greater(counted["count_all"], 1)).select(["corpus", "id"])
    return [" ".join(row.values()) for row in repeated.to_pylist()]


def _file_fault(root: Path, name: str, sha256: str) -> str:
    """What is wrong with a file; empty if it is as the conversion wrote it."""
    try:
        is_same = sha256_of(root / name) == sha256
    except OSError as error:
        return f"{name}: cannot be read ({error.strerror})"
    return "" if is_same else f"{name}: its sha256 differs from manifest.json"


class SentenceProfile(NamedTuple):
    """The profile under which sentences are compared."""

    name: str | None  # None: they are not compared
    fault: str = ""  # why


def sentence_profile(root: Path, name: str, language: str) -> SentenceProfile:
    """The profile of a dataset's sentences: that of its card, or its language's first."""
    own = None
    with suppress(OSError, ValueError, YAMLError, AttributeError):  # `_card_faults` says them
        own = _card(root, name).get("text_profile")
    if not own:
        return SentenceProfile(text_profiles(language)[0])
    try:
        return SentenceProfile(profile_in(_card_file(root, name), own, "change its text_profile"))
    except ConfigError as error:
        place = f"{CARDS_DIR}/{name}.yaml"
        fault = f"{place}: shared sentences are not computed: {error.faults[0]}"
        return SentenceProfile(None, fault)


def _card_file(root: Path, name: str) -> Path:
    return root / CARDS_DIR / f"{name}.yaml"


def _card(root: Path, name: str) -> Any:
    return from_yaml(_card_file(root, name).read_text(encoding="utf-8"))


def _card_faults(root: Path, inventory: Inventory) -> Iterator[str]:
    place = f"{CARDS_DIR}/{inventory.name}.yaml"
    expected = str((root / VERSION_DIR).resolve())
    try:
        data = _card(root, inventory.name)["dataset_config"]["data"]
    except (OSError, ValueError, YAMLError, KeyError, TypeError) as error:
        yield f"{place}: cannot be read as a card ({str(error)[:200]})"
    else:
        if data != expected:
            yield f"{place}: names {data}; a moved dataset needs its new path there, {expected}"
