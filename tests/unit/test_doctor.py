"""What `danish-asr plan` finds on a machine, and of what a configuration names."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from danish_asr.base.errors import ConfigError
from danish_asr.base.files import from_yaml, to_yaml
from danish_asr.planning.gpus import Card
from danish_asr.planning.plan import check_machine, make_plan
from danish_asr.recipe.entry import Request, read_configuration
from tests.builders import build_dataset

ROOT = Path(__file__).parents[2]
GIB = 2**30
CARD = Card("a card", 40)


@pytest.fixture(autouse=True)
def _large_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000 * GIB))


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


def works(file: Path, gpus: int = 1, **values: Any) -> bool:
    """Lay ``values`` of sections over the file; return whether the run would work here."""
    layer = file.with_name("layer.yaml")
    layer.write_text(to_yaml(values), encoding="utf-8")
    request = Request(output_dir=None, config_files=[file, layer])
    tree = read_configuration(request)
    return check_machine(make_plan(tree, where=request.where, card=CARD, gpus=gpus))


def test_a_machine_without_a_requested_gpu_has_an_error(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert check_machine()
    assert works(config)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert not check_machine()


def test_what_a_configuration_names_and_is_not_there_is_an_error(config: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        works(config, dataset={"name": "nowhere"})


def test_weights_that_are_not_here_are_a_warning(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("FAIRSEQ2_CACHE_DIR", str(tmp_path / "cache"))
    encoder = {"name": "omniASR_W2V_300M"}
    assert works(config, model={"arch": "300m"}, pretrained_encoder=encoder)
    assert "omniASR_W2V_300M" in capsys.readouterr().out


@pytest.mark.parametrize(("free", "gpus", "enough"), [(40, 1, True), (4, 1, False), (5, 8, True)])
def test_the_memory_that_other_programs_leave_must_be_enough_on_each_gpu(
    config: Path, monkeypatch: pytest.MonkeyPatch, free: int, gpus: int, enough: bool
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "a card")
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda: (free * GIB, 40 * GIB))
    settings: dict[str, Any] = {"mixed_precision": {"mode": "static"}, "data_parallelism": "fsdp"}
    settings["freeze_feature_extractor"] = True
    assert works(config, gpus, model={"arch": "300m"}, trainer=settings) == enough


def test_too_little_disk_for_the_checkpoints_is_an_error(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    assert not works(config)
