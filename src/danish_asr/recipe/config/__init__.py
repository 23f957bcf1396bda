"""The configuration of the recipes: YAML trees come in, a checked `AsrConfig` goes out.

Unknown keys are refused without PyTorch (``keys.py``), types and rules after its import, all faults
at once (``loading.py``). Read ``config.py`` first: the sections with their defaults and rules, most
of them in ``sections.py`` and ``training.py``. ``keys.tsv`` shows every key.
"""
