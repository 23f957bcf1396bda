"""Train a CTC model with fairseq2's trainer.

In: a configuration (`recipe.config`) and batches (`recipe.data`). Out: a run directory with
checkpoints, metrics, logs and a card of the best model. Read ``training.py`` first: it checks the
configuration (``preflight.py``), prepares the model (``masking.py``, ``learning.py``), and gives
``trainer.py`` the loss (``criterion.py``), the readers and the validation.
"""
