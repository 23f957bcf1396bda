"""What is wrong with a configuration is reported before anything is built, all of it at once."""

import shutil
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from danish_asr.base.config_tree import read_yaml
from danish_asr.base.errors import ConfigError
from danish_asr.recipe.config.load import load
from danish_asr.recipe.config.schema import AsrConfig, WandbConfig
from danish_asr.recipe.config.training_sections import RegimeSection
from danish_asr.recipe.entry import Request, read_configuration
from danish_asr.recipe.run.run import Run
from danish_asr.recipe.train import preflight
from danish_asr.recipe.train.preflight import (
    recorder_faults,
    resolve,
    row_faults,
    with_accumulation,
)
from tests.running import arguments, copy_until, evaluate, same_weights, train


def faults(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The reported faults, without the line that counts them."""
    error = capsys.readouterr().err
    assert "Traceback" not in error
    assert "Opening tiny dataset" not in error, "something was built first"
    lines = error.partition("error: ")[2].splitlines()
    return [line.removeprefix("  - ") for line in lines[1:]]


def refused(run: Path, dataset: Path, *overrides: str) -> list[str]:
    """The faults of a configuration, as `resolve` finds them."""
    _, _, file, _, *values = arguments(run, dataset, *overrides)
    request = Request(output_dir=run, config_files=[Path(file)], overrides=values)
    try:
        resolve(load(read_configuration(request), where=request.where), where=request.where)
    except ConfigError as error:
        return [*error.faults]
    return []


@pytest.mark.parametrize(
    "overrides",
    [
        # Found without PyTorch.
        {"optimizer.config.lr": "-1", "regime.num_steps": "0"},
        # Found in the cards and the dataset.
        {
            "dataset.train_split": "trian",
            "dataset.valid_split": "'dev,dav'",
            "model.name": "omniASR_CTC_3OOM",
        },
    ],
)
def test_all_values_and_then_all_names_are_refused_at_once(
    tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str], overrides: dict[str, str]
) -> None:
    values = [f"{key}={value}" for key, value in overrides.items()]
    assert train(tmp_path / "run", dataset, *values, "model.config_overrides=null") == 2
    assert {fault.split()[0].rstrip(":") for fault in faults(capsys)} == {*overrides}
    assert not (tmp_path / "run").exists()


UNUSABLE = [
    ("dataset.name=nope", "dataset.name", "convert SOURCE --name nope --out data/parquet"),
    ("dataset.name=coral_v3", "dataset.name", "convert hf:CoRal-project/coral-v3 --name coral_v3 "),
    (
        'dataset.weights=[{where: "corpus == \'x", factor: 2}]',
        *("dataset.weights[0].where", "corpus == 'x"),
    ),
    (
        "dataset.weights=[{where: age > 0, factor: 2}, {where: \"corpus = 'ft'\", factor: 2}]",
        *("dataset.weights[1].where", "coral_conversation, coral_read_aloud"),
    ),
    ("trainer.stages={2: {where: gender = 'x'}}", "trainer.stages.2.where", ""),
    # TRAPS, names: upstream only warns of a missing path and continues without its cards.
    ("common.assets.extra_paths=[/crads]", "dataset.name", "/crads"),
    ("common.assets.prev_checkpoint_dir=../../etc", "common.assets.prev_checkpoint_dir", ""),
    ("model={name: nope}", "model.name", "omniASR_CTC_1B"),
    ("model={name: omniASR_LLM_300M}", "model.name", "not LLM models"),
    ("model={path: /etc, arch: tiny}", "model.path /etc", ""),
    ("model.keep_layers=[1]", "model.keep_layers", "1"),
    ("model.config_overrides={nope: 7}", "model.config_overrides", "nope"),
    ("model.config_overrides={target_vocab_size: 7}", "model.config_overrides", "7"),
    ("trainer.freeze_encoder_layers=2", "trainer.freeze_encoder_layers", "1"),
    ("trainer.unfreeze={0: head, 2: top 2}", "trainer.unfreeze", "1"),
    (
        "model.config_overrides={encoder_config: {num_encoder_layers: 1, model_dim: 33}}",
        *("model.config_overrides", ""),
    ),
    ("pretrained_encoder.name=nope", "pretrained_encoder.name", ""),
    ("decoder.name=nope", "decoder.name", ""),
    ("dataset.weights=[{where: text is not null, factor: 1e-9}]", "dataset.weights", ""),
    ("optimizer.config.betas=[0.9, 0.98, 0.9]", "optimizer.config.betas", ""),
]
"""An override, and the key and a part of the fault that it causes."""

USABLE = (
    "trainer.freeze_encoder_layers=1",
    "trainer.unfreeze={0: head, 2: top 1}",
    "model.keep_layers=[0]",
)


def test_a_run_may_keep_freeze_and_free_all_layers_that_there_are(
    tmp_path: Path, dataset: Path
) -> None:
    assert refused(tmp_path / "run", dataset, *USABLE) == []


@pytest.mark.parametrize(
    ("minutes", "batches"), [(None, 4), (8.0, 4), (8.07, 4), (2.0, 1), (8.1, None), (0.5, None)]
)
def test_the_audio_of_a_step_gives_the_batches_of_each_process(
    minutes: float | None, batches: int | None
) -> None:
    config = AsrConfig()
    config.dataset.asr_task_config.max_num_elements = 960_000  # a minute
    config.trainer.effective_audio_minutes = minutes
    if batches is None:
        with pytest.raises(ConfigError, match=r"trainer\.effective_audio_minutes"):
            with_accumulation(config, 2)
    else:
        assert with_accumulation(config, 2).trainer.grad_accumulation.num_batches == batches


@pytest.mark.parametrize(("override", "key", "text"), UNUSABLE)
def test_what_cannot_be_used_is_refused_with_what_could(
    tmp_path: Path, dataset: Path, override: str, key: str, text: str
) -> None:
    """TRAPS, names: an unknown name or a wrong path ends in a stack trace, or only warns.

    TRAPS, training: more frozen layers than there are have no effect.
    """
    faults_of_run = refused(tmp_path / "run", dataset, override)
    assert any(fault.startswith(key) and text in fault for fault in faults_of_run)


@pytest.mark.parametrize(
    ("metric", "texts", "is_refused"),
    [
        ("worst_group_wer", {"...": "Fynsk", "ja": None}, True),
        ("worst_group_wer", {"...": "Fynsk", "ja": "Fynsk"}, False),
        ("wer", {"...": "Fynsk", "ja": None}, False),
        ("cer", {"...": "Fynsk", "!": None}, True),
        ("loss", {"...": None}, False),
    ],
)
def test_rows_must_have_the_score_that_a_run_is_judged_by(
    metric: Any, texts: dict[str, str | None], *, is_refused: bool
) -> None:
    rows = pl.DataFrame({"text": [*texts], "dialect": [*texts.values()]})
    opened: Any = SimpleNamespace(train={}, valid={"dev": SimpleNamespace(rows=rows)})
    config = AsrConfig(regime=RegimeSection(score_metric=metric))
    faults = [fault.partition(":")[0] for fault in row_faults(opened, config)]
    assert faults == ["regime.score_metric"] * is_refused


def test_a_recorder_without_its_library_is_refused(
    tmp_path: Path,
    dataset: Path,
    finished_run: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """TRAPS, training: upstream warns in the log, and records nothing."""
    monkeypatch.setitem(sys.modules, "wandb", None)
    own = ["common.metric_recorders.wandb.enabled=true", "dataset.train_split=trian"]
    assert train(tmp_path / "run", dataset, *own) == 2
    split, *missing = faults(capsys)
    assert split.startswith("dataset.train_split")
    assert evaluate(finished_run, dataset, own[0]) == 2
    for fault in (*missing, *faults(capsys)):
        assert fault.startswith("common.metric_recorders.wandb.enabled")
        assert fault.endswith("pip install 'danish-asr[wandb]'")


def test_an_optimizer_without_its_library_is_refused(
    tmp_path: Path, dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "find_spec", lambda _: None)
    (fault,) = refused(tmp_path / "run", dataset, "optimizer={name: adamw_8bit}")
    assert fault.startswith("optimizer.name")
    assert fault.endswith("pip install 'danish-asr[bitsandbytes]'")


def test_wandb_is_refused_where_its_server_does_not_answer_unless_it_is_offline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its library tries for ever, deaf to stop signals."""
    section = WandbConfig(enabled=True)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    (fault,) = recorder_faults(section)
    assert fault.startswith("common.metric_recorders.wandb.enabled")
    assert "WANDB_MODE=offline" in fault
    assert recorder_faults(WandbConfig(enabled=False)) == []
    for variable, value in (("WANDB_MODE", "offline"), ("RANK", "1")):
        with monkeypatch.context() as patch:
            patch.setenv(variable, value)
            assert recorder_faults(section) == []
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:  # it answers 501
        answers = Thread(target=server.handle_request)
        answers.start()
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{server.server_port}")
        assert recorder_faults(section) == []
        answers.join()


@pytest.mark.slow
@pytest.mark.parametrize("by_name", [False, True])
def test_a_run_continues_with_the_model_that_it_began_with(
    tmp_path: Path,
    dataset: Path,
    finished_run: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    by_name: bool,
) -> None:
    """Where that came from may have another best checkpoint, another spelling, or be gone."""
    source, straight = shutil.copytree(finished_run, tmp_path / "source"), tmp_path / "straight"
    named, again = f"model={{path: {source}}}", "model={path: source}"
    if by_name:
        monkeypatch.setenv("DANISH_ASR_ASSETS", str(source / "cards"))
        named = again = "model={name: finished}"
    assert train(straight, dataset, named) == 0
    (source / "checkpoints" / "scores" / "step_2.txt").write_text("0\n")
    monkeypatch.chdir(tmp_path)
    for spelling in dict.fromkeys([again, named]):
        if spelling == named:
            shutil.rmtree(source)
        run = copy_until(2, straight, tmp_path / "run")
        assert train(run, dataset, spelling) == 0
        assert same_weights(run, straight)
        shutil.rmtree(run)


@pytest.mark.slow
def test_another_model_is_refused(
    tmp_path: Path, dataset: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert train(run, dataset, f"model={{path: {finished_run}}}", "regime.num_steps=2") == 0
    assert read_yaml(run / "config.yaml")["model"]["path"] == str(finished_run.resolve())
    other = shutil.copytree(finished_run, tmp_path / "other")
    assert train(run, dataset, f"model={{path: {other}}}") == 2
    assert "model.path" in capsys.readouterr().err
    assert Run(run).steps == [2]


@pytest.mark.slow
def test_a_run_and_its_dataset_may_have_the_same_name(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    run = shutil.copytree(finished_run, tmp_path / "tiny")
    (run / "cards" / "finished.yaml").rename(run / "cards" / "tiny.yaml")
    card = run / "cards" / "tiny.yaml"
    card.write_text(card.read_text().replace("name: finished", "name: tiny"))
    assert read_yaml(card)["name"] == "tiny"
    short = "regime.num_steps=2"
    assert train(tmp_path / "next", dataset, f"model={{path: {run}}}", short) == 0
