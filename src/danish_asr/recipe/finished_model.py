"""The card of a finished run: its model under a name, complete, for whoever loads it next.

fairseq2's own record of a run's checkpoints knows neither the tokenizer nor a name. The card that
is written here has both, so that ``model.name`` of a later run and omnilingual-asr's inference
pipeline find everything in one place::

    DANISH_ASR_ASSETS=OUTDIR/cards python -c "
    from omnilingual_asr.models.inference.pipeline import ASRInferencePipeline
    print(ASRInferencePipeline('NAME').transcribe(['speech.flac']))"
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final
from urllib.request import url2pathname

from fairseq2.assets import AssetCard
from fairseq2.logging import log

from danish_asr.files import publish_text
from danish_asr.recipe.loading import Tree, read_yaml
from danish_asr.recipe.run_directory import CHECKPOINTS, MODEL_CARD, best_step
from danish_asr.schema import CARDS_DIR
from danish_asr.yaml_text import to_yaml

TOKENIZER_FILE: Final = "tokenizer.model"


def write_model_card(output_dir: Path, tokenizer: AssetCard | None) -> Path | None:
    """Write ``OUTDIR/cards/<name of OUTDIR>.yaml`` for the best checkpoint.

    Args:
        output_dir: The run.
        tokenizer: The card of the tokenizer it was trained with. A tokenizer in a file of its own
            is copied beside the model's card; one that is fetched by name is referred to.

    Returns:
        The card's path, or None if the run has no checkpoint.
    """
    step = best_step(output_dir)
    if step is None:
        return None
    folder = output_dir.resolve() / CARDS_DIR
    folder.mkdir(exist_ok=True)
    trained = read_yaml(output_dir / CHECKPOINTS / MODEL_CARD)
    model = output_dir.resolve() / CHECKPOINTS / f"step_{step}" / "model"
    card: Tree = {
        "name": output_dir.resolve().name,
        "model_family": trained["model_family"],
        "model_config": trained["model_config"],
        "checkpoint": str(model),
        **_tokenizer_fields(tokenizer, folder),
    }
    file = folder / f"{card['name']}.yaml"
    publish_text(file, to_yaml(card))
    log.info("The model of step {} is {}, in {}.", step, card["name"], folder)
    return file


def _tokenizer_fields(card: AssetCard | None, folder: Path) -> Tree:
    if card is None:
        return {}
    uri = card.field("tokenizer").as_uri()
    if uri.scheme != "file":
        return {"tokenizer_ref": card.name}
    shutil.copyfile(url2pathname(uri.path), folder / TOKENIZER_FILE)
    family = card.field("tokenizer_family").as_(str)
    return {"tokenizer_family": family, "tokenizer": TOKENIZER_FILE}
