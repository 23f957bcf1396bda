"""What the doctor says about a machine, a configuration and its dataset."""

from pathlib import Path
from typing import Any

import pytest

from danish_asr.base.files import from_yaml, to_yaml
from danish_asr.planning import doctor as module
from danish_asr.planning.doctor import (
    Finding,
    check_caches,
    check_gpu,
    check_libraries,
    doctor,
    examine,
)
from danish_asr.planning.gpus import Card
from tests.builders import build_dataset

ROOT = Path(__file__).parents[2]
GIB = 2**30


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The configuration of a tiny model on a built dataset."""
    build_dataset(tmp_path / "tiny", name="tiny", train=4, dev=2, test=2)
    tree = from_yaml((ROOT / "configs" / "demo.yaml").read_text(encoding="utf-8"))
    tree["dataset"]["name"] = "tiny"
    tree["common"] = {"assets": {"extra_paths": [str(tmp_path / "tiny" / "cards")]}}
    file = tmp_path / "config.yaml"
    file.write_text(to_yaml(tree), encoding="utf-8")
    return file


def findings(file: Path, gpus: int | None = None, **values: Any) -> dict[str, Finding]:
    """Lay ``values`` of sections over the file; return what the doctor finds, by check."""
    layer = file.with_name("layer.yaml")
    layer.write_text(to_yaml(values), encoding="utf-8")
    results = examine([file, layer], gpus=gpus)
    assert all(finding.fix for finding in results if finding.level != "ok")
    return {finding.check: finding for finding in results}


def test_a_sound_configuration_has_no_errors(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {finding.check: finding for finding in examine([config])}
    assert "model tiny, dataset tiny, tokenizer tiny_char" in found["configuration"].text
    assert found["dataset"].text.startswith(f"{tmp_path}/tiny: ")
    assert doctor([config])
    assert " findings: " in capsys.readouterr().out


def test_faults_of_the_machine_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert check_libraries().level == "ok"
    monkeypatch.setattr(module, "NATIVE", ("no_such_library",))
    assert check_libraries().level == "error"
    assert not doctor([])
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.delenv("FAIRSEQ2_DEVICE", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert check_gpu().level == "warning"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert check_gpu().level == "error"
    monkeypatch.setattr("shutil.which", lambda name: name == "bsub")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HF_HOME", raising=False)
    monkeypatch.setenv("FAIRSEQ2_CACHE_DIR", str(tmp_path.parent))
    (cache,) = check_caches()
    assert (cache.level, "HF_HOME" in cache.fix) == ("warning", True)


@pytest.mark.parametrize(
    ("values", "named"),
    [({"regime": {"num_stepz": 1}}, "regime.num_stepz"), ({"model": {"arch": "huge"}}, "'huge'")],
)
def test_a_fault_of_a_configuration_is_an_error(
    config: Path, values: dict[str, Any], named: str
) -> None:
    fault = findings(config, **values)["configuration"]
    assert (fault.level, named in fault.text) == ("error", True)


def test_weights_that_are_not_here_are_a_warning_and_nothing_is_deleted(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRSEQ2_CACHE_DIR", str(tmp_path / "cache"))
    weights = findings(config, model={"name": "omniASR_CTC_300M"})["weights"]
    assert weights.level == "warning"
    assert weights.text.endswith("omniASR_CTC_300M, omniASR_tokenizer_v1")


@pytest.mark.parametrize(
    ("free", "gpus", "level"), [(40, 1, "ok"), (4, None, "error"), (5, 8, "ok")]
)
def test_the_memory_that_other_programs_leave_must_be_enough_on_each_gpu(
    config: Path, monkeypatch: pytest.MonkeyPatch, free: int, gpus: int | None, level: str
) -> None:
    monkeypatch.setattr(module, "here", lambda: Card("a card", 40 * GIB))
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda: (free * GIB, 40 * GIB))
    found = findings(
        config,
        gpus,
        model={"arch": "300m"},
        trainer={
            "mixed_precision": {"mode": "static"},
            "data_parallelism": "fsdp",
            "freeze_feature_extractor": True,
        },
    )
    assert found["memory"].level == level
    assert ("optimizer.name=adamw_8bit" in found["memory"].fix) == (level == "error")


def test_too_little_disk_for_the_checkpoints_is_an_error(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("", (), {"free": 1000}))
    assert findings(config)["disk"].level == "error"


def test_a_lost_shard_of_the_dataset_of_the_command_line_is_an_error(
    config: Path, tmp_path: Path
) -> None:
    build_dataset(tmp_path / "other", name="other", train=4, dev=2, test=2)
    next((tmp_path / "other").rglob("split=train/**/*.parquet")).unlink()
    levels = {finding.check: finding for finding in examine([config], dataset=tmp_path / "other")}
    assert levels["dataset"].level == "error"
    assert "other" in levels["dataset"].text
