"""Read a built dataset back and report all faults at once."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain, combinations, pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import sentencepiece

from danish_asr.base.files import from_yaml, sha256_of
from danish_asr.base.progress import watch
from danish_asr.base.schema import (
    CARDS_DIR,
    INVENTORY_FILE,
    LEDGER_FILE,
    README_FILE,
    SAMPLE_RATE,
    SPLIT_ALIASES,
    SPLITS,
    STATISTICS_FILE,
    SUSPECTS_FILE,
    VERSION_DIR,
)
from danish_asr.base.workers import run_in_processes
from danish_asr.corpus import LANGUAGE_CODE
from danish_asr.corpus.cards import SPACE, SPECIAL_SYMBOLS, alphabet_of, cards, statistics
from danish_asr.corpus.people import people_notes
from danish_asr.corpus.shard_check import (
    COMPARED,
    DIGITS_SHOWN,
    ShardFindings,
    check_shard,
    few,
    guarded,
)
from danish_asr.corpus.shards import Inventory, read_inventory
from danish_asr.corpus.texts import text_profiles
from danish_asr.text.profiles import normalize

LEAKS: Final = {"speakers": "speaker_id", "sentences": "sentence", "audio": "audio"}
"""What splits should not share, and its column in `COMPARED`."""

_AT_ROOT: Final = {
    *(CARDS_DIR, INVENTORY_FILE, LEDGER_FILE, README_FILE, STATISTICS_FILE),
    *(SUSPECTS_FILE, VERSION_DIR),
    *("LICENSE", "LICENSE.md", "LICENSE.txt"),  # of those who publish a dataset
}


class Leak(NamedTuple):
    """What two splits share, with a line that says so."""

    kind: str  # of `LEAKS`
    split: str  # the one that comes first in `SPLITS`
    text: str


class Verification(NamedTuple):
    """What is wrong with a dataset, line by line, and its hours per split and dialect."""

    damage: list[str]
    stray: list[str]  # files that do not belong there; the lines say what to do with them
    leaks: list[Leak]
    notes: list[str]
    hours: dict[tuple[str, str | None], float]
    with_digits: dict[str, dict[str, str]]  # the first texts with digits, as each profile says them

    @property
    def faults(self) -> list[str]:
        """All that is wrong."""
        return [*self.damage, *self.stray, *(leak.text for leak in self.leaks)]

    @property
    def advice(self) -> list[str]:
        """What to do, in addition to what the faults say."""
        advice = []
        if self.damage:
            advice.append(
                "restore damaged files from a copy, or delete the dataset and convert it again"
            )
        if self.leaks:
            advice.append(
                "shared rows are no damage, but they make scores too good: accept them with "
                f"--allow-shared ({', '.join(LEAKS)}), or convert again"
            )
        if any(leak.kind == "sentences" and leak.split == "train" for leak in self.leaks):
            advice.append("--drop-shared-sentences leaves shared sentences out")
        if any(leak.kind == "speakers" for leak in self.leaks):
            advice.append("--split-by-speaker gives each speaker one split")
        return advice


def verify(
    root: Path, *, sample: int | None = None, workers: int = 1, allow_shared: Collection[str] = ()
) -> Verification:
    """Check a built dataset; decode the audio of ``sample`` rows, or of all of them."""
    inventory = read_inventory(root)
    rows = [entry.rows for entry in inventory.shards]
    tasks = list(zip(inventory.shards, spread(rows, sample), strict=True))
    results = run_in_processes(partial(check_shard, root=root), tasks, workers)
    watched = watch(
        "verified", results, lambda shard: (shard.entry.rows, shard.samples.total()), sum(rows)
    )
    findings = sorted(watched, key=lambda shard: shard.entry.path)
    damage = list(chain.from_iterable(shard.faults for shard in findings))
    if repeated := _repeated(_table(findings)["id"]).to_pylist():
        damage.append(f"{VERSION_DIR}: ids that occur more than once: {few(repeated)}")
    damage += [
        *_table_faults(root, inventory),
        *guarded(STATISTICS_FILE, _statistics_faults(root, inventory)),
        *_card_faults(root, inventory.name, findings),
        *guarded(README_FILE, _readme_faults(root)),
    ]
    notes = list(_notes(findings))
    leaks: list[Leak] = []
    for kind in LEAKS:
        shared = list(_shared(findings, kind))
        if kind in allow_shared:
            notes += [f"allowed: {leak.text}" for leak in shared]
        else:
            leaks += shared
    hours: defaultdict[tuple[str, str | None], float] = defaultdict(float)
    for shard in findings:
        for dialect, samples in shard.samples.items():
            hours[shard.split, dialect] += samples / SAMPLE_RATE / 3600
    if inventory.suspects:
        reasons = ", ".join(f"{reason} ({rows:,})" for reason, rows in inventory.suspects.items())
        notes.append(
            f"rows to check, in {SUSPECTS_FILE} and on the page of `danish-asr explore`: {reasons}"
        )
    stray = list(_stray_files(root, inventory))
    return Verification(damage, stray, leaks, notes, dict(hours), _said(findings))


def _said(findings: Sequence[ShardFindings]) -> dict[str, dict[str, str]]:
    said: dict[str, dict[str, str]] = {}
    for shard in findings:
        profiles = text_profiles(shard.entry.partition("language"))
        for text in shard.with_digits[: DIGITS_SHOWN - len(said)]:
            said[text] = {name: normalize(text, name) for name in profiles}
    return said


def spread(rows: Sequence[int], sample: int | None) -> list[int]:
    """Rows of each shard that make up a sample, spread evenly over the rows of all shards."""
    total = max(1, sum(rows))
    share = total if sample is None else min(sample, total)
    ends = (end * share // total for end in accumulate(rows, initial=0))
    return [end - begin for begin, end in pairwise(ends)]


def _stray_files(root: Path, inventory: Inventory) -> Iterator[str]:
    # Upstream reads every file whose name begins with neither . nor _; we read *.parquet.
    shards = {entry.path for entry in inventory.shards}
    for path in sorted((root / VERSION_DIR).rglob("*")):
        place = path.relative_to(root).as_posix()
        is_read = path.suffix == ".parquet" or not path.name.startswith((".", "_"))
        if is_read and place not in shards and not path.is_dir():
            yield f"{place}: is not in manifest.json, but readers would read it; remove it"
    own_cards = cards(root, inventory.name, with_tokenizer=True)
    for path in sorted((root / CARDS_DIR).glob("*.y*ml")):
        if (place := path.relative_to(root).as_posix()) not in own_cards:
            yield (
                f"{place}: is not a card of this dataset, but training reads it; remove it, or "
                "move it to a directory in $DANISH_ASR_ASSETS"
            )
    for path in sorted(root.iterdir()):
        if path.name not in _AT_ROOT and not path.name.startswith("."):
            yield f"{path.name}: is not part of the dataset; move it elsewhere"


def _repeated(values: pa.ChunkedArray) -> pa.Array:
    counts = pc.value_counts(values.drop_null())
    return counts.field("values").filter(pc.greater(counts.field("counts"), 1))


def _shared(findings: Sequence[ShardFindings], kind: str) -> Iterator[Leak]:
    tables, column = _by_split(findings), LEAKS[kind]
    for one, other in combinations(SPLITS, 2):
        values = tables[one][column].drop_null()
        common = tables[other].filter(pc.is_in(tables[other][column], values.unique()))
        common = common.filter(pc.is_valid(common[column]))
        if common:
            unique = len(common[column].unique())
            rows = pc.sum(pc.is_in(values, common[column].unique())).as_py()
            example = common["id" if kind == "audio" else column][0].as_py()
            text = (
                f"{one} and {other} share {unique:,} {kind}, such as {example!r} ({rows:,} rows "
                f"in {one}, {len(common):,} in {other})"
            )
            yield Leak(kind, one, text)


def _notes(findings: Sequence[ShardFindings]) -> Iterator[str]:
    for corpus in sorted({shard.corpus for shard in findings}):
        own = [shard for shard in findings if shard.corpus == corpus]
        table = _table(own)
        if table and table["speaker_id"].null_count == len(table):
            yield (
                f"{corpus}: no row has a speaker, so shared speakers cannot be found; if the "
                "source has them, convert it with --column speaker_id=THEIRS"
            )
        written = sum((shard.written for shard in own), Counter[str]())
        for name, rows in written.items():
            yield f"{corpus}: {rows:,} of {len(table):,} rows have {name}"
    by_split = _by_split(findings)
    yield from people_notes(by_split)
    for split, table in by_split.items():
        repeated = table.filter(pc.is_in(table["audio"], _repeated(table["audio"])))
        if repeated:
            ids = repeated["id"].to_pylist()
            yield f"{split}: {len(ids):,} rows have the audio of another row: {few(ids)}"


def _table(findings: Iterable[ShardFindings]) -> pa.Table:
    return pa.concat_tables([COMPARED.empty_table(), *(shard.compared for shard in findings)])


def _by_split(findings: Sequence[ShardFindings]) -> dict[str, pa.Table]:
    return {split: _table(shard for shard in findings if shard.split == split) for split in SPLITS}


def _table_faults(root: Path, inventory: Inventory) -> Iterator[str]:
    for name, sha256 in (
        (LEDGER_FILE, inventory.ledger_sha256),
        (SUSPECTS_FILE, inventory.suspects_sha256),
    ):
        yield from guarded(name, _sha256_faults(root, name, sha256))
    languages = sorted({entry.partition("language") for entry in inventory.shards})
    if len(languages) > 1 or not all(re.fullmatch(LANGUAGE_CODE, code) for code in languages):
        found = ", ".join(languages)
        yield f"{VERSION_DIR}: expected one language, such as dan_Latn; found {found}"
    if inventory.rows + inventory.dropped_rows != inventory.source_rows:
        yield (
            f"{LEDGER_FILE}: {inventory.rows} rows written and {inventory.dropped_rows} in the "
            f"ledger are not the {inventory.source_rows} rows of the source"
        )


def _sha256_faults(root: Path, place: str, sha256: str) -> Iterator[str]:
    if sha256_of(root / place) != sha256:
        yield f"{place}: its sha256 differs from manifest.json"


def _statistics_faults(root: Path, inventory: Inventory) -> Iterator[str]:
    expected = statistics(inventory.shards)
    if (root / STATISTICS_FILE).read_text(encoding="utf-8") != expected:
        yield f"{STATISTICS_FILE}: differs from the training hours in manifest.json: {expected!r}"


def _readme_faults(root: Path) -> Iterator[str]:
    """Compare the splits that `datasets.load_dataset` takes from the metadata with the paths."""
    path = root / README_FILE
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    metadata = from_yaml(text.split("\n---")[0]) if text.startswith("---\n") else {}
    for config in metadata.get("configs") or ():
        for files in config["data_files"]:
            split = SPLIT_ALIASES.get(files["split"], files["split"])
            if {*re.findall(r"split=(\w+)", str(files["path"]))} - {split}:
                yield (
                    f"{README_FILE}: `load_dataset` would read {files['path']} as the split {split}"
                )


def _card_faults(root: Path, name: str, findings: Sequence[ShardFindings]) -> Iterator[str]:
    with_tokenizer = any(shard.split == "train" for shard in findings)
    for place, expected in cards(root, name, with_tokenizer=with_tokenizer).items():
        yield from guarded(place, _differences(root, place, expected))
    if with_tokenizer:
        characters = set[str]().union(*(shard.characters for shard in findings))
        model = f"{CARDS_DIR}/{name}_char.model"
        # Without a shard that cannot be read, nobody knows which symbols are too many.
        whole = not any(shard.faults for shard in findings)
        yield from guarded(model, _model_faults(root, model, alphabet_of(characters), whole=whole))


def _differences(root: Path, place: str, expected: Mapping[str, Any]) -> Iterator[str]:
    card = from_yaml((root / place).read_text(encoding="utf-8"))
    if not isinstance(card, dict) or not expected.items() <= card.items():
        hint = "; a moved dataset needs its new path there" if "dataset_config" in expected else ""
        yield f"{place}: expected {expected}, found {card}{hint}"


def _model_faults(root: Path, place: str, alphabet: Sequence[str], *, whole: bool) -> Iterator[str]:
    model = sentencepiece.SentencePieceProcessor()
    model.LoadFromSerializedProto((root / place).read_bytes())
    symbols = {model.id_to_piece(index) for index in range(model.get_piece_size())}
    expected = {*SPECIAL_SYMBOLS, *alphabet}
    if missing := sorted(expected - symbols):
        yield f"{place}: lacks symbols of the training text: {few(missing)}"
    others = sorted(symbols - expected - {SPACE})
    if others and whole:
        yield f"{place}: has symbols that are not in the training text: {few(others)}"
