"""The configuration of the recipes: YAML trees come in, a checked `AsrConfig` goes out.

``schema.py`` has the sections, keys, defaults and bounds, ``training_sections.py`` those of a
training and the types of values; read them first. ``load.py`` reports all faults at once, and has
upstream's other keys; ``keys.py`` describes the keys for help and docs, both without PyTorch.
``fairseq2.py`` makes the sections that fairseq2 reads.
"""
