"""Decoders: from a model's log-probabilities to text."""
