"""From a model's logits, (N, S, V), to text.

``decoders.py`` has the table of decoders (greedy, beam); ``alignment.py`` times words,
``ngram*.py`` build, read and tune language models.
Read ``decoders.py`` first. This file imports nothing, so `transcript` does not import torch.
"""
