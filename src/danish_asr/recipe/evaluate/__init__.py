"""From a checkpoint or a named model and a split to its predictions.

In: a run's directory, or a model's name. ``selection.py`` opens what is scored, as the model's card
says; ``recipe.py`` scores it. Out, in ``OUTDIR/eval/<checkpoint>/<split>``: ``predictions.jsonl``
and ``evaluation.json``, which says what was scored.
"""
