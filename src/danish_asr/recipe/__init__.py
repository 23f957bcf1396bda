"""Train and evaluate: a configuration and a built dataset come in, a run's directory goes out.

Values go ``config`` -> ``train/preflight.py`` (cards, files and sizes fit) -> ``data`` (index to
batches) -> ``train`` -> ``evaluate``. ``models`` finds and converts models, ``run`` keeps the
directory. Read ``entry.py`` first, then ``train/training.py``.
"""
