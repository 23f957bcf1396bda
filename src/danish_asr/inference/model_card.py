"""The ``README.md`` of an export: what the model is, how to use it, its scores and its limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from danish_asr import __version__
from danish_asr.base.config_tree import Tree, value_of
from danish_asr.base.errors import DanishAsrError
from danish_asr.corpus.cards import hub_code
from danish_asr.corpus.shards import find_shards
from danish_asr.inference.model import Model
from danish_asr.inference.rows import dataset_of, run_of
from danish_asr.recipe.run.run_directory import (
    evaluation_of,
    evaluations,
    meant_checkpoint,
    weights_digest,
)
from danish_asr.scoring.predictions import read_predictions
from danish_asr.scoring.scores import score_predictions
from danish_asr.scoring.settings import DEFAULT_PROFILE, Settings
from danish_asr.text.profiles import PROFILES

_TRAINING = (
    "regime.num_steps",
    "optimizer.config.lr",
    "lr_scheduler.name",
    "dataset.asr_task_config.max_num_elements",
    "trainer.freeze_encoder_for_n_steps",
    "common.seed",
)
"""Keys of the configuration that the card names."""


@dataclass(frozen=True)
class Facts:
    """What the card says of a model beside its sizes; empty where nobody knows it."""

    name: str
    base: str = ""
    """The model that its training started from."""
    dataset: str = ""
    languages: Sequence[str] = ()
    """As the hub writes them."""
    training: Sequence[tuple[str, Any]] = ()
    """Keys and values of its configuration."""
    scores: Sequence[str] = ()


def model_card(model: Model, source: str, to: str, compared: Sequence[str]) -> str:
    """Return the text of the card of the model that ``source`` names, exported to ``to``."""
    template = files("danish_asr.inference").joinpath("card.md.jinja").read_text("utf-8")
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, autoescape=False)  # noqa: S701 - no HTML
    parameters = sum(parameter.numel() for parameter in model.module.parameters())
    return environment.from_string(template).render(
        facts=facts_of(source),
        model=model,
        to=to,
        parameters=parameters,
        profile=PROFILES.get(model.text_profile),
        shortest=model.frames.shortest_input() / 16,
        compared=compared,
        version=__version__,
        packages=[f"{name}=={version(name).split('+')[0]}" for name in _PACKAGES[to]],
    )


_PACKAGES = {
    "hf": ("torch", "transformers", "soundfile"),
    "onnx": ("numpy", "onnxruntime", "soundfile"),
}


def facts_of(source: str) -> Facts:
    """Return what a run's directory says of a model."""
    try:
        run, config = run_of(source)
    except DanishAsrError:
        return Facts(name=Path(source).expanduser().resolve().name)
    starts = ("model.name", "model.path", "pretrained_encoder.name")
    base = next((str(value) for key in starts if (value := value_of(config, key))), "")
    training = [(key, value_of(config, key)) for key in _TRAINING]
    return Facts(
        name=run.name,
        base=Path(base).name,
        dataset=str(value_of(config, "dataset.name") or ""),
        languages=_languages(config),
        training=[(key, value) for key, value in training if value is not None],
        scores=[*_scores(Path(source))],
    )


def _languages(config: Tree) -> list[str]:
    """The languages of the training data, none if it is not here any more."""
    try:
        shards = find_shards(dataset_of(config))
    except DanishAsrError:
        return []
    return sorted({hub_code(shard.keys["language"]) for shard in shards})


def _scores(path: Path) -> list[str]:
    """The rates of this checkpoint's evaluations, under the text profile of each."""
    meant = meant_checkpoint(path.expanduser())
    if meant is None:
        return []
    run, step = meant
    digest, lines = weights_digest(run, step), []
    for evaluation in evaluations(run):
        about = evaluation.about
        if about.get("weights") != digest or {"decoder", "where"} & {*about}:
            continue
        settings = Settings(profile=about.get("score_profile", DEFAULT_PROFILE))
        scores = score_predictions(
            read_predictions(evaluation.predictions),
            by=[],
            settings=settings,
            about=evaluation_of(evaluation.predictions),  # refuses predictions that were changed
        )
        wer, cer = 100 * scores.overall.wer.value, 100 * scores.overall.cer.value
        lines.append(
            f"{', '.join(about['rows_in_split'])}: WER {wer:.2f} %, CER {cer:.2f} %, "
            f"{scores.overall.rows:,} rows, text profile {settings.profile}"
        )
    return lines
