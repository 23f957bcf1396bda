"""Train and evaluate: a configuration and a built dataset come in, a run's directory goes out.

A training, from its command to ``optimizer.step()``, in six files: ``entry.py`` reads the
configuration (``config/schema.py`` has its keys), ``train/training.py`` is the run from its checks
to its card, ``train/preflight.py`` opens cards, tokenizer and rows, ``data/reader.py`` makes
batches of the rows, ``train/criterion.py`` their loss, ``train/trainer.py`` lets fairseq2's trainer
step, and stops it. An evaluation has five: ``entry.py``, ``evaluate/recipe.py`` and
``selection.py``, ``models/cards.py`` and ``trained.py``. ``run`` says what a directory means.
"""
