"""What the doctor says about a machine, a configuration and its dataset."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from danish_asr.base.files import from_yaml, to_yaml
from danish_asr.planning import doctor as module
from danish_asr.planning.doctor import check_caches, check_cpus, check_gpu, check_libraries, doctor
from danish_asr.planning.gpus import Card
from tests.builders import build_dataset

ROOT = Path(__file__).parents[2]


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


def findings(*files: Path, works: bool = False, **values: Any) -> list[dict[str, str]]:
    """Lay ``values`` of sections over the files, and return what the doctor says."""
    if values:
        layer = files[0].with_name("layer.yaml")
        layer.write_text(to_yaml(values), encoding="utf-8")
        files = (*files, layer)
    console = Console(file=io.StringIO())
    assert doctor(files, run=files[0].parent / "run", as_json=True, console=console) == works
    found: list[dict[str, str]] = json.loads(console.file.getvalue())  # type: ignore[attr-defined]
    assert all(finding["fix"] for finding in found if finding["level"] != "ok")
    return found


def errors(*files: Path, **values: Any) -> list[str]:
    every = findings(*files, **values)
    return [f"{each['check']}: {each['found']}" for each in every if each["level"] == "error"]


def test_a_sound_configuration_has_no_errors(config: Path, tmp_path: Path) -> None:
    found = {finding["check"]: finding["found"] for finding in findings(config, works=True)}
    assert "model tiny, dataset tiny, tokenizer tiny_char" in found["configuration"]
    assert found["dataset"].startswith(f"{tmp_path}/tiny: ")
    assert not (tmp_path / "run").exists()
    console = Console(file=io.StringIO(), width=300)
    assert doctor([config], console=console)
    assert " findings: " in console.file.getvalue()  # type: ignore[attr-defined]


def test_faults_of_the_machine_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert check_libraries().level == "ok"
    monkeypatch.setattr(module, "NATIVE", ("no_such_library",))
    assert check_libraries().level == "error"
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.delenv("FAIRSEQ2_DEVICE", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert check_gpu().level == "warning"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert check_gpu().level == "error"
    monkeypatch.setenv("LSB_MCPU_HOSTS", "a-host 1")
    assert check_cpus().found.startswith("1 of the machine's ")
    monkeypatch.setattr("shutil.which", lambda name: name == "bsub")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HF_HOME", raising=False)
    monkeypatch.setenv("FAIRSEQ2_CACHE_DIR", str(tmp_path.parent))
    (cache,) = check_caches()
    assert (cache.level, "HF_HOME" in cache.fix) == ("warning", True)


def test_every_fault_of_a_configuration_is_an_error(config: Path, tmp_path: Path) -> None:
    (unknown,) = errors(config, regime={"num_stepz": 1})
    assert "regime.num_stepz" in unknown
    (model,) = errors(config, model={"arch": "huge"})
    assert "'huge'" in model
    (missing,) = errors(tmp_path / "missing.yaml")
    assert "missing.yaml" in missing


def test_weights_that_a_run_would_have_to_download_are_a_warning(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRSEQ2_CACHE_DIR", str(tmp_path / "cache"))
    found = findings(config, model={"name": "omniASR_CTC_300M"})
    (weights,) = [finding for finding in found if finding["check"] == "weights"]
    assert weights["level"] == "warning"
    assert weights["found"].endswith("omniASR_CTC_300M, omniASR_tokenizer_v1")


def test_a_gpu_that_is_too_small_is_an_error_with_the_keys_that_help(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "here", lambda: Card.of("5GB"))
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda: (7, 0))
    half = {"mixed_precision": {"mode": "static"}}
    found = findings(config, model={"arch": "300m"}, trainer=half)
    levels = {finding["check"]: finding for finding in found}
    assert (levels["memory"]["level"], levels["bf16"]["level"]) == ("error", "error")
    assert "optimizer.name=adamw_8bit" in levels["memory"]["fix"]


def test_too_little_disk_for_the_checkpoints_is_an_error(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("", (), {"free": 1000}))
    (disk,) = errors(config)
    assert disk.startswith("disk: ")


def test_the_dataset_of_the_command_line_replaces_that_of_the_files(
    config: Path, tmp_path: Path
) -> None:
    build_dataset(tmp_path / "other", name="other", train=4, dev=2, test=2)
    console = Console(file=io.StringIO(), width=300)
    assert doctor([config], dataset=tmp_path / "other", console=console)
    assert "dataset other" in console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("lost", [True, False])
def test_a_lost_or_damaged_shard_is_an_error(config: Path, tmp_path: Path, *, lost: bool) -> None:
    shard = next((tmp_path / "tiny").rglob("split=train/**/*.parquet"))
    if lost:
        shard.unlink()
    else:
        shard.write_bytes(b"PAR1")
    assert any(shard.name in text or "train" in text for text in errors(config))
