"""The keys that choose and augment rows."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from danish_asr.base.errors import ConfigError, DatasetError
from danish_asr.recipe.config.schema import AsrConfig, CommonSection, DatasetSection, WeightConfig
from danish_asr.recipe.config.training_sections import RegimeSection, StageConfig, TrainerSection
from danish_asr.recipe.data.index import TARGET, DanishAsrDataset, Index, evaluated_rows, open_rows
from tests.shards import utterance, write_dataset, write_shard


def test_a_dataset_without_ids_and_metadata_is_read_with_ids_of_its_own(tmp_path: Path) -> None:
    # Upstream's converters write text, audio_bytes and audio_size only.
    drop = ("id", "speaker_id", "dialect", "age_group", "gender", "encoded_size")
    write_shard(tmp_path, [utterance(n) for n in range(3)], drop=drop)

    index = DanishAsrDataset(tmp_path).read_index("train")

    assert index.rows["id"][2] == "a/train/dan_Latn/part-00000-of-00001.parquet#2"
    assert index.rows["dialect"][0] is None


COUNTS = {("a", "train"): 12, ("b", "train"): 7, ("a", "dev"): 9, ("b", "dev"): 5}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> DanishAsrDataset:
    return DanishAsrDataset(write_dataset(tmp_path_factory.mktemp("dataset"), COUNTS))


@pytest.mark.parametrize(
    ("where", "chosen"),
    [
        ("corpus = 'b' and gender = 'male'", [f"b-train-{n}" for n in (1, 3, 5)]),
        ("audio_size < 9000", ["a-train-0", "b-train-0"]),
        ("dialect is null and split = 'train' and id like 'b%'", ["b-train-2", "b-train-5"]),
        # A null fulfils no comparison.
        ("dialect != 'Fynsk' and corpus = 'b'", [f"b-train-{n}" for n in (0, 3, 6)]),
    ],
)
def test_a_condition_may_name_any_column_of_rows_and_paths(
    small: DanishAsrDataset, where: str, chosen: list[str]
) -> None:
    every, index = small.read_index("train"), small.read_index("train", where)

    assert index.rows["id"].to_list() == chosen
    assert (len(every), index.rows_in_split) == (19, 19)
    for row, name in enumerate(chosen):
        place = every.rows["id"].to_list().index(name)
        assert index.lengths[row] == every.lengths[place]
        assert index.rows["_group"][row] == every.rows["_group"][place]
        assert index.audio.read(row) == every.audio.read(place)


def test_a_condition_that_nothing_fulfils_or_that_is_none_is_refused_with_its_key(
    small: DanishAsrDataset,
) -> None:
    for where, known in (("gender = 'x'", "female, male"), ("gender == 'x", "age, country_birth")):
        with pytest.raises(ConfigError) as refused:
            small.read_index("train", where, key="evaluator.where")
        (fault,) = refused.value.faults
        assert fault.startswith("evaluator.where: ")
        assert known in fault
    with pytest.raises(ConfigError, match=r"dataset\.weights\[1\]\.where: "):
        small.read_index(
            "train", weights=[WeightConfig(where=f"gender = '{g}'", factor=2) for g in ("male", 1)]
        )


@pytest.mark.parametrize("column", ["text", "audio_bytes", "audio_size"])
def test_a_shard_without_a_needed_column_is_refused(tmp_path: Path, column: str) -> None:
    path = write_shard(tmp_path, [utterance(0)], drop=[column])
    with pytest.raises(DatasetError, match=f"{path.name}: column {column} is missing"):
        DanishAsrDataset(tmp_path).read_index("train")


def test_a_split_without_rows_is_refused_by_name(tmp_path: Path) -> None:
    write_shard(tmp_path, [])
    with pytest.raises(DatasetError, match="split 'train': there are no rows in 1 shards"):
        DanishAsrDataset(tmp_path).read_index("train")


def test_the_columns_of_the_contract_that_are_no_metadata_stay_in_the_shards(
    tmp_path: Path,
) -> None:
    write_shard(
        tmp_path, [utterance(0, age=60, sub_dialect="x", country_birth="DK", source_id="y")]
    )
    index = DanishAsrDataset(tmp_path).read_index("train", "age >= 60")
    assert {name for name in index.rows.columns if not name.startswith("_")} == {
        *("id", "text", "speaker_id", "dialect", "age_group", "gender"),
        *("corpus", "split", "language"),
    }


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2), pa.list_(pa.int8())]
)
def test_a_column_of_bytes_or_lists_is_no_metadata(tmp_path: Path, kind: pa.DataType) -> None:
    """Other programs write these of Arrow's types."""
    shard = write_shard(tmp_path, [utterance(0)])
    vector = pa.array([[1, 2] if pa.types.is_list(kind) else b"\xff\xfe"], kind)
    pq.write_table(pq.ParquetFile(shard).read().append_column("vector", vector), shard)
    assert "vector" not in DanishAsrDataset(tmp_path).read_index("train").rows.columns


def opened(
    dataset: DanishAsrDataset,
    *,
    evaluates: bool = False,
    stages: dict[int, StageConfig] | None = None,
    metric: Any = "wer",
    seed: int = 1,
    **options: Any,
) -> dict[str, list[str]]:
    """The ids of the rows that a configuration opens: of stages by step, and of other splits."""
    config = AsrConfig(
        dataset=DatasetSection(**options),
        common=CommonSection(seed=seed),
        trainer=TrainerSection(stages=stages or {}),
        regime=RegimeSection(score_metric=metric),
    )
    if evaluates:
        config.evaluator.where = config.dataset.valid_where
        return {name: ids(index) for name, index in evaluated_rows(dataset, config).items()}
    rows = open_rows(dataset, config)
    indices: list[tuple[int | str, Index]] = [*rows.train.items(), *rows.valid.items()]
    return {str(name): ids(index) for name, index in indices}


def test_a_run_trains_and_validates_on_the_rows_of_its_keys(small: DanishAsrDataset) -> None:
    train, dev = small.read_index("train"), small.read_index("dev")
    men = ids(small.read_index("train", "gender = 'male'"))
    # The worst dialect may judge where one split has dialects.
    assert opened(small, metric="worst_group_wer") == {"0": ids(train), "dev": ids(dev)}
    assert opened(small, train_split="dev")["0"] == ids(dev)
    assert opened(small, train_where="gender = 'male'") == {"0": men, "dev": ids(dev)}
    assert opened(small, train_subset=9) == {"0": ids(train.subset(9)), "dev": ids(dev)}
    assert opened(small, train_share=0.4, seed=5)["0"] == ids(train.share(0.4, 5))
    both = ids(train.share(0.4, 1).subset(4))
    assert opened(small, train_share=0.4, train_subset=4)["0"] == both
    indices = {name: small.read_index(name, "gender = 'male'") for name in ("dev_b", "dev")}
    assert opened(
        small, valid_split="dev_b, dev", valid_where="gender = 'male'", valid_subset=3
    ) == {"0": ids(train)} | {name: ids(index.subset(3)) for name, index in indices.items()}
    stages = {5: StageConfig(where="gender = 'male'"), 9: StageConfig(subset=3)}
    assert opened(small, stages=stages, train_subset=9, valid_split="") == {
        "0": ids(train.subset(9)),
        "5": men,
        "9": ids(train.subset(3)),
    }


def test_an_evaluation_opens_every_row_of_its_split_and_none_of_training(
    small: DanishAsrDataset,
) -> None:
    rows = opened(small, evaluates=True, train_split="nowhere", valid_subset=3, metric="cer")
    assert rows == {"dev": ids(small.read_index("dev"))}


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        (
            {"train_split": "trian", "valid_split": "dav"},
            ["dataset.valid_split", "dataset.train_split"],
        ),
        ({"evaluates": True, "valid_split": "dav"}, ["evaluator.split"]),
        ({"evaluates": True, "valid_where": "age > 900"}, ["evaluator.where"]),
        ({"valid_where": "age > 900"}, ["dataset.valid_where"]),
        ({"train_where": "age > 900"}, ["dataset.train_where"]),
        ({"stages": {3: StageConfig(where="age > 900")}}, ["trainer.stages.3.where"]),
    ],
)
def test_rows_that_do_not_exist_are_refused_with_the_key_that_asks_for_them(
    small: DanishAsrDataset, options: dict[str, Any], keys: list[str]
) -> None:
    with pytest.raises(ConfigError) as refused:
        opened(small, **options)
    assert [fault.partition(":")[0] for fault in refused.value.faults] == keys


@pytest.fixture(scope="module")
def index(dataset: Path) -> Index:
    return DanishAsrDataset(dataset).read_index("train")


def ids(index: Index) -> list[str]:
    return index.rows["id"].to_list()


def test_the_rows_of_a_subset_and_a_share_and_their_digest_are_fixed(
    small: DanishAsrDataset,
) -> None:
    """A run continues with the rows that it began with, also after an update."""
    index = small.read_index("train")
    numbers = np.array([3, 4], np.int32)
    chosen = [ids(index.subset(5)), ids(index.share(0.4, 7)), index.digest(numbers)]
    assert hashlib.sha256(str(chosen).encode()).hexdigest()[:16] == "54c781e43d2edf69"
    texts = index.rows.with_columns(text=pl.lit("x"))
    others = {
        index.digest(numbers[:1]),
        Index("train", texts, index.shards, 19).digest(numbers),
        Index("train", index.rows.with_columns(_samples=pl.lit(9)), [], 19).digest(numbers),
    }
    assert len(others | {chosen[2]}) == 4


def test_targets_are_the_texts_of_the_profile() -> None:
    index = Index("dev", pl.DataFrame({"text": ["Køb 2 Øl!"]}), [], 1)
    assert index.with_targets("raw").rows[TARGET].to_list() == ["Køb 2 Øl!"]
    assert index.with_targets("coral").rows[TARGET].to_list() == ["køb to øl"]


@pytest.mark.parametrize("size", [1, 7, 11, 30, 47])
def test_a_subset_leaves_no_dialect_out_and_holds_the_smaller_ones(index: Index, size: int) -> None:
    subset = index.subset(size)
    for dialect, all_ in index.rows["dialect"].value_counts().iter_rows():
        count = subset.rows["dialect"].eq_missing(dialect).sum()
        assert count == 1 or abs(count - size / len(index) * all_) <= 0.5 + 1e-9
    assert {*subset.rows["dialect"]} == {*index.rows["dialect"]}
    for larger in range(size, len(index) + 2):
        assert set(ids(subset)) <= set(ids(index.subset(larger)))


@pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 0.8, 1.0])
def test_a_share_is_of_each_dialects_hours_holds_smaller_ones_and_divides_one_speaker_of_it(
    index: Index, share: float
) -> None:
    dialects, codes = np.unique(index.rows["dialect"].fill_null(""), return_inverse=True)
    is_chosen = np.isin(ids(index), ids(index.share(share, seed=1)))
    hours = np.bincount(codes, index.lengths)
    chosen = np.bincount(codes, index.lengths * is_chosen)
    half_a_row = index.lengths.max() / 2
    is_first = np.bincount(codes, is_chosen) == 1
    assert (is_first | (abs(chosen - share * hours) <= half_a_row)).all()
    assert {*ids(index.share(share, seed=1))} <= {*ids(index.share(min(1, share + 0.2), seed=1))}
    # A speaker in two corpora is two, unless they share people.
    corpora = sorted({*index.rows["corpus"]})
    for share_people, columns in (([], ("corpus", "speaker_id")), ([corpora], ("speaker_id",))):
        is_chosen = np.isin(ids(index), ids(index.share(share, 1, share_people)))
        speakers = np.array([*map(str, index.rows.select(columns).rows())])
        for code in range(len(dialects)):
            inside, outside = (speakers[(codes == code) & part] for part in (is_chosen, ~is_chosen))
            assert len({*inside} & {*outside}) <= 1
