"""What is wrong with a configuration is reported before anything is built, all of it at once."""

import shutil
import sys
from pathlib import Path

import pytest

from danish_asr.base.config_tree import merge, parse_override
from danish_asr.recipe.data.dataset import DATASET_FAMILY
from danish_asr.recipe.entry import evaluate as eval_main
from tests.recipe.running import evaluate, train
from tests.shards import utterance, write_shard

STORAGE, OVERRIDES = "dataset.mixture_parquet_storage_config", "model.config_overrides"


def faults(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The reported faults, without the line that counts them."""
    error = capsys.readouterr().err
    assert "Traceback" not in error
    assert "Opening tiny dataset" not in error, "something was built first"
    lines = error.partition("error: ")[2].splitlines()
    return [line.removeprefix("  - ") for line in lines[1:]]


def test_unknown_keys_are_refused_first(
    tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = ["trainer.max_grad_nrm=1", "regime.num_stpes=3", "dataset.train_split=trian"]
    assert train(tmp_path / "run", dataset, *wrong) == 2
    assert [fault.split()[0] for fault in faults(capsys)] == [
        "trainer.max_grad_nrm",
        "regime.num_stpes",
    ]


def test_rules_names_and_splits_are_refused_in_one_pass(
    tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = train(
        tmp_path / "run",
        dataset,
        "optimizer.config.lr=-1",
        "regime.num_steps=0",
        "dataset.train_split=trian",
        "dataset.valid_split='dev,dav'",
        "model={name: omniASR_CTC_3OOM}",
        "pretrained_encoder.name=omniASR_CTC_300M",
        "tokenizer.name=nope",
    )
    assert status == 2
    assert [fault.split()[0].rstrip(":") for fault in faults(capsys)] == [
        "regime.num_steps",
        "optimizer.config.lr",
        "dataset.train_split",
        "dataset.valid_split",
        "model.name",
        "pretrained_encoder.name",
        "tokenizer.name",
    ]
    assert not (tmp_path / "run").exists()


UNUSABLE = [
    ("dataset.name=nope", "dataset.name", "'nope'; available: "),
    # TRAPS, names: upstream only warns of a missing path and continues without its cards.
    ("common.assets.extra_paths=[/crads]", "dataset.name", "/crads (not a directory)"),
    ("dataset.valid_split='dev,dev_coral_read_aloud'", "dataset.valid_split", "rows in common"),
    ("model={name: nope}", "model.name", "'nope'; available: omniASR_CTC_1B"),
    ("model.arch=huge", "model.arch", "must be one of 1b"),
    ("model={arch: null}", "model.name", "model.arch or model.path must say"),
    ("model={name: omniASR_LLM_300M}", "model.name", "a CTC model (not LLM models)"),
    ("model={path: /nowhere, arch: tiny}", "model.path", "another checkpoint needs model.arch"),
    (f"{OVERRIDES}={{target_vocab_size: 7}}", OVERRIDES, "but is 7"),
    (f"{OVERRIDES}={{encoder_confg: {{}}}}", OVERRIDES, "encoder_c"),
    (f"{OVERRIDES}={{encoder_config: {{model_dim: 33}}}}", OVERRIDES, "divisible"),
    ("tokenizer={path: /no, family: char_tokenizer}", "tokenizer.path", "/no is not a"),
    ("dataset.valid_split=dav", "dataset.valid_split", "the dataset has: dev, test, train"),
    ("dataset.storage_mode=MANIFEST", "dataset.storage_mode", "must be MIXTURE_PARQUET"),
    (
        *(f"{STORAGE}.dataset_summary_path=/nowhere.tsv", f"{STORAGE}.dataset_summary_path"),
        "must be a file, but is '/nowhere.tsv'",
    ),
    (
        f"{STORAGE}.fragment_loading.filters=\"pc.field('sex') == 'female'\"",
        *("dataset.train_where", "columns are id, text"),
    ),
    ("dataset.train_where=age > 200", "dataset.train_where", "age has "),
    (f"dataset={{name: null, family: {DATASET_FAMILY}}}", "dataset.config_overrides", "data"),
    ("dataset={name: null, family: jpeg}", "dataset.family", DATASET_FAMILY),
    (
        "optimizer.config.groups=[{params: 'encoder\\.'}, {params: encoder.layers}]",
        *("optimizer.config.groups[1].params", "begin with encoder, encoder_frontend, final_"),
    ),
    (
        "optimizer.config.groups=[{params: 'encoder.('}]",
        *("optimizer.config.groups[0].params", "must be a regular expression, but is 'encoder.('"),
    ),
    (
        *("optimizer.config.groups=[{params: final}]", "lr_scheduler.config.final_lr_scale=[1]"),
        *("lr_scheduler.config.final_lr_scale", "one for each of 2 groups"),
    ),
    (
        "trainer.freeze_encoder_layers=2",
        *("trainer.freeze_encoder_layers", "at most 1, the number of encoder layers, but is 2"),
    ),
]
"""Overrides, and the key and part of the fault that they cause."""


@pytest.mark.parametrize("case", UNUSABLE, ids=" ".join)
def test_what_cannot_be_used_is_refused_with_what_could(
    tmp_path: Path, dataset: Path, case: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """TRAPS, names: an unknown name or a wrong path ends in a stack trace, or only warns.

    TRAPS, training: so do a group that matches no parameter, and more layers than there are.
    """
    *overrides, key, text = case
    assert train(tmp_path / "run", dataset, *overrides) == 2
    assert any(fault.startswith(key) and text in fault for fault in faults(capsys))
    assert not (tmp_path / "run").exists()


def test_a_score_that_no_validation_row_has_is_refused(
    tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for split in ("train", "dev"):
        write_shard(tmp_path / "data", [utterance(0, split=split, dialect=None)], split=split)
    family = "name: null, family: mixture_parquet_asr_dataset"
    own = f"dataset={{{family}, config_overrides: {{data: {tmp_path}/data}}}}"
    score = "regime.score_metric=worst_group_wer"
    assert train(tmp_path / "run", dataset, own, "tokenizer.name=tiny_char", score) == 2
    (fault,) = faults(capsys)
    assert fault.startswith("regime.score_metric")
    assert "set regime.score_metric=wer" in fault
    assert not (tmp_path / "run").exists()


def test_a_directory_of_cards_may_be_named_twice(
    tmp_path: Path,
    dataset: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "link").symlink_to(dataset / "cards")
    monkeypatch.setenv("DANISH_ASR_ASSETS", f"{dataset}/cards:{tmp_path}/link:{dataset}")
    named = f"{dataset}/cards, {tmp_path}/link, {dataset}/cards/tiny.yaml"
    again = f"common.assets.extra_paths=[{named}]"
    assert train(tmp_path / "run", dataset, "--dump-config", "--config", again) == 0
    assert "extra_paths: []" in capsys.readouterr().out


def test_two_cards_of_one_name_are_refused(
    tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(dataset / "cards", tmp_path / "copy")
    twice = f"common.assets.extra_paths=[{dataset}/cards, {tmp_path}/copy]"
    assert train(tmp_path / "run", dataset, twice, "regime.num_steps=0") == 2
    steps, double = faults(capsys)
    assert steps.startswith("regime.num_steps")
    assert double.startswith("common.assets.extra_paths")
    assert str(dataset / "cards") in double
    assert str(tmp_path / "copy") in double


def test_a_recorder_without_its_library_is_refused(
    tmp_path: Path,
    dataset: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """TRAPS, training: upstream warns in the log, and records nothing."""
    monkeypatch.setitem(sys.modules, "wandb", None)
    own = ["common.metric_recorders.wandb.enabled=true", "dataset.train_split=trian"]
    assert train(tmp_path / "run", dataset, *own) == 2
    split, missing = faults(capsys)
    assert split.startswith("dataset.train_split")
    assert missing.startswith("common.metric_recorders.wandb.enabled")
    assert missing.endswith("pip install 'danish-asr[wandb]'")


def test_a_dump_reports_the_faults_of_the_run(
    tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for own, status in (("model={name: omniASR_LLM_1B}", 2), ("regime.num_steps=1", 0)):
        assert train(tmp_path / "run", dataset, "--dump-config", "--config", own) == status
        output, error = capsys.readouterr()
        assert "score_metric: wer" in output
        assert ("a CTC model (not LLM models)" in error) == (status == 2)
    assert not (tmp_path / "run").exists()


def test_an_override_changes_what_an_earlier_one_set() -> None:
    texts = ["optimizer={name: adafactor}", "optimizer.config.lr=0.123"]
    tree = merge(*map(parse_override, texts))
    assert tree == {"optimizer": {"name": "adafactor", "config": {"lr": 0.123}}}
    with pytest.raises(ValueError, match="quote a value that has spaces"):
        parse_override("optimizer={name:")


def test_a_moved_run_is_a_model_path_also_beside_a_copy(
    tmp_path: Path, dataset: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, moved = tmp_path / "first", tmp_path / "moved"
    shutil.copytree(finished_run, first)
    shutil.copytree(first, moved)
    both = f"common.assets.extra_paths=[{dataset}/cards, {first}/cards]"
    shutil.rmtree(first / "checkpoints")
    named = ["--dump-config", "--config", both, "model={name: finished}"]
    assert train(tmp_path / "run", dataset, *named) == 2
    (fault,) = faults(capsys)
    assert f"{first}/checkpoints" in fault
    assert train(tmp_path / "run", dataset, *named, f"model={{path: {moved}}}") == 0


def test_an_evaluation_is_refused_in_one_pass_too(
    tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = ["evaluator.split=exam", "dataset.text_profile=x"]
    assert evaluate(tmp_path / "empty", dataset, *wrong) == 2
    assert [fault.split()[0].rstrip(":") for fault in faults(capsys)][:3] == [
        "evaluator.checkpoint",
        "dataset.text_profile",
        "evaluator.split",
    ]


@pytest.mark.parametrize("section", [["regime.num_steps=4"], []], ids=["training", "none"])
def test_an_evaluation_without_a_checkpoint_is_refused_for_that_alone(
    tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str], section: list[str]
) -> None:
    own = [f"common.assets.extra_paths=[{dataset}/cards]", "dataset.name=tiny", *section]
    (tmp_path / "empty").mkdir()
    for name in ("empty", "missing"):
        with pytest.raises(SystemExit, match="2"):
            eval_main([str(tmp_path / name), "--config", *own])
        (fault,) = faults(capsys)
        assert f"{name} holds no checkpoint to score" in fault
        assert "evaluator.checkpoint=none and model.name" in fault
    assert [*tmp_path.rglob("*")] == [tmp_path / "empty"]
