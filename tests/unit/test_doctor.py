"""What the doctor finds, and its fixes."""

import io
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from danish_asr.base.files import from_yaml, to_yaml
from danish_asr.planning.doctor import doctor, machine
from danish_asr.planning.doctor import run as of_run
from danish_asr.planning.doctor.machine import Finding
from danish_asr.planning.gpus import Card
from tests.builders import build_dataset

ROOT = Path(__file__).parents[2]


def faults(findings: Iterable[Finding], level: str = "error") -> list[str]:
    every = list(findings)
    assert all(finding.fix for finding in every if finding.level != "ok")
    return [f"{finding.check}: {finding.found}" for finding in every if finding.level == level]


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


def changed(config: Path, file: Path, section: str, **values: Any) -> Path:
    """Write a copy of a configuration with other values in one section."""
    tree = from_yaml(config.read_text(encoding="utf-8"))
    tree[section] = tree.get(section, {}) | values
    file.write_text(to_yaml(tree), encoding="utf-8")
    return file


def examine(*config: Path, run: Path, scripts: Path = ROOT / "lsf") -> tuple[bool, str]:
    """Whether the run would work, and what is printed."""
    output = io.StringIO()
    console = Console(file=output, width=300)
    return doctor(config, run=run, scripts_dir=scripts, console=console), output.getvalue()


def test_this_environment_is_sound() -> None:
    (found,) = machine.check_packages()
    assert found == Finding("ok", "packages", "pip check finds no conflict")


def test_conflicting_packages_and_broken_libraries_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        "omnilingual-asr 0.2.0 requires kenlm, which is not installed.",
        "danish-asr 1.0 has requirement pyarrow<22, but you have pyarrow 26.0.0.",
        "notebook 7.0 requires tornado, which is not installed.",
    ]
    script = tmp_path / "pip.py"
    script.write_text(f"print({chr(10).join(lines)!r})\nraise SystemExit(1)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # in place of the real one
    monkeypatch.setattr(machine, "NATIVE", ("no_such_library",))
    findings = list(machine.check_packages())
    assert faults(findings) == [
        f"packages: {lines[1]}",
        "package no_such_library: does not load: No module named 'no_such_library'",
    ]
    assert faults(findings, "warning") == [f"packages: {lines[2]}"]


@pytest.mark.parametrize(("queue", "refused"), [("gpuv100", True), ("gpua100", False)])
def test_bf16_is_refused_where_the_queue_has_v100(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, queue: str, *, refused: bool
) -> None:
    monkeypatch.delenv("LSB_QUEUE", raising=False)
    (tmp_path / "train.sh").write_text(f"#!/bin/bash\n#BSUB -q {queue}\n")
    assert not [*machine.check_bf16(tmp_path)]  # nothing says where it will run
    monkeypatch.setenv("LSF_ENVDIR", "/lsf")
    assert bool(faults(machine.check_bf16(tmp_path))) == refused
    monkeypatch.setenv("LSB_QUEUE", queue)
    assert bool(faults(machine.check_bf16(ROOT / "lsf"))) == refused


def test_a_gpu_that_torch_cannot_use_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.delenv("FAIRSEQ2_DEVICE", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert len(faults(machine.check_gpu(), "warning")) == 1
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert len(faults(machine.check_gpu())) == 1


def test_the_disk_is_that_of_the_run(tmp_path: Path) -> None:
    run = tmp_path / "not" / "yet"
    assert faults(machine.check_disk(run, 1000)) == []
    (found,) = faults(machine.check_disk(run, 2**60))
    assert "needed for checkpoints" in found
    assert list(tmp_path.iterdir()) == []


def test_a_quota_that_cannot_be_checked_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "getquota_work3.sh"
    script.write_text("#!/bin/sh\necho 53 GiB of 200 GiB\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(machine, "reserve", lambda *_: None)
    disk, quota = machine.check_disk(tmp_path, 1)
    assert (disk.level, quota.level) == ("unknown", "unknown")
    assert "quota is not known" in disk.found
    assert "53 GiB of 200 GiB" in quota.found


def test_a_quota_shows_when_space_is_reserved() -> None:
    shared = Path("/dev/shm")  # noqa: S108 - a file system with a limit that every Linux has
    assert machine.reserve(shared, shutil.disk_usage(shared).total * 2) == "No space left on device"
    assert machine.reserve(shared, 1) == ""
    assert machine.reserve(Path("/proc"), 1) is None


@pytest.mark.parametrize("cache", machine.CACHES)
def test_caches_in_the_home_directory_of_a_cluster_are_warnings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in machine.CACHES:
        monkeypatch.setenv(name, "~/cache" if name == cache else "/work3/me")
    assert faults(machine.check_caches(), "warning") == []
    monkeypatch.setenv("LSF_ENVDIR", "/lsf")
    (found,) = faults(machine.check_caches(), "warning")
    assert found.startswith(f"cache {cache}: {tmp_path}/")


def test_a_script_without_a_wall_time_is_an_error_where_lsf_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LSF_ENVDIR", "/lsf")
    (tmp_path / "good.sh").write_text("#!/bin/bash\n#BSUB -q hpc -W 1:00\n")
    (tmp_path / "no-job.sh").write_text("#!/bin/bash\n")
    assert faults(machine.check_scripts(tmp_path)) == []
    (tmp_path / "without.sh").write_text("#!/bin/bash\n#BSUB -q hpc\n")
    (found,) = faults(machine.check_scripts(tmp_path))
    assert "without.sh" in found
    monkeypatch.delenv("LSF_ENVDIR")
    assert not [*machine.check_scripts(tmp_path)]


def test_cpus_are_those_that_lsf_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LSB_MCPU_HOSTS", "a-host 1")
    (found,) = faults(machine.check_cpus(), "warning")
    assert found.startswith("cpus: 1 of the machine's ")


def test_a_sound_configuration_has_no_faults(config: Path, tmp_path: Path) -> None:
    works, printed = examine(config, run=tmp_path)
    assert works
    assert "model tiny, dataset tiny, tokenizer tiny_char" in printed
    assert " 16 rows" in printed
    assert "error" not in printed


def test_the_findings_are_json(config: Path, tmp_path: Path) -> None:
    broken = changed(config, tmp_path / "broken.yaml", "model", arch="huge")
    console = Console(file=io.StringIO())
    assert not doctor([broken], run=tmp_path, scripts_dir=ROOT, as_json=True, console=console)
    findings = json.loads(console.file.getvalue())  # type: ignore[attr-defined]
    assert findings[0].keys() == {"check", "level", "found", "fix"}
    (found,) = [f for f in findings if f["level"] == "error" and f["check"] == "configuration"]
    assert "unknown architecture 'huge'" in found["found"]


def test_weights_that_a_run_would_have_to_download_are_a_warning(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRSEQ2_CACHE_DIR", str(tmp_path))
    read, *_ = of_run.read_config([config])
    assert not [*of_run.check_downloads(read)]  # it starts from scratch
    config = changed(config, tmp_path / "config.yaml", "model", name="omniASR_CTC_300M")
    read, *_ = of_run.read_config([config])
    (found,) = of_run.check_downloads(read)
    assert found.found.endswith("cache: omniASR_CTC_300M, omniASR_tokenizer_v1")
    assert "danish-asr fetch" in found.fix


def test_a_gpu_that_is_too_small_is_an_error_with_the_keys_that_help(
    config: Path, tmp_path: Path
) -> None:
    config = changed(config, tmp_path / "config.yaml", "model", arch="300m")
    read, *_ = of_run.read_config([config])
    assert not [*of_run.check_memory(read, "here", None)]
    assert not faults(of_run.check_memory(read, "here", Card.of("12GB")))
    (found,) = of_run.check_memory(read, "here", Card.of("5GB"))
    assert (found.level, found.check) == ("error", "memory")
    assert "trainer.freeze_encoder_layers=" in found.fix  # so few rows need little for activations


def test_every_fault_of_a_configuration_is_reported(config: Path, tmp_path: Path) -> None:
    faulty = tmp_path / "faulty.yaml"
    faulty.write_text("optimizer: {config: {lr: fast}}\nregime: {num_stepz: 1}\n")
    works, printed = examine(config, faulty, run=tmp_path)
    assert not works
    assert printed.startswith(f"error   configuration: {config} with {faulty}: optimizer.config.lr")
    assert "regime.num_stepz" in printed
    works, printed = examine(tmp_path / "missing.yaml", run=tmp_path)
    assert not works
    assert "error   configuration: " in printed
    assert "missing.yaml" in printed


def test_a_check_that_fails_itself_is_a_finding(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_run, "checkpoint_bytes", lambda *_: 1 / 0)
    works, printed = examine(config, run=tmp_path)
    assert works
    assert "warning configuration: this check failed: ZeroDivisionError: " in printed


def test_the_dataset_is_the_one_of_the_jobs(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASR_DATASET", "another")
    monkeypatch.setenv("ASR_DATA", str(tmp_path))
    works, printed = examine(config, run=tmp_path)
    assert not works
    assert "with ASR_DATASET=another: dataset.name" in printed


@pytest.mark.parametrize("lost", [True, False])
def test_a_lost_or_damaged_shard_is_an_error(tmp_path: Path, *, lost: bool) -> None:
    build_dataset(tmp_path / "tiny", name="tiny", train=4, dev=2, test=2)
    shard = next((tmp_path / "tiny").rglob("split=train/**/*.parquet"))
    if lost:
        shard.unlink()
    else:
        shard.write_bytes(b"PAR1")
    file = tmp_path / "config.yaml"
    extra = [str(tmp_path / "tiny" / "cards")]
    tree = {"dataset": {"name": "tiny"}, "common": {"assets": {"extra_paths": extra}}}
    file.write_text(to_yaml(tree), encoding="utf-8")
    config, *_ = of_run.read_config([file])
    assert shard.name in faults(of_run.check_dataset(config))[0]


def test_the_size_of_checkpoints_follows_model_regime_and_optimizer(
    config: Path, tmp_path: Path
) -> None:
    def size(section: str, run: Path = tmp_path, **values: Any) -> int:
        nonlocal config
        config = changed(config, tmp_path / "config.yaml", section, **values)
        read, *_ = of_run.read_config([config])
        return of_run.checkpoint_bytes(read, run) or 0

    two, five = (size("regime", keep_last_n_checkpoints=n) for n in (2, 5))
    assert two * 7 == five * 4
    size("regime", keep_last_n_checkpoints=2)
    # 300M parameters, 12 bytes each, in four checkpoints
    whole = size("model", arch="300m")
    assert whole == pytest.approx(4 * 12 * 315e6, rel=0.05)
    for step in (10, 20, 30):
        (tmp_path / "run" / "checkpoints" / f"step_{step}" / "model").mkdir(parents=True)
    assert size("model", tmp_path / "run") == pytest.approx(whole / 4)
    # Moments of 8 bits
    assert size("optimizer", name="adamw_8bit") == pytest.approx(4 * 6.03 * 315e6, rel=0.05)
