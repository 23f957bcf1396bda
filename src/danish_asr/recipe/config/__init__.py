"""The configuration of the recipes: YAML trees come in, a checked `AsrConfig` goes out.

``schema.py`` has the sections, keys, defaults and bounds; read it first. Those of processes,
trainer, optimizer, schedule and regime are in ``training_sections.py``, types of both in
``values.py``, keys of upstream that are none here in ``upstream.py``. ``load.py`` reports all
faults at once, ``keys.py`` describes the keys for help and docs, both without PyTorch.
``fairseq2.py`` makes the sections that fairseq2 reads.
"""
