"""What is wrong with a configuration is reported before anything is built, all of it at once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from danish_asr.recipe.run_directory import CHECKPOINTS
from tests.recipe.running import evaluate, train

STORAGE = "dataset.mixture_parquet_storage_config"


def faults(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The reported faults, without the line that counts them."""
    error = capsys.readouterr().err
    assert "Traceback" not in error
    assert "Opening tiny dataset" not in error, "something was built first"
    lines = error.partition("error: ")[2].splitlines()
    return [line.removeprefix("  - ") for line in lines[1:]]


def test_keys_types_rules_names_and_splits_are_refused_in_one_pass(
    tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = train(
        tmp_path / "run",
        dataset,
        "trainer.max_grad_nrm=1",
        "optimizer.config.lr=.nan",
        "regime.num_steps=0",
        "dataset.train_split=trian",
        "dataset.valid_split='dev,dav'",
        "model={name: omniASR_CTC_3OOM}",
        "pretrained_encoder.name=omniASR_CTC_300M",
        "tokenizer.name=nope",
    )
    assert status == 2
    assert [fault.split()[0].rstrip(":") for fault in faults(capsys)] == [
        "trainer.max_grad_nrm",
        "optimizer.config.lr",
        "regime.num_steps",
        "dataset.train_split",
        "dataset.valid_split",
        "model.name",
        "pretrained_encoder.name",
        "tokenizer.name",
    ]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["dataset.name=nope"], ("dataset.name", "'nope'; available: ")),
        # TRAPS, names: upstream only warns of a missing path and continues without its cards.
        (["common.assets.extra_paths=[/crads]"], ("dataset.name", "/crads (not a directory)")),
        (["model={name: nope}"], ("model.name", "'nope'; available: omniASR_CTC_1B")),
        (["model.arch=huge"], ("model.arch", "'huge'; available: ")),
        (["model={arch: null}"], ("model.name", "model.arch or model.path must say")),
        (["model={name: omniASR_LLM_300M}"], ("model.name", "a CTC model (not LLM models)")),
        (["model={path: /nowhere, arch: tiny}"], ("model.path", "/nowhere must be a finished run")),
        (["model={path: /}"], ("model.path", "another checkpoint needs model.arch")),
        (["model.config_overrides={target_vocab_size: 7}"], ("model.config_overrides", "but is 7")),
        (["model.config_overrides={encoder_confg: {}}"], ("model.config_overrides", "encoder_c")),
        (
            ["model.config_overrides={encoder_config: {model_dim: 33}}"],
            ("model.config_overrides", "divisible"),
        ),
        (["tokenizer={path: /no, family: char_tokenizer}"], ("tokenizer.path", "/no is not a")),
        (["dataset.valid_split=dav"], ("dataset.valid_split", "the dataset has: dev, test, train")),
        (
            ["dataset.train_split=null"],
            ("dataset.train_split", "the dataset has: dev"),
        ),
        (["dataset.storage_mode=MANIFEST"], ("dataset.storage_mode", "must be MIXTURE_PARQUET")),
        (
            [f"{STORAGE}.beta_corpus=0.5", f"{STORAGE}.dataset_summary_path=/nowhere.tsv"],
            (f"{STORAGE}.dataset_summary_path", "must be a file, but is '/nowhere.tsv'"),
        ),
        (
            [f"{STORAGE}.fragment_streaming.partition_filters=\"pc.field('corpus') == 'mls'\""],
            ("dataset.train_split", "leaves nothing of split 'train'"),
        ),
        (
            [f"{STORAGE}.fragment_loading.filters=\"pc.field('sex') == 'female'\""],
            (f"{STORAGE}.fragment_loading.filters", "expected an expression over id, text"),
        ),
        (
            ["dataset={name: null, family: mixture_parquet_asr_dataset}"],
            ("dataset.config_overrides", "data"),
        ),
        (["dataset={name: null, family: jpeg}"], ("dataset.family", "mixture_parquet_asr_dataset")),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_could(
    tmp_path: Path,
    dataset: Path,
    overrides: list[str],
    expected: tuple[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """TRAPS, names: an unknown name or a wrong path ends in a stack trace, or only warns."""
    assert train(tmp_path / "run", dataset, *overrides) == 2
    key, text = expected
    assert any(fault.startswith(key) and text in fault for fault in faults(capsys))
    assert not (tmp_path / "run").exists()


def test_a_directory_of_cards_may_be_named_twice(
    tmp_path: Path, dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(dataset / "cards")
    monkeypatch.setenv("DANISH_ASR_ASSETS", f"{dataset}/cards:{tmp_path}/link:{dataset}")
    again = (
        f"common.assets.extra_paths=[{dataset}/cards, {tmp_path}/link, {dataset}/cards/tiny.yaml]"
    )
    assert train(tmp_path / "run", dataset, again) == 0


def test_two_cards_of_one_name_are_refused(
    tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(dataset / "cards", tmp_path / "copy")
    twice = f"common.assets.extra_paths=[{dataset}/cards, {tmp_path}/copy]"
    assert train(tmp_path / "run", dataset, twice, "regime.num_stpes=1") == 2
    unknown, double = faults(capsys)
    assert unknown.startswith("regime.num_stpes")
    assert "exists in both" in double
    assert f"{tmp_path}/copy" in double


def test_an_evaluation_is_refused_in_one_pass_too(
    tmp_path: Path,
    dataset: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    wrong = ["evaluator.split=exam", "evaluator.amp=maybe", "dataset.text_profile=x"]
    assert evaluate(tmp_path / "empty", dataset, *wrong) == 2
    assert [fault.split()[0].rstrip(":") for fault in faults(capsys)][:4] == [
        "evaluator.checkpoint",
        "evaluator.amp",
        "dataset.text_profile",
        "evaluator.split",
    ]


def test_a_checkpoint_of_a_finished_run_is_a_model_path(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    """TRAPS, names: upstream refuses a path without a family, and assumes 32 symbols."""
    checkpoint = finished_run / CHECKPOINTS / "step_2"
    own = [f"model={{path: {checkpoint}}}", "regime.num_steps=2"]
    assert train(tmp_path / "run", dataset, *own) == 0


def test_an_output_directory_that_is_a_file_is_refused(
    tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run"
    file.touch()
    for directory in (file, file / "below"):
        assert train(directory, dataset) == 2
        assert f"{file} is a file" in capsys.readouterr().err


def test_lengths_that_no_training_utterance_has_are_refused_before_the_model_is_built(
    tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = [f"dataset.asr_task_config.{name}" for name in ("min_audio_len", "max_audio_len")]
    assert train(tmp_path / "run", dataset, f"{limits[0]}=150000", f"{limits[1]}=160000") == 2
    error = capsys.readouterr().err
    assert (
        "from min_audio_len (150000) to max_audio_len (160000); split 'train' has 48, of" in error
    )
    assert "(final_proj): Linear" not in error
