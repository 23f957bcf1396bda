"""What `danish-asr plan` finds on a machine, and of what a configuration names."""

import sys
from pathlib import Path
from typing import Any

import pytest

from danish_asr.base.files import from_yaml, to_yaml
from danish_asr.planning.gpus import Card
from danish_asr.planning.plan import make_plan
from danish_asr.planning.show import check_machine, check_run, show_findings
from danish_asr.recipe.entry import Request, read_configuration
from tests.builders import build_dataset

ROOT = Path(__file__).parents[2]
GIB = 2**30
CARD = Card("a card", 40)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of a tiny model on a built dataset."""
    root = tmp_path_factory.mktemp("doctor")
    build_dataset(root / "tiny", name="tiny", train=4, dev=2, test=2)
    tree = from_yaml((ROOT / "configs" / "demo.yaml").read_text(encoding="utf-8"))
    tree["dataset"]["name"] = "tiny"
    tree["common"] = {"assets": {"extra_paths": [str(root / "tiny" / "cards")]}}
    file = root / "config.yaml"
    file.write_text(to_yaml(tree), encoding="utf-8")
    return file


def findings(file: Path, gpus: int = 1, **values: Any) -> dict[str, str]:
    """Lay ``values`` of sections over the file; return the text of each level but ``ok``."""
    layer = file.with_name("layer.yaml")
    layer.write_text(to_yaml(values), encoding="utf-8")
    request = Request(output_dir=None, config_files=[file, layer])
    tree = read_configuration(request)
    plan = make_plan(tree, where=request.where, card=CARD, gpus=gpus)
    return {level: text for level, text in check_run(plan) if level != "ok"}


def test_a_sound_configuration_has_no_faults(config: Path) -> None:
    assert findings(config) == {}


def test_a_machine_without_libraries_or_a_requested_gpu_has_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert [level for level, _ in check_machine()] == ["ok", "warning"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert [level for level, _ in check_machine()] == ["ok", "error"]
    monkeypatch.setitem(sys.modules, "torchaudio", None)
    assert not show_findings(check_machine())


def test_what_a_configuration_names_and_is_not_there_is_an_error(config: Path) -> None:
    assert "nowhere" in findings(config, dataset={"name": "nowhere"})["error"]


def test_weights_that_are_not_here_are_a_warning(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRSEQ2_CACHE_DIR", str(tmp_path / "cache"))
    encoder = {"name": "omniASR_W2V_300M"}
    faults = findings(config, model={"arch": "300m"}, pretrained_encoder=encoder)
    assert "omniASR_W2V_300M" in faults["warning"]


@pytest.mark.parametrize(("free", "gpus", "enough"), [(40, 1, True), (4, 1, False), (5, 8, True)])
def test_the_memory_that_other_programs_leave_must_be_enough_on_each_gpu(
    config: Path, monkeypatch: pytest.MonkeyPatch, free: int, gpus: int, enough: bool
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda: (free * GIB, 40 * GIB))
    settings: dict[str, Any] = {"mixed_precision": {"mode": "static"}, "data_parallelism": "fsdp"}
    settings["freeze_feature_extractor"] = True
    faults = findings(config, gpus, model={"arch": "300m"}, trainer=settings)
    assert ("memory" not in faults.get("error", "")) == enough


def test_too_little_disk_for_the_checkpoints_is_an_error(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("", (), {"free": 1000}))
    assert "disk" in findings(config)["error"]
