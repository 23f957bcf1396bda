"""A run's output directory, without PyTorch: what it means, how it continues, what it is told.

Comes in: the directory. Goes out: a `Run`, with its checkpoints, scores and evaluations.
Read first: ``run.py``.
"""
