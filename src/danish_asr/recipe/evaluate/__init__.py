"""From a checkpoint or a named model and a split to its predictions.

In: a run's directory and its training configuration, or a model's name. Out, in
``OUTDIR/eval/<checkpoint>/<split>``: ``predictions.jsonl`` and ``evaluation.json``, which says what
was scored.
"""
