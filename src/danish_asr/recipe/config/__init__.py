"""The configuration of the recipes: YAML trees come in, a checked `AsrConfig` goes out.

``schema.py`` has all sections, keys, defaults and bounds; read it first. ``load.py`` reports all
faults at once, ``keys.py`` describes the keys for help and docs, both without PyTorch.
``fairseq2.py`` makes the sections that fairseq2 reads.
"""
