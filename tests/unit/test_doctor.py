"""What `danish-asr plan` finds on a machine, in a configuration and its dataset."""

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
    check_setup,
    examine,
)
from danish_asr.planning.gpus import Card
from danish_asr.planning.plan import make_plan
from danish_asr.recipe.entry import Request, read_configuration
from tests.builders import build_dataset

ROOT = Path(__file__).parents[2]
GIB = 2**30
CARD = Card("a card", 40 * GIB)


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


def findings(file: Path, gpus: int = 1, **values: Any) -> dict[str, Finding]:
    """Lay ``values`` of sections over the file; return what is found, by check."""
    layer = file.with_name("layer.yaml")
    layer.write_text(to_yaml(values), encoding="utf-8")
    request = Request(output_dir=None, config_files=[file, layer])
    tree = read_configuration(request)
    plan = make_plan(tree, where=request.where, card=CARD, gpus=gpus)
    results = [*examine(request, plan)]
    assert all(finding.fix for finding in results if finding.level != "ok")
    return {finding.check: finding for finding in results}


def test_a_sound_configuration_has_no_errors(config: Path) -> None:
    found = findings(config)
    assert "model tiny, dataset tiny, tokenizer tiny_char" in found["configuration"].text
    assert {finding.level for finding in found.values()} <= {"ok", "warning"}


def test_faults_of_the_machine_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert check_libraries().level == "ok"
    monkeypatch.setattr(module, "NATIVE", ("no_such_library",))
    assert check_libraries().level == "error"
    assert not check_setup()
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


def test_what_a_configuration_names_and_is_not_there_is_an_error(config: Path) -> None:
    fault = findings(config, dataset={"name": "nowhere"})["configuration"]
    assert fault.level == "error"
    assert "nowhere" in fault.text


def test_weights_that_are_not_here_are_a_warning_and_nothing_is_deleted(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRSEQ2_CACHE_DIR", str(tmp_path / "cache"))
    weights = findings(config, model={"name": "omniASR_CTC_300M"})["weights"]
    assert weights.level == "warning"
    assert weights.text.endswith("omniASR_CTC_300M, omniASR_tokenizer_v1")


@pytest.mark.parametrize(("free", "gpus", "enough"), [(40, 1, True), (4, 1, False), (5, 8, True)])
def test_the_memory_that_other_programs_leave_must_be_enough_on_each_gpu(
    config: Path, monkeypatch: pytest.MonkeyPatch, free: int, gpus: int, enough: bool
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "a card")
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda: (free * GIB, 40 * GIB))
    settings: dict[str, Any] = {"mixed_precision": {"mode": "static"}, "data_parallelism": "fsdp"}
    settings["freeze_feature_extractor"] = True
    found = findings(config, gpus, model={"arch": "300m"}, trainer=settings)
    assert ("memory" not in found) == enough


def test_too_little_disk_for_the_checkpoints_is_an_error(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("", (), {"free": 1000}))
    assert findings(config)["disk"].level == "error"


def test_a_lost_shard_of_the_dataset_is_an_error(config: Path, tmp_path: Path) -> None:
    next((tmp_path / "tiny").rglob("split=dev/**/*.parquet")).unlink()
    found = findings(config).values()
    assert "error" in {finding.level for finding in found}
