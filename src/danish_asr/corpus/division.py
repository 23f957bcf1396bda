"""Divide the rows of a source into splits by speaker, and find sentences that splits share."""

from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from danish_asr.base.errors import SourceError
from danish_asr.base.schema import SPLITS
from danish_asr.corpus import ConvertOptions, shares_of
from danish_asr.corpus.rows import refuse, replaced
from danish_asr.corpus.task import text_profiles
from danish_asr.text.profiles import normalizer

if TYPE_CHECKING:
    import pandas as pd

SHARED_SENTENCE: Final = "sentence in dev or test"
"""The reason in the ledger."""

_GROUP: Final = ("dialect", "gender", "age_group")


def divide(rows: pa.Table, options: ConvertOptions) -> pa.Table:
    """The rows with the splits, and the refusals, that the options ask for."""
    if options.split_by_speaker:
        shares, seed = shares_of(options.split_by_speaker) or ((), 0)
        assigned = assign_speakers(rows.filter(pc.is_null(rows["refused"])), shares, seed)
        splits = pa.array([SPLITS[place] for place in assigned.values()], pa.string())
        places = pc.index_in(rows["speaker_id"], pa.array(assigned, pa.string()))
        rows = replaced(rows, split=pc.fill_null(pc.take(splits, places), "train"))
    if options.drop_shared_sentences:
        sentences = sentences_of(rows["text"], normalizer(text_profiles(options.language)[0]))
        is_train = pc.equal(rows["split"], "train")
        is_held_out = pc.and_(pc.invert(is_train), pc.is_null(rows["refused"]))
        held_out = sentences.filter(is_held_out).drop_null().unique()
        rows = refuse(rows, pc.and_(is_train, pc.is_in(sentences, held_out)), SHARED_SENTENCE)
    return rows


def sentences_of(texts: pa.ChunkedArray, spoken: Callable[[str], str]) -> pa.ChunkedArray:
    """What is compared between splits, of texts under a profile; null if it is short.

    Short sentences ("ja tak") occur everywhere, so sharing them is no leak.
    """
    normalized = (spoken(text or "") for text in texts.to_pylist())
    long = (text if len(text.split()) >= 3 else None for text in normalized)
    return pa.chunked_array([pa.array(long, pa.string(), size=len(texts))], pa.string())


def assign_speakers(rows: pa.Table, shares: Sequence[float], seed: int) -> dict[str, int]:
    """Assign each speaker to a split, an index of ``shares``, by its share of the speech.

    Each dialect is divided by itself: its speakers, in an order that mixes genders and age groups
    evenly, go to the split with the most room. A split whose share is above half a speaker of a
    dialect has one of it, if there is one for each split. A split with share 0 gets nobody.

    Raises:
        SourceError: There are fewer speakers than splits.
    """
    speakers = _speakers_of(rows, seed)
    wanted = [split for split, share in enumerate(shares) if share]
    if len(speakers) < len(wanted):
        raise SourceError(
            f"--split-by-speaker: {len(speakers)} known speakers cannot fill {len(wanted)} splits; "
            "name their column (--column speaker_id=THEIRS), put the recordings of each speaker "
            "into a folder, or convert with --split train"
        )
    fractions = np.array(shares) / sum(shares)
    # How much speech each split still lacks, negative if it has too much. Together they lack the
    # speakers who are left, so that a split with share 0 is never the one with the most room.
    room = np.zeros(len(shares))
    assigned: dict[str, int] = {}
    for _, of_dialect in speakers.groupby("dialect"):
        due = fractions * of_dialect["weight"].sum()
        room += due
        # Those too large for the smallest split come first, while train has room for them.
        is_small = of_dialect["weight"] <= min(due[wanted])
        order = is_small.sort_values(kind="stable").index
        count = len(of_dialect)
        owed = [split for split in wanted if round(fractions[split] * count)]
        for place, (name, weight) in enumerate(of_dialect["weight"][order].items()):
            # The last speakers are for the splits that have none of the dialect yet.
            is_last = count >= len(wanted) and count - place <= len(owed)
            roomiest = max(owed if is_last else range(len(room)), key=room.__getitem__)
            assigned[str(name)] = roomiest
            room[roomiest] -= weight
            if roomiest in owed:
                owed.remove(roomiest)
        # A split that got too little of this dialect gets more of the next one, so that errors
        # cancel. Only half counts there, so that each dialect keeps nearly its own shares.
        room /= 2
    for split in wanted:
        if split not in assigned.values():  # it gets the lightest of the split with the most
            fullest = Counter(assigned.values()).most_common()[0][0]
            movable = [name for name, own in assigned.items() if own == fullest]
            assigned[str(speakers["weight"][movable].idxmin())] = split
    return assigned


def _speakers_of(rows: pa.Table, seed: int) -> "pd.DataFrame":
    """The known speakers by their names, with a dialect and a weight, mixed within dialects.

    The corpora of a conversion share people, so a name is a person, with the dialect, gender and
    age group of most of its rows. The weight is the length of all of them, or their number if a
    length is missing. Every part of a dialect's speakers has its share of each gender and age
    group.
    """
    rows = rows.filter(pc.is_valid(rows["speaker_id"]))
    weight: tuple[Any, str] = ("seconds", "sum")
    if rows["seconds"].null_count:
        weight = ([], "count_all")
    summed = rows.group_by("speaker_id", use_threads=False).aggregate([weight])
    columns = summed.rename_columns(["speaker_id", "weight"]).to_pandas()
    speakers: pd.DataFrame = columns.set_index("speaker_id")
    for name in _GROUP:
        counted = rows.group_by(["speaker_id", name]).aggregate([([], "count_all")])
        most = counted.drop_null().sort_by([("count_all", "descending"), (name, "ascending")])
        values = most.to_pandas().drop_duplicates("speaker_id").set_index("speaker_id")[name]
        speakers[name] = values.reindex(speakers.index, fill_value="")
    # A digest orders a group at random by the seed, whoever else there is.
    speakers["digest"] = [sha256(f"{seed}:{name}".encode()).hexdigest() for name in speakers.index]
    group = speakers.sort_values("digest").groupby(list(_GROUP))["digest"]
    speakers["place"] = (group.cumcount() + 1) / group.transform("size")
    return speakers.sort_values(["place", "speaker_id"])
