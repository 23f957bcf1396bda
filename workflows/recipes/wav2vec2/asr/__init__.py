"""The wav2vec2 CTC recipe: fine-tune omniASR models on Danish, on fairseq2's trainer."""

from danish_asr import native  # noqa: F401 - libsndfile must be loaded before fairseq2 is
