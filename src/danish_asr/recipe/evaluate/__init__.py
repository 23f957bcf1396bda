"""From a checkpoint or a named model and a split to its predictions.

In: a run's directory and its training configuration, or a model's name. Out, in
``OUTDIR/eval/<checkpoint>/<split>``: ``predictions.jsonl``, ``evaluation.json`` (what was scored)
and, if asked for, ``log_probs.arrow``. Read `recipe.py` first, then `selection.py` (what is scored
and where the results go) and `kept.py` (decoding without the model).
"""
