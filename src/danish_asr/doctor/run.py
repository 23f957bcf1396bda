"""What a configuration names: cards, tokenizer, dataset; and how much it will write."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import pyarrow.parquet as pq

from danish_asr import native  # noqa: F401 - before fairseq2
from danish_asr.conversion.inventory import Inventory, ShardEntry, read_inventory
from danish_asr.conversion.verify.damage import guarded
from danish_asr.conversion.verify.shard import check_shard
from danish_asr.doctor.finding import Finding, error, ok
from danish_asr.errors import ConfigError, DanishAsrError
from danish_asr.schema import CARDS_DIR, STATISTICS_FILE

if TYPE_CHECKING:
    from danish_asr.recipe.config import AsrConfig

BYTES_OF_A_WEIGHT: Final = 4
"""Weights are saved in float32, whatever is computed in."""

DECODED_ROWS: Final = 5
"""Rows of one shard of each split whose audio is decoded; `danish-asr verify` decodes all."""


def read_config(
    files: Sequence[Path], environment: Mapping[str, str] = os.environ
) -> tuple[AsrConfig, list[str], str]:
    """Read a training configuration as ``lsf/train.sh`` gives it to the recipe.

    The launcher names the dataset of its settings, so ``ASR_DATASET`` and ``ASR_DATA`` count here
    if both are set, as after ``. lsf/site.env``.

    Args:
        files: Each lies over the ones before.
        environment: Has those variables.

    Returns:
        The configuration, with the default in place of what is faulty; its faults; and what it is
        called in words.

    Raises:
        ConfigError: A file cannot be read, or is no mapping in YAML.
    """
    from danish_asr.recipe.config import AsrConfig  # noqa: PLC0415 - slow
    from danish_asr.recipe.loading import inspect, merge, read_yaml  # noqa: PLC0415

    trees = [read_yaml(file) for file in files]
    where = " with ".join(map(str, files))
    name, data = environment.get("ASR_DATASET"), environment.get("ASR_DATA")
    if name and data:
        summary = {"dataset_summary_path": str(Path(data, STATISTICS_FILE))}
        given = {"name": name, "mixture_parquet_storage_config": summary}
        trees.append({"dataset": given})
        where += f", with ASR_DATASET={name}"
    config, faults = inspect(AsrConfig, merge(*trees))
    return config, faults, where


def check_names(config: AsrConfig, *, where: str) -> Iterator[Finding]:
    """Model, dataset and tokenizer have cards, and the model's head fits the tokenizer."""
    from danish_asr.recipe.assets import resolve  # noqa: PLC0415 - slow

    unknown = (
        "name one that is known; danish-asr convert writes the card of a dataset, and "
        "$DANISH_ASR_ASSETS says where cards are"
    )
    try:
        resolved = resolve(config, where=where)
    except ConfigError as faults:
        for fault in faults.faults:
            yield error("cards", fault, unknown if "no known" in fault else "as it says there")
        return
    except DanishAsrError as problem:
        yield error("cards", str(problem), "see there")
        return
    model = config.model.name or config.model.arch
    yield ok("cards", f"model {model}, dataset {config.dataset.name or 'by path'}")
    yield ok("tokenizer", f"{resolved.tokenizer.name or resolved.tokenizer.path} fits {model}")


def check_dataset(config: AsrConfig) -> Iterator[Finding]:
    """The dataset is complete by its manifest, and some of its audio can be decoded."""
    root = _dataset_root(config)
    if root is None:
        return
    mend = "danish-asr convert completes it; danish-asr verify tells all its faults"
    try:
        manifest = read_inventory(root)
    except DanishAsrError as problem:
        yield error("dataset", str(problem), mend)
        return
    faults = [*_missing(root, manifest), *_faults_of_some_shards(root, manifest)]
    for fault in faults:
        yield error("dataset", f"{root}: {fault}", mend)
    if not faults:
        yield ok(
            "dataset",
            f"{root}: {manifest.rows:,} rows, {manifest.hours:.1f} h, complete by its manifest",
        )


def bytes_of_checkpoints(config: AsrConfig, run: Path) -> int | None:
    """Return what a run will yet write for its checkpoints; None if the model's size is unknown.

    That is weights and optimizer of the best and the newest ones, if the regime limits them, else
    of all, and of the one that is being written; without those that the run has already.
    """
    from danish_asr.recipe.optimizers import STATE_BYTES  # noqa: PLC0415
    from danish_asr.recipe.run_directory import checkpoint_steps  # noqa: PLC0415

    parameters = _parameters(config)
    if parameters is None:
        return None
    regime = config.regime
    best, last = regime.keep_best_n_checkpoints, regime.keep_last_n_checkpoints
    if best is None and last is None:
        every = regime.checkpoint_every_n_steps or regime.num_steps or 1
        kept = (regime.num_steps or every) // every
    else:
        kept = (best or 0) + (last or 0)
    # An optimizer that is not known is told beside this.
    state = STATE_BYTES.get(config.optimizer.name, max(STATE_BYTES.values()))
    size = parameters * (BYTES_OF_A_WEIGHT + state)
    return round(size) * max(kept + 1 - len(checkpoint_steps(run)), 1)


def wants_bf16(config: AsrConfig) -> bool:
    """Whether training or evaluation computes in bf16."""
    import torch  # noqa: PLC0415 - slow

    mixed, evaluator = config.trainer.mixed_precision, config.evaluator
    return (mixed.mode != "off" and mixed.dtype == torch.bfloat16) or (
        evaluator.amp and evaluator.amp_dtype == torch.bfloat16
    )


def _dataset_root(config: AsrConfig) -> Path | None:
    """The built dataset that the configuration names; None if it has no card or is a manifest."""
    from danish_asr.recipe.assets import Assets  # noqa: PLC0415 - slow

    card = config.dataset.name and Assets(config).find("", config.dataset.name, "dataset", [])
    if not card or config.dataset.storage_mode.value != "MIXTURE_PARQUET":
        return None
    version = Path(cast(dict[str, str], card.field("dataset_config").value)["data"])
    return version.parent if version.name.startswith("version=") else version


def _missing(root: Path, manifest: Inventory) -> Iterator[str]:
    for entry in manifest.shards:
        yield from guarded(entry.path, _wrong_rows(root, entry))
    for name in (STATISTICS_FILE, f"{CARDS_DIR}/{manifest.name}.yaml"):
        if not (root / name).is_file():
            yield f"{name} is missing"


def _wrong_rows(root: Path, entry: ShardEntry) -> Iterator[str]:
    rows = pq.read_metadata(root / entry.path).num_rows
    if rows != entry.rows:
        yield f"{entry.path} has {rows} rows, the manifest says {entry.rows}"


def _faults_of_some_shards(root: Path, manifest: Inventory) -> Iterator[str]:
    one_of_each = {Path(entry.path).parent: entry for entry in manifest.shards}
    for entry in one_of_each.values():
        if (root / entry.path).is_file():
            yield from check_shard(root, entry, DECODED_ROWS).faults


def _parameters(config: AsrConfig) -> int | None:
    import torch  # noqa: PLC0415
    from fairseq2.device import CPU  # noqa: PLC0415 - slow
    from fairseq2.gang import create_fake_gangs  # noqa: PLC0415
    from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig  # noqa: PLC0415

    from danish_asr.recipe.assets import Assets  # noqa: PLC0415

    assets, section = Assets(config), config.model
    if section.name:
        card = assets.find("", section.name, "model", [])
        family = card and assets.model_family(card.field("model_family").as_(str))
        model = family.get_model_config(card) if card and family else None
    else:
        family = assets.model_family(section.family or "")
        model = family.maybe_get_arch_config(section.arch) if family and section.arch else None
    if not family or not isinstance(model, Wav2Vec2AsrConfig):
        return None
    module = family.create_new_model(model, create_fake_gangs(CPU), torch.float32, meta=True)
    return sum(parameter.numel() for parameter in module.parameters())
