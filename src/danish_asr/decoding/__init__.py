"""From a model's log-probabilities, a list of (S, V), to text.

``decoders.py`` has the table of decoders (greedy, beam); ``alignment.py`` times words, ``ctc.py``
says how sure a text is, ``ngram*.py`` build and read language models.
Read ``decoders.py`` first. This file imports nothing, so `transcript` does not import torch.
"""
