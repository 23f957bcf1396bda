"""What the doctor finds, and what it says to do about it."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from rich.console import Console

from danish_asr.cluster.hosts import HOST_VARIABLES
from danish_asr.doctor import disk, doctor, gpu, machine, scripts, stack
from danish_asr.doctor import run as of_run
from danish_asr.doctor.finding import Finding, Level
from danish_asr.yaml_text import from_yaml, to_yaml
from tests.builders import build_dataset

ROOT = Path(__file__).parents[2]
GIB = 2**30
SOUND = {
    "torch": "2.8.0",
    "torchaudio": "2.8.0+cu128",
    "fairseq2": "0.6",
    "fairseq2n": "0.6",
    "numpy": "1.26.4",
    "pyarrow": "21.0.0",
}


def faults(findings: Iterable[Finding], level: Level = Level.ERROR) -> list[str]:
    every = list(findings)
    assert every
    assert all(finding.mend for finding in every if finding.level is not Level.OK)
    return [f"{finding.check}: {finding.found}" for finding in every if finding.level is level]


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


def test_this_environment_is_sound() -> None:
    packages = stack.installed()
    findings = [
        *stack.check_python(),
        *stack.check_versions(packages),
        *stack.check_pairs(packages),
        *stack.check_import(),
    ]
    assert faults(findings) == []


@pytest.mark.parametrize("python", ["3.9.18", "3.12.1"])
def test_a_python_without_a_stack_is_refused(python: str) -> None:
    assert faults(stack.check_python(python)) == [
        f"python: {python}, but the stack exists for 3.10 and 3.11"
    ]


def test_packages_outside_their_ranges_and_missing_ones_are_all_named() -> None:
    packages = {**stack.installed(), "pyarrow": "26.0.0", "torchaudio": "2.11.0"}
    del packages["jiwer"]
    told = faults(stack.check_versions(packages))
    assert sorted(line.partition(",")[0] for line in told) == [
        "package jiwer: missing",
        "package pyarrow: 26.0.0",
        "package torchaudio: 2.11.0",
    ]


@pytest.mark.parametrize(
    ("change", "built_for", "message"),
    [
        ({"torchaudio": "2.11.0"}, "2.8.0+cu128", "torch and torchaudio: 2.8.0 and 2.11.0"),
        ({"fairseq2n": "0.5"}, "2.8.0+cu128", "fairseq2 and fairseq2n: 0.6 and 0.5"),
        ({}, "2.7.1+cu128", "fairseq2n and torch: built for torch 2.7.1+cu128, found 2.8.0"),
        ({"torch": "2.8.0+cpu"}, "2.8.0+cu128", "fairseq2n and torch: built for torch 2.8.0+cu128"),
        ({"pyarrow": "26.0.0"}, "2.8.0", "numpy and pyarrow: pyarrow 26.0.0 needs numpy 2"),
    ],
)
def test_a_pair_that_was_not_built_for_each_other_is_named(
    change: dict[str, str], built_for: str, message: str
) -> None:
    assert faults(stack.check_pairs(SOUND, built_for="2.8.0+cu128")) == []
    (told,) = faults(stack.check_pairs({**SOUND, **change}, built_for=built_for))
    assert told.startswith(message)


@pytest.mark.parametrize(
    ("wanted", "queue", "expected"), [(True, "gpuv100", 1), (True, "gpua100", 0), (False, "", 0)]
)
def test_bf16_is_refused_where_the_queue_has_v100(wanted: bool, queue: str, expected: int) -> None:
    environment = {"ASR_GPU_QUEUE": queue, "FAIRSEQ2_DEVICE": "cpu"}
    assert len(faults(gpu.check_bf16(wanted=wanted, environment=environment))) == expected


@pytest.mark.parametrize(("gib", "level"), [(1, Level.ERROR), (4, Level.WARNING), (64, Level.OK)])
def test_little_memory_is_told(gib: int, level: Level) -> None:
    (finding,) = machine.check_memory(gib * GIB)
    assert finding.level is level


@pytest.mark.parametrize(
    ("membership", "file"),
    [
        ("0::/lsf/job.1\n", "lsf/memory.max"),
        ("4:cpu,cpuacct:/x\n7:memory:/lsf/job.1\n", "memory/lsf/job.1/memory.limit_in_bytes"),
    ],
)
def test_the_least_limit_of_a_cgroup_and_those_around_it_counts(
    tmp_path: Path, membership: str, file: str
) -> None:
    (tmp_path / "cgroup").write_text(membership)
    limit = tmp_path / "fs" / file
    limit.parent.mkdir(parents=True)
    limit.write_text(f"{GIB // 2}\n")
    assert machine.memory_limit(tmp_path / "fs", tmp_path / "cgroup") == GIB // 2
    limit.write_text("max\n")
    assert machine.memory_limit(tmp_path / "fs", tmp_path / "cgroup") > GIB // 2


def test_room_is_asked_for_where_the_run_will_be(tmp_path: Path) -> None:
    run = tmp_path / "not" / "yet"
    assert faults(disk.check_room(run, 1000)) == []
    (told,) = faults(disk.check_room(run, 2**60))
    assert "GiB needed for checkpoints" in told
    assert list(tmp_path.iterdir()) == []


def test_a_quota_shows_when_space_is_reserved() -> None:
    shared = Path("/dev/shm")  # noqa: S108 - a file system that everyone has, with a limit
    size = shutil.disk_usage(shared).total
    assert disk.reserve(shared, size * 2) == "No space left on device"
    assert disk.reserve(shared, 1) == disk.RESERVED
    assert disk.reserve(Path("/proc"), 1) == disk.UNKNOWN


@pytest.mark.parametrize(
    ("environment", "cache"),
    [
        ({"HF_HOME": "/work3/me/hf"}, "FAIRSEQ2_CACHE_DIR"),
        ({"HF_HUB_CACHE": "/work3/me/hf"}, "FAIRSEQ2_CACHE_DIR"),
        ({"FAIRSEQ2_CACHE_DIR": "/work3/me/fs2", "TMPDIR": "/work3"}, "HF_HOME"),
        ({"XDG_CACHE_HOME": "/work3/me", "TMPDIR": "{home}/tmp"}, "TMPDIR"),
    ],
)
def test_caches_in_a_small_home_are_named_with_their_variables(
    tmp_path: Path, environment: dict[str, str], cache: str
) -> None:
    environment = {name: value.format(home=tmp_path) for name, value in environment.items()}
    small, full, large = ((30 * GIB, 20 * GIB), (30 * GIB, GIB), (900 * GIB, GIB))
    (told,) = faults(disk.check_caches(environment, tmp_path, small), Level.WARNING)
    assert told.startswith(f"cache {cache}: {tmp_path}/")
    assert told.endswith("is in a home of 30 GiB, with 20 GiB free")
    assert len(faults(disk.check_caches(environment, tmp_path, full))) == 1
    assert faults(disk.check_caches(environment, tmp_path, large)) == []
    cluster = disk.check_caches({**environment, "LSF_ENVDIR": "/lsf"}, tmp_path)
    (told,) = faults(cluster, Level.WARNING)
    assert told.endswith("is in a home where a quota is usual")


def test_a_home_that_is_not_there_stops_no_check(tmp_path: Path) -> None:
    assert faults(disk.check_caches({"HOME": str(tmp_path / "no" / "home")})) == []


def test_dos_line_ends_and_missing_wall_times_are_found(tmp_path: Path) -> None:
    (tmp_path / "good.sh").write_bytes(b"#!/bin/bash\n#BSUB -W 1:00\n")
    (tmp_path / "dos.sh").write_bytes(b"#!/bin/bash\r\n#BSUB -W 1:00\r\n")
    (tmp_path / "silent.sh").write_bytes(b"#!/bin/bash\n#BSUB -q hpc\n")
    assert faults(scripts.check_line_ends(tmp_path)) == [
        f"line ends: {tmp_path / 'dos.sh'} has DOS line ends"
    ]
    (told,) = faults(scripts.check_wall_time(tmp_path))
    assert "silent.sh has no #BSUB -W" in told
    assert faults(scripts.check_wall_time(ROOT / "lsf")) == []


def test_a_wall_time_may_stand_behind_another_option_and_a_directory_is_no_script(
    tmp_path: Path,
) -> None:
    (tmp_path / "one.sh").write_text("#BSUB -q hpc -W 1:00\n")
    (tmp_path / "folder.sh").mkdir()
    assert faults(scripts.check_wall_time(tmp_path)) == []
    assert faults(scripts.check_line_ends(tmp_path)) == []


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("ASR_WALL", "24:00", []),
        ("ASR_WALL", "a day", ["settings: ASR_WALL must be hours:minutes, such as 24:00, but is"]),
        ("ASR_MEM", "8", ["settings: ASR_MEM must be a size with its unit, such as 8GB, but is"]),
        ("LSB_JOBID", "4711", []),  # in a job too it is a dry run
    ],
)
def test_settings_are_what_the_launchers_take(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, told: list[str]
) -> None:
    monkeypatch.setenv(name, value)
    found = faults(scripts.check_settings(ROOT / "lsf"))
    assert [line[: len(start)] for line, start in zip(found, told, strict=True)] == told


@pytest.mark.parametrize(
    ("settings", "level"),
    [
        ({"ASR_CORES_PER_GPU": "4", "ASR_MEM": "8GB"}, Level.OK),
        ({"ASR_CORES_PER_GPU": "4", "ASR_MEM": "900MB"}, Level.WARNING),
        ({"ASR_CORES_PER_GPU": "1", "ASR_MEM": "64G"}, Level.WARNING),
    ],
)
def test_a_job_that_asks_for_little_is_told(settings: dict[str, str], level: Level) -> None:
    (finding,) = machine.check_request(settings)
    assert finding.level is level


def test_cpus_are_those_that_lsf_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in HOST_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("LSB_JOBID", "4711")
    monkeypatch.setenv("LSB_HOSTS", "a-host")
    (finding,) = machine.check_cpus()
    assert finding.level is Level.WARNING
    assert finding.found.startswith("1 of the machine's ")
    assert finding.found.endswith(", LSF granted 1 here")


def test_a_sound_configuration_has_no_faults(config: Path, tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=200)
    assert doctor([config], run=tmp_path, scripts_dir=ROOT / "lsf", console=console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "tokenizer: tiny_char fits tiny" in printed
    assert "complete by its manifest" in printed
    assert "0 would break the run" in printed


def test_what_would_break_the_run_is_told_as_json(config: Path, tmp_path: Path) -> None:
    tree = from_yaml(config.read_text(encoding="utf-8"))
    tree["model"]["arch"] = "huge"
    tree["trainer"].pop("mixed_precision")
    broken = tmp_path / "broken.yaml"
    broken.write_text(to_yaml(tree), encoding="utf-8")
    console = Console(file=io.StringIO())
    assert not doctor([broken], run=tmp_path, as_json=True, console=console)
    findings = json.loads(console.file.getvalue())  # type: ignore[attr-defined]
    (told,) = [f for f in findings if f["level"] == "error"]
    assert told["check"] == "cards"
    assert "model.arch 'huge' is no architecture of wav2vec2_asr" in told["found"]
    assert told["mend"]


def test_every_fault_of_a_configuration_is_told(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("optimizer: {config: {lr: fast}}\nregime: {num_stepz: 1}\n")
    console = Console(file=io.StringIO(), width=300)
    assert not doctor([file], run=tmp_path, console=console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "optimizer.config.lr must be a number" in printed
    assert "regime.num_stepz is no key" in printed
    assert "error   cards: " in printed


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"a: [1, 2\nb: }", "is not YAML"),
        (b"\xff\xfe\x00", "is no"),
        (b"- a", "must hold a mapping of sections"),
        (b"", "must hold a mapping of sections"),
    ],
)
def test_a_configuration_that_cannot_be_read_is_one_finding(
    tmp_path: Path, content: bytes | None, told: str
) -> None:
    file = tmp_path / "config.yaml"
    if content is not None:
        file.write_bytes(content)
    console = Console(file=io.StringIO(), width=300)
    assert not doctor([file], run=tmp_path, console=console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert f"error   configuration: {file} has one fault:\n  - {told}" in printed
    assert ": 1 would break the run" in printed


def test_a_check_that_fails_itself_is_a_finding_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no bash to ask about the settings
    console = Console(file=io.StringIO(), width=300)
    assert doctor([], run=tmp_path, scripts_dir=ROOT / "lsf", console=console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "warning settings: could not be examined: FileNotFoundError: " in printed
    assert "ok      room: " in printed


def test_files_lie_over_one_another_as_in_the_recipe(config: Path, tmp_path: Path) -> None:
    over = tmp_path / "over.yaml"
    over.write_text("optimizer: {config: {lr: fast}}\n", encoding="utf-8")
    console = Console(file=io.StringIO(), width=300)
    assert not doctor([config, over], run=tmp_path, scripts_dir=ROOT / "lsf", console=console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert f"configuration: {config} with {over}: optimizer.config.lr must be a number" in printed
    assert "tokenizer: tiny_char fits tiny" in printed
    assert ": 1 would break the run" in printed


def test_the_dataset_is_the_one_that_the_launchers_name(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASR_DATASET", "another")
    monkeypatch.setenv("ASR_DATA", str(tmp_path))
    console = Console(file=io.StringIO(), width=300)
    assert not doctor([config], run=tmp_path, scripts_dir=ROOT / "lsf", console=console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "with ASR_DATASET=another" in printed
    assert "error   cards: dataset.name 'another' is no known dataset. Known: " in printed


@pytest.mark.parametrize(
    ("damage", "fault"),
    [(Path.unlink, "is missing"), (lambda path: path.write_bytes(b"PAR1"), "cannot be read")],
)
def test_a_dataset_with_a_lost_or_damaged_shard_is_told(
    tmp_path: Path, damage: Callable[[Path], object], fault: str
) -> None:
    build_dataset(tmp_path / "tiny", name="tiny", train=4, dev=2, test=2)
    shard = next((tmp_path / "tiny").rglob("split=train/**/*.parquet"))
    damage(shard)
    file = tmp_path / "config.yaml"
    extra = [str(tmp_path / "tiny" / "cards")]
    tree = {"dataset": {"name": "tiny"}, "common": {"assets": {"extra_paths": extra}}}
    file.write_text(to_yaml(tree), encoding="utf-8")
    config, *_ = of_run.read_config([file])
    told = faults(of_run.check_dataset(config))
    assert f"{shard.name}: {fault}" in told[0]


def test_the_room_for_checkpoints_follows_the_model_and_the_regime(
    config: Path, tmp_path: Path
) -> None:
    tree = from_yaml(config.read_text(encoding="utf-8"))
    sizes = []
    for arch, last in (("tiny", 2), ("tiny", 5), ("300m", 2)):
        tree["model"]["arch"] = arch
        tree["regime"]["keep_last_n_checkpoints"] = last
        file = config.with_name(f"{arch}-{last}.yaml")
        file.write_text(to_yaml(tree), encoding="utf-8")
        read, *_ = of_run.read_config([file])
        size = of_run.bytes_of_checkpoints(read, tmp_path)
        assert size is not None
        sizes.append(size)
    assert sizes[1] * 4 == sizes[0] * 7
    # 300M parameters, 12 bytes each, in four checkpoints
    assert sizes[2] == pytest.approx(4 * 12 * 315e6, rel=0.05)
    # Moments of 8 bits take a quarter of the room.
    tree["optimizer"] = {"name": "adamw_8bit"}
    file.write_text(to_yaml(tree), encoding="utf-8")
    of_8_bits, *_ = of_run.read_config([file])
    assert of_run.bytes_of_checkpoints(of_8_bits, tmp_path) == pytest.approx(
        4 * 6.03 * 315e6, rel=0.05
    )
    # A run that continues has some of them already.
    for step in (10, 20, 30):
        (tmp_path / "checkpoints" / f"step_{step}" / "model").mkdir(parents=True)
    assert of_run.bytes_of_checkpoints(read, tmp_path) == pytest.approx(sizes[2] / 4)
