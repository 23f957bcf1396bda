"""The training configuration: names, dataset, precision and the size of its checkpoints."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, cast

import torch

from danish_asr.base.config_tree import flatten, merge, read_yaml
from danish_asr.base.errors import ConfigError, DanishAsrError
from danish_asr.base.schema import STATISTICS_FILE
from danish_asr.corpus.inventory import read_inventory
from danish_asr.corpus.shard_check import check_shard
from danish_asr.planning.disk import checkpoint_space
from danish_asr.planning.doctor.machine import Finding, error, ok, warning
from danish_asr.planning.fetch import missing
from danish_asr.planning.gpus import Card
from danish_asr.planning.inputs import Inputs
from danish_asr.planning.plan import make_plan
from danish_asr.recipe.config.config import AsrConfig
from danish_asr.recipe.config.loading import inspect, unstructure
from danish_asr.recipe.models.assets import Assets
from danish_asr.recipe.models.model_path import with_named_model
from danish_asr.recipe.train.preflight import resolve

_CORRECT: Final = "correct the configuration"
_FIXES: Final = {
    "dataset.name must be": f"convert the dataset (danish-asr convert), or {_CORRECT}",
    "dataset_summary_path must be": f"convert the dataset (danish-asr convert), or {_CORRECT}",
    "cannot be downloaded": "where there is internet access: danish-asr fetch --config ...",
}
"""By what a fault says; of others the configuration itself is at fault."""


def read_config(files: Sequence[Path]) -> tuple[AsrConfig, list[str], str]:
    """Return a configuration, with defaults for faulty values, its faults and its name.

    As in lsf/train.sh, the dataset is that of ``ASR_DATASET`` and ``ASR_DATA`` if both are set.
    """
    trees = [read_yaml(file) for file in files]
    where = " with ".join(map(str, files))
    name, data = os.environ.get("ASR_DATASET"), os.environ.get("ASR_DATA")
    if name and data:
        summary = {"dataset_summary_path": str(Path(data, STATISTICS_FILE))}
        trees.append({"dataset": {"name": name, "mixture_parquet_storage_config": summary}})
        where += f", with ASR_DATASET={name}"
    config, faults = inspect(AsrConfig, merge(*trees))
    return config, faults, where


def check_config(config: AsrConfig, faults: Sequence[str], where: str) -> Iterator[Finding]:
    """Check values, names of models, datasets and tokenizers, splits, and the size of the head."""
    try:
        resolved = resolve(config, where=where, faults=faults)
    except ConfigError as problem:
        for fault in problem.faults:
            fix = next((fix for part, fix in _FIXES.items() if part in fault), _CORRECT)
            yield error("configuration", f"{where}: {fault}", fix)
        return
    names = f"model {resolved.model.name or resolved.model.arch}, dataset {resolved.dataset.name}"
    yield ok("configuration", f"{where}: {names}, tokenizer {resolved.tokenizer.name}")


def check_downloads(config: AsrConfig) -> Iterator[Finding]:
    """Check that weights and tokenizer are where a run looks for them, without a network."""
    try:
        config = with_named_model(config)
        if absent := missing(config):
            fix = "download them where there is internet access: danish-asr fetch --config ..."
            yield warning("weights", f"not in fairseq2's cache: {', '.join(absent)}", fix)
        elif config.model.name or config.pretrained_encoder.name:
            yield ok("weights", "all on this machine")
    except ConfigError:
        return  # names that the configuration's check reports


def check_memory(config: AsrConfig, where: str, card: Card | None) -> Iterator[Finding]:
    """Compare what a training needs, by its plan, with a GPU; without one there is no finding."""
    if card is None:
        return
    try:
        plan = make_plan(unstructure(config), where=where, card=card)
    except ConfigError:
        return  # as above
    found = f"{plan.total / 2**30:.1f} of {card.free / 2**30:.1f} GiB of {card.name}, calculated"
    changes = " ".join(f"{key}={value}" for key, value in flatten(plan.overlay))
    fix = f"{changes or 'a larger GPU, or a smaller model'}; see danish-asr plan"
    yield ok("memory", found) if plan.fits else error("memory", found, fix)


def check_dataset(config: AsrConfig) -> Iterator[Finding]:
    """Check that the dataset is complete and that 5 rows of each split can be decoded."""
    card = config.dataset.name and Assets(config).find("dataset.name", config.dataset.name, [])
    if not card or config.dataset.storage_mode != "MIXTURE_PARQUET":
        return
    version = Path(cast(dict[str, str], card.field("dataset_config").value)["data"])
    root = version.parent if version.name.startswith("version=") else version
    fix = "`danish-asr convert` completes it; `danish-asr verify` lists all faults"
    try:
        inventory = read_inventory(root)
    except DanishAsrError as problem:
        yield error("dataset", str(problem), fix)
        return
    faults = [f"{s.path}: is missing" for s in inventory.shards if not (root / s.path).is_file()]
    there = {Path(s.path).parent: s for s in inventory.shards if (root / s.path).is_file()}
    for shard in there.values():
        faults += check_shard((shard, 5), root=root).faults
    for fault in faults:
        yield error("dataset", f"{root}: {fault}", fix)
    if not faults:
        yield ok("dataset", f"{root}: {inventory.rows:,} rows, {inventory.hours:.1f} h")


def checkpoint_bytes(config: AsrConfig, run: Path) -> int | None:
    """Return how much a run will still write for checkpoints; None if its model is not known."""
    try:
        module = Inputs(config).model(config).build(config)
    except ConfigError:
        return None
    return checkpoint_space(run, module, config).total


def needs_bf16(config: AsrConfig) -> bool:
    """Return whether training or evaluation computes in bf16."""
    mixed, evaluator = config.trainer.mixed_precision, config.evaluator
    return (mixed.mode != "off" and mixed.dtype == torch.bfloat16) or (
        evaluator.amp and evaluator.amp_dtype == torch.bfloat16
    )
