"""The feature extractor of transformers with the constant of the training: 1e-5 instead of 1e-7.

This file is part of an exported model. transformers uses it with ``trust_remote_code=True``;
without, its own feature extractor makes audio below -40 dBFS louder than in training.
"""

from typing import Any

import numpy as np
from transformers import Wav2Vec2FeatureExtractor


class FairseqFeatureExtractor(Wav2Vec2FeatureExtractor):
    """Normalises to zero mean and unit variance as fairseq2 does."""

    @staticmethod
    def zero_mean_unit_var_norm(
        input_values: list[Any], attention_mask: list[Any] | None, padding_value: float = 0.0
    ) -> list[Any]:
        """Normalise each waveform, (samples,), without its padding."""
        masks = attention_mask if attention_mask is not None else map(np.ones_like, input_values)
        results = []
        for values, mask in zip(input_values, masks, strict=True):
            valid = values[: int(np.sum(mask))]
            result = np.full_like(values, padding_value)
            result[: len(valid)] = (valid - valid.mean()) / np.sqrt(valid.var() + 1e-5)
            results.append(result)
        return results
