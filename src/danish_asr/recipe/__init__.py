"""The wav2vec2 CTC recipe: fine-tune and evaluate omniASR models with fairseq2's trainer."""

from danish_asr import native  # noqa: F401 - loads libsndfile, which fairseq2 needs at import
