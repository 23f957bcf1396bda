"""Read a built dataset back and report all faults at once."""

import io
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, chain, combinations, pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import sentencepiece
import soundfile

from danish_asr.conversion.cards import SPECIAL_SYMBOLS, alphabet_of, cards, statistics
from danish_asr.conversion.inventory import Inventory, ShardEntry, read_inventory
from danish_asr.conversion.progress import watch
from danish_asr.files import from_yaml, sha256_of
from danish_asr.schema import (
    CARDS_DIR,
    LEDGER_FILE,
    SAMPLE_RATE,
    SPLITS,
    STATISTICS_FILE,
    UTTERANCE_SCHEMA,
    VERSION_DIR,
)
from danish_asr.text.profiles import normalize
from danish_asr.workers import run_in_processes

LEAKS: Final = {"speakers": "speaker_id", "sentences": "sentence"}
"""What splits should not share, and its column in `_COMPARED`."""

_COMPARED: Final = pa.schema([(name, pa.string()) for name in ("id", "speaker_id", "sentence")])
"""What is compared over all shards; a sentence is a text in profile ``coral``, null if short."""

_AUDIO: Final = ("FLAC", "PCM_16", SAMPLE_RATE, 1)
_NAMED: Final = 3


class Verification(NamedTuple):
    """Faults and allowed leaks of a dataset, a line each, and its hours per split and dialect."""

    faults: list[str]
    notes: list[str]
    hours: dict[tuple[str, str | None], float]


@dataclass(kw_only=True)
class ShardFindings:
    """What a shard holds."""

    entry: ShardEntry
    faults: list[str] = field(default_factory=list)
    compared: pa.Table = field(default_factory=_COMPARED.empty_table)
    samples: Counter[str | None] = field(default_factory=Counter)  # per dialect
    characters: set[str] = field(default_factory=set)  # of training text, raw and in profile coral

    @property
    def split(self) -> str:
        """Split of the shard."""
        return self.entry.partition("split")


def verify(
    root: Path, *, sample: int | None = None, workers: int = 1, allow_shared: Collection[str] = ()
) -> Verification:
    """Check a built dataset; decode the audio of ``sample`` rows, or of all of them."""
    inventory = read_inventory(root)
    rows = [entry.rows for entry in inventory.shards]
    tasks = list(zip(inventory.shards, spread(rows, sample), strict=True))
    results = run_in_processes(partial(check_shard, root=root), tasks, workers)
    watched = watch(
        "verified", results, lambda found: (found.entry.rows, found.samples.total()), sum(rows)
    )
    findings = sorted(watched, key=lambda found: found.entry.path)
    faults = [
        *chain.from_iterable(found.faults for found in findings),
        *_stray_files(root, inventory),
        *_repeated_ids(findings),
        *_guarded(LEDGER_FILE, _ledger_faults(root, inventory)),
        *_guarded(STATISTICS_FILE, _statistics_faults(root, inventory)),
        *_card_faults(root, inventory.name, findings),
    ]
    notes: list[str] = []
    for kind in LEAKS:
        (notes if kind in allow_shared else faults).extend(_shared(findings, kind))
    hours: defaultdict[tuple[str, str | None], float] = defaultdict(float)
    for found in findings:
        for dialect, samples in found.samples.items():
            hours[found.split, dialect] += samples / SAMPLE_RATE / 3600
    return Verification(faults, notes, dict(hours))


def spread(rows: Sequence[int], sample: int | None) -> list[int]:
    """Rows of each shard that make up a sample, spread evenly over the rows of all shards."""
    total = max(1, sum(rows))
    share = total if sample is None else min(sample, total)
    ends = (end * share // total for end in accumulate(rows, initial=0))
    return [end - begin for begin, end in pairwise(ends)]


def check_shard(task: tuple[ShardEntry, int], *, root: Path) -> ShardFindings:
    """Check a shard, and decode the audio of that many of its rows, spread evenly over it."""
    entry, decoded = task
    found = ShardFindings(entry=entry)
    found.faults += _guarded(entry.path, _shard_faults(root / entry.path, found, decoded))
    return found


def _guarded(place: str, faults: Iterable[str]) -> Iterator[str]:
    try:
        yield from faults
    except FileNotFoundError:
        yield f"{place}: is missing"
    except Exception as error:  # noqa: BLE001 - what libraries raise over wrong bytes is anything
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        words = " ".join(reason.split()) or type(error).__name__
        yield f"{place}: cannot be read ({words[:200]})"


def _shard_faults(path: Path, found: ShardFindings, decoded: int) -> Iterator[str]:
    entry = found.entry
    if sha256_of(path) != entry.sha256:
        yield f"{entry.path}: its sha256 differs from manifest.json"
        return
    faulty: defaultdict[str, list[str]] = defaultdict(list)
    with pq.ParquetFile(path) as parquet:
        rows = parquet.metadata.num_rows
        if not parquet.schema_arrow.equals(UTTERANCE_SCHEMA):
            yield f"{entry.path}: its columns differ from data/README.md"
            return
        decoded = min(decoded, rows)
        chosen = {(2 * time + 1) * rows // (2 * decoded) for time in range(decoded)}
        columns = [name for name in UTTERANCE_SCHEMA.names if decoded or name != "audio_bytes"]
        groups = (parquet.read_row_group(g, columns) for g in range(parquet.num_row_groups))
        compared = []
        for number, row in enumerate(chain.from_iterable(group.to_pylist() for group in groups)):
            spoken = normalize(row["text"], "coral")
            # Shorter sentences ("ja tak") occur everywhere, so sharing them is not a leak.
            sentence = spoken if len(spoken.split()) >= 3 else None
            compared.append({**row, "audio_bytes": None, "sentence": sentence})
            found.samples[row["dialect"]] += row["audio_size"]
            if found.split == "train":
                found.characters.update(row["text"], spoken)
            for fault in _audio_faults(row) if number in chosen else ():
                faulty[fault].append(row["id"])
    found.compared = pa.Table.from_pylist(compared, _COMPARED)
    for fault, ids in faulty.items():
        yield f"{entry.path}: {fault}: {_few(ids)}"


def _audio_faults(row: Mapping[str, Any]) -> Iterator[str]:
    try:
        with soundfile.SoundFile(io.BytesIO(row["audio_bytes"])) as file:
            form = (file.format, file.subtype, file.samplerate, file.channels)
            samples = len(file.read(dtype="int16"))
    except RuntimeError:
        yield "undecodable audio"
        return
    if form != _AUDIO:
        yield f"audio is {form}; expected {_AUDIO}"
    if samples != row["audio_size"]:
        yield "audio_size is not the number of samples"


def _stray_files(root: Path, inventory: Inventory) -> Iterator[str]:
    # Upstream reads every file whose name begins with neither . nor _; we read *.parquet.
    shards = {entry.path for entry in inventory.shards}
    for path in sorted((root / VERSION_DIR).rglob("*")):
        place = path.relative_to(root).as_posix()
        is_read = path.suffix == ".parquet" or not path.name.startswith((".", "_"))
        if is_read and place not in shards and not path.is_dir():
            yield f"{place}: is not in manifest.json, but readers would read it; remove it"


def _repeated_ids(findings: Sequence[ShardFindings]) -> Iterator[str]:
    counts = pc.value_counts(_column(findings, "id"))
    repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1)).to_pylist()
    if repeated:
        yield f"{VERSION_DIR}: ids that occur more than once: {_few(repeated)}"


def _shared(findings: Sequence[ShardFindings], kind: str) -> Iterator[str]:
    values = {
        split: _column([found for found in findings if found.split == split], LEAKS[kind]).unique()
        for split in SPLITS
    }
    for one, other in combinations(SPLITS, 2):
        common = values[other].filter(pc.is_in(values[other], values[one])).drop_null().to_pylist()
        if common:
            yield (
                f"{one} and {other} share {len(common):,} {kind}, such as {common[0]!r}; use "
                f"--allow-shared {kind} if that is intended"
            )


def _column(findings: Iterable[ShardFindings], name: str) -> pa.ChunkedArray:
    return pa.concat_tables([_COMPARED.empty_table(), *(f.compared for f in findings)])[name]


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _ledger_faults(root: Path, inventory: Inventory) -> Iterator[str]:
    path = root / LEDGER_FILE
    if inventory.ledger_sha256 not in {None, sha256_of(path)}:
        yield f"{LEDGER_FILE}: its sha256 differs from manifest.json"
        return
    with pq.ParquetFile(path) as ledger:
        rows = ledger.metadata.num_rows
    if inventory.rows + rows != inventory.source_rows:
        yield (
            f"{LEDGER_FILE}: {inventory.rows} rows written and {rows} in the ledger are not the "
            f"{inventory.source_rows} rows of the source"
        )


def _statistics_faults(root: Path, inventory: Inventory) -> Iterator[str]:
    expected = statistics(inventory.shards)
    if (root / STATISTICS_FILE).read_text(encoding="utf-8") != expected:
        yield f"{STATISTICS_FILE}: differs from the training hours in manifest.json: {expected!r}"


def _card_faults(root: Path, name: str, findings: Sequence[ShardFindings]) -> Iterator[str]:
    with_tokenizer = any(found.split == "train" for found in findings)
    for place, expected in cards(root, name, with_tokenizer=with_tokenizer).items():
        yield from _guarded(place, _differences(root, place, expected))
    if with_tokenizer:
        characters = set[str]().union(*(found.characters for found in findings))
        model = f"{CARDS_DIR}/{name}_char.model"
        yield from _guarded(model, _model_faults(root, model, alphabet_of(characters)))


def _differences(root: Path, place: str, expected: Mapping[str, Any]) -> Iterator[str]:
    card = from_yaml((root / place).read_text(encoding="utf-8"))
    if not isinstance(card, dict) or not expected.items() <= card.items():
        hint = "; a moved dataset needs its new path there" if "dataset_config" in expected else ""
        yield f"{place}: expected {expected}, found {card}{hint}"


def _model_faults(root: Path, place: str, alphabet: Sequence[str]) -> Iterator[str]:
    model = sentencepiece.SentencePieceProcessor()
    model.LoadFromSerializedProto((root / place).read_bytes())
    symbols = {model.id_to_piece(index) for index in range(model.get_piece_size())}
    if missing := sorted({*SPECIAL_SYMBOLS, *alphabet} - symbols):
        yield f"{place}: lacks symbols of the training text: {_few(missing)}"
