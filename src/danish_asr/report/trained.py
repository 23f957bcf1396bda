"""Which of the scored rows, and whose speakers, the model was trained on.

In: predictions and their evaluations, which name a run. Out: the same predictions with the columns
`TRAINED_ROW` and `TRAINED_SPEAKER`, if the configuration and the dataset of a run are there.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Final

import pandas as pd

from danish_asr.base.config_tree import Tree, merge, nested, value_of
from danish_asr.base.errors import DanishAsrError
from danish_asr.corpus.inventory import share_people_of
from danish_asr.corpus.people import persons_of
from danish_asr.recipe.run.run import Run
from danish_asr.scoring.predictions import Loaded
from danish_asr.scoring.rows import TRAINED_ROW, TRAINED_SPEAKER

_READ: Final = (
    *("dataset.train_split", "dataset.train_where", "dataset.train_subset", "dataset.train_share"),
    *("common.seed", "trainer.stages"),
)
"""The keys of a configuration that choose the rows of a training; none of them may name code."""


def marked(loaded: Loaded, abouts: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the rows of sources, each with its ``evaluation.json``, with what is known of them.

    A run is compared with its own predictions only: in folds, each has others.
    """
    parts: list[pd.DataFrame] = []
    bounds = pairwise(accumulate(loaded.sizes, initial=0))
    for (begin, end), about in zip(bounds, abouts, strict=True):
        rows = loaded.rows[begin:end]
        trained = _trained_on(about)
        if trained is None:
            return loaded.rows
        keys = pd.MultiIndex.from_frame(trained[["corpus", "id"]])
        is_row = pd.MultiIndex.from_frame(rows[["corpus", "id"]]).isin(keys)
        shared = [*(about.get("share_people") or ()), *trained.attrs["share_people"]]
        of_rows, of_training = (
            pd.Series(persons_of(own["corpus"], own["speaker_id"], shared), dtype=object)
            for own in (rows, trained)
        )
        is_speaker = of_rows.isin(of_training.dropna()).to_numpy()
        parts.append(rows.assign(**{TRAINED_ROW: is_row, TRAINED_SPEAKER: is_speaker}))
    return pd.concat(parts)


def _trained_on(about: Mapping[str, Any]) -> pd.DataFrame | None:
    """Return corpus, id and speaker of the rows of a training; None if they are not known."""
    if not about.get("run"):
        return None
    # Slow imports, for predictions of a run only.
    from danish_asr.recipe.config.load import validated  # noqa: PLC0415
    from danish_asr.recipe.config.schema import AsrConfig  # noqa: PLC0415
    from danish_asr.recipe.data.index import DanishAsrDataset, training_rows  # noqa: PLC0415

    try:
        tree = Run(Path(about["run"]).parent).config
        root = value_of(tree, "dataset.config_overrides.data")
        if root is None and value_of(tree, "dataset.name") == about.get("dataset"):
            root = about.get("dataset_root")
        values = {key: value_of(tree, key) for key in _READ}
        chosen: list[Tree] = [nested(key, own) for key, own in values.items() if own is not None]
        config, faults = validated(AsrConfig, merge(*chosen), "")
        if root is None or faults:
            return None
        dataset = DanishAsrDataset(Path(str(root)))
        parts = [
            training_rows(dataset, stage).rows.select("corpus", "id", "speaker_id").to_pandas()
            for stage in config.stages().values()
        ]
        trained = pd.concat(parts, ignore_index=True)
        trained.attrs["share_people"] = share_people_of(dataset.root)
    except (DanishAsrError, OSError):  # what is beside the scores does not decide about them
        return None
    return trained
