"""Read a built dataset back and report all faults at once."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow.compute as pc
import sentencepiece

from danish_asr.base.excluded import EXCLUDED_FILE, read_excluded
from danish_asr.base.files import from_yaml, sha256_of
from danish_asr.base.progress import watch
from danish_asr.base.schema import (
    CARDS_DIR,
    INVENTORY_FILE,
    LEDGER_FILE,
    README_FILE,
    SAMPLE_RATE,
    SPLIT_ALIASES,
    STATISTICS_FILE,
    SUSPECTS_FILE,
    VERSION_DIR,
)
from danish_asr.base.workers import run_in_processes
from danish_asr.corpus import LANGUAGE_CODE
from danish_asr.corpus.cards import SPACE, SPECIAL_SYMBOLS, alphabet_of, cards, statistics
from danish_asr.corpus.leaks import (
    LEAKS,
    Leak,
    by_split,
    compared_rows,
    leaks_of,
    repeated_values,
)
from danish_asr.corpus.people import people_notes
from danish_asr.corpus.shard_check import ShardFindings, check_shard, few, guarded
from danish_asr.corpus.shards import Inventory, read_inventory

_AT_ROOT: Final = {
    *(CARDS_DIR, INVENTORY_FILE, LEDGER_FILE, README_FILE, STATISTICS_FILE),
    *(EXCLUDED_FILE, SUSPECTS_FILE, VERSION_DIR),
    *("LICENSE", "LICENSE.md", "LICENSE.txt"),  # of those who publish a dataset
}

_MOVED: Final = "; a moved dataset needs its new path there"


class Verification(NamedTuple):
    """What is wrong with a dataset, line by line, and its hours per split and dialect."""

    damage: list[str]
    stray: list[str]  # files that do not belong there; the lines say what to do with them
    leaks: list[Leak]
    notes: list[str]
    hours: dict[tuple[str, str | None], float]

    @property
    def faults(self) -> list[str]:
        """All that is wrong."""
        return [*self.damage, *self.stray, *(leak.text for leak in self.leaks)]

    @property
    def advice(self) -> list[str]:
        """What to do, in addition to what the faults say."""
        advice = []
        if any(not fault.endswith(_MOVED) for fault in self.damage):
            advice.append(
                "restore damaged files from a copy, or delete the dataset and convert it again"
            )
        if self.leaks:
            advice.append(
                "shared rows are no damage, but they make scores too good: accept them with "
                f"--allow-shared ({', '.join(LEAKS)}), or convert again"
            )
            kinds = [kind for kind in LEAKS if any(leak.kind == kind for leak in self.leaks)]
            options = " ".join(f"--drop-shared {kind}" for kind in kinds)
            advice.append(f"`danish-asr combine` with {options} makes a dataset without these rows")
            if "speakers" in kinds:
                advice.append("--split-by-speaker gives each speaker one split")
        return advice


def verify(
    root: Path, *, sample: int | None = None, workers: int = 1, allow_shared: Collection[str] = ()
) -> Verification:
    """Check a built dataset; decode the audio of ``sample`` rows, or of all of them."""
    inventory = read_inventory(root)
    rows = [entry.rows for entry in inventory.shards]
    tasks = list(zip(inventory.shards, spread(rows, sample), strict=True))
    check = partial(check_shard, root=root, excluded=read_excluded(root))
    results = run_in_processes(check, tasks, workers)
    watched = watch(
        "verified",
        results,
        lambda shard: (shard.entry.rows, shard.samples.total() + shard.excluded_samples),
        sum(rows),
    )
    findings = sorted(watched, key=lambda shard: shard.entry.path)
    damage = list(chain.from_iterable(shard.faults for shard in findings))
    if repeated := repeated_values(compared_rows(findings)["id"]).to_pylist():
        damage.append(f"{VERSION_DIR}: ids that occur more than once: {few(repeated)}")
    damage += [
        *_table_faults(root, inventory),
        *_excluded_faults(findings),
        *guarded(STATISTICS_FILE, _statistics_faults(root, inventory)),
        *_card_faults(root, inventory.name, findings),
        *guarded(README_FILE, _readme_faults(root)),
    ]
    notes = [*_notes(findings), *_list_notes(findings, inventory)]
    leaks: list[Leak] = []
    for kind in LEAKS:
        shared = list(leaks_of(findings, kind))
        if kind in allow_shared:
            notes += [f"allowed: {leak.text}" for leak in shared]
        else:
            leaks += shared
    stray = list(_stray_files(root, inventory))
    return Verification(damage, stray, leaks, notes, _hours(findings))


def _hours(findings: Iterable[ShardFindings]) -> dict[tuple[str, str | None], float]:
    hours: defaultdict[tuple[str, str | None], float] = defaultdict(float)
    for shard in findings:
        for dialect, samples in shard.samples.items():
            hours[shard.split, dialect] += samples / SAMPLE_RATE / 3600
    return dict(hours)


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


def _notes(findings: Sequence[ShardFindings]) -> Iterator[str]:
    for corpus in sorted({shard.corpus for shard in findings}):
        own = [shard for shard in findings if shard.corpus == corpus]
        table = compared_rows(own)
        if table and table["speaker_id"].null_count == len(table):
            yield (
                f"{corpus}: no row has a speaker, so shared speakers cannot be found; if the "
                "source has them, convert it with --column speaker_id=THEIRS"
            )
        if rows := sum(shard.conventions["raw", "digits"] for shard in own):
            yield f"{corpus}: {rows:,} of {len(table):,} rows have digits"
    tables = by_split(findings)
    yield from people_notes(tables)
    for split, table in tables.items():
        repeated = table.filter(pc.is_in(table["audio"], repeated_values(table["audio"])))
        if repeated:
            ids = repeated["id"].to_pylist()
            yield f"{split}: {len(ids):,} rows have the audio of another row: {few(ids)}"


def _list_notes(findings: Iterable[ShardFindings], inventory: Inventory) -> Iterator[str]:
    """Say how many rows the lists beside the shards have."""
    if left_out := sum(len(shard.excluded) for shard in findings):
        yield f"{left_out:,} rows of the shards are left out; {EXCLUDED_FILE} has reasons"
    if inventory.suspects:
        reasons = ", ".join(f"{reason} ({rows:,})" for reason, rows in inventory.suspects.items())
        yield (
            f"rows to check, in {SUSPECTS_FILE} and on the page of `danish-asr explore`: {reasons}"
        )


def _table_faults(root: Path, inventory: Inventory) -> Iterator[str]:
    digests = {LEDGER_FILE: inventory.ledger_sha256, SUSPECTS_FILE: inventory.suspects_sha256}
    if inventory.excluded_sha256 or (root / EXCLUDED_FILE).exists():
        digests[EXCLUDED_FILE] = inventory.excluded_sha256
    for name, sha256 in digests.items():
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


def _excluded_faults(findings: Iterable[ShardFindings]) -> Iterator[str]:
    for shard in findings:
        entry, seconds = shard.entry, shard.excluded_samples / SAMPLE_RATE
        if not shard.faults and (len(shard.excluded), seconds) != (
            entry.excluded_rows,
            entry.excluded_seconds,
        ):
            yield (
                f"{entry.path}: {len(shard.excluded)} of its rows ({seconds:g} s) are in "
                f"{EXCLUDED_FILE}; manifest.json says {entry.excluded_rows} "
                f"({entry.excluded_seconds:g} s), which decide how often its corpus is drawn"
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
        others = {key: value for key, value in expected.items() if key != "dataset_config"}
        moved = isinstance(card, dict) and others.items() <= card.items()
        yield f"{place}: expected {expected}, found {card}{_MOVED if moved else ''}"


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
