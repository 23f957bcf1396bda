"""What a run that begins needs, in one line, as `danish-asr plan` says it before."""

from dataclasses import replace
from typing import Any, cast

import torch
from fairseq2.data.tokenizers import Tokenizer
from fairseq2.recipe.base import RecipeContext

from danish_asr.planning.disk import checkpoint_space
from danish_asr.planning.memory import Model, largest_batch, step_memory
from danish_asr.recipe.config.config import AsrConfig
from danish_asr.recipe.data.reader import BatchReader

_GIB = 2**30


def needs(
    context: RecipeContext, config: AsrConfig, reader: BatchReader, tokenizer: Tokenizer
) -> str:
    """Return the memory of a GPU by component, beside what it has, and the disk; calculated."""
    described: Any = replace(
        cast(Any, context.model.config), target_vocab_size=tokenizer.vocab_info.size
    )
    model, root = Model(context.model.family, described), context.gangs.root
    on_gpu = root.device.type == "cuda"
    batch = largest_batch(config, reader.longest, reader.rows)
    disk = checkpoint_space(context.output_dir, model.build(config), config)
    space = f"Disk: {disk.total / _GIB:.2f} GiB for {disk.number} more checkpoints"
    try:
        memory = step_memory(config, model, batch, gpus=root.size, on_gpu=on_gpu)
    except RuntimeError as error:  # an operator of a model that cannot run without values
        return f"Memory: not calculated ({error}) | {space}"
    large = {name: size / _GIB for name, size in memory.items() if size > _GIB / 100}
    parts = ", ".join(f"{name} {size:.2f}" for name, size in large.items())
    has = ""
    if on_gpu:
        has = f" of {torch.cuda.get_device_properties(root.device).total_memory / _GIB:.1f}"
    return f"Memory, calculated: {sum(memory.values()) / _GIB:.2f}{has} GiB ({parts}) | {space}"
