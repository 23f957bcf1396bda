"""The evaluation recipe; ``python -m danish_asr.recipe.evaluation`` runs it."""

from __future__ import annotations

from pathlib import Path
from typing import final

from fairseq2.recipe.base import EvalRecipe, RecipeContext
from fairseq2.recipe.evaluator import Evaluator
from fairseq2.runtime.dependency import DependencyContainer
from typing_extensions import override

from danish_asr.decoding.greedy import GreedyDecoder
from danish_asr.recipe.cli import eval_main
from danish_asr.recipe.config import AsrEvalConfig
from danish_asr.recipe.criterion import CtcCriterion
from danish_asr.recipe.evaluation_unit import PredictionUnit
from danish_asr.recipe.readers import splits_reader
from danish_asr.recipe.training import register_common


@final
class AsrEvalRecipe(EvalRecipe):
    """Scores every row of the split or splits in ``evaluator.split``.

    Args:
        step: The training step of the checkpoint that is scored, for the record.
    """

    def __init__(self, step: int | None = None) -> None:
        self._step = step

    @override
    def register(self, container: DependencyContainer) -> None:
        register_common(container)

    @override
    def create_evaluator(self, context: RecipeContext) -> Evaluator:
        config = context.config.as_(AsrEvalConfig)
        reader = splits_reader(context, config, config.evaluator.split or "")
        unit = PredictionUnit(
            CtcCriterion(context.model),
            GreedyDecoder(context.default_tokenizer),
            context.gangs,
            Path(context.output_dir),
            rows_in_split=reader.rows,
            profile=config.regime.score_profile,
            about={
                "dataset": config.dataset.name,
                "model": config.model.name,
                "checkpoint": config.evaluator.checkpoint,
                "step": self._step,
                "run": str(config.common.assets.prev_checkpoint_dir or ""),
                "tokenizer": config.tokenizer.name,
            },
        )
        return context.create_evaluator([unit], [reader])

    @property
    @override
    def config_kls(self) -> type[object]:
        return AsrEvalConfig


def main() -> None:
    """Run the recipe as the command line says."""
    eval_main(AsrEvalRecipe)


if __name__ == "__main__":
    main()
